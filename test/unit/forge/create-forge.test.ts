import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { createForge } from "../../../src/forge/create-forge.ts";
import { silentLog } from "../../support/fakes.ts";

const common = { id: "ours", login: { token: "a-token" }, log: silentLog } as const;

test.each([
  ["gitea", "https://git.example.com/api/v1", 65_536],
  ["gitlab", "https://gitlab.example.com/api/v4", 1_000_000],
  ["gitlab", undefined, 1_000_000],
  ["github", undefined, 65_536],
] as const)("a %s at %s can be one of several forges", async (kind, apiUrl, maxCommentLength) => {
  const forge = await createForge({ ...common, kind, apiUrl });
  expect(forge).toMatchObject({ id: "ours", kind, maxCommentLength });
});

test("options that cannot work are reported at the start", async () => {
  await expect(createForge({ ...common, kind: "gitea" })).rejects.toThrow("apiUrl");
  const login = { app: { appId: "7", privateKey: "" } };
  await expect(createForge({ ...common, kind: "gitlab", login })).rejects.toThrow("only GitHub supports Apps");
});

test("GitLab's client library of 20 MB is loaded only if a GitLab is configured", async () => {
  const script = `
    import { registerHooks } from "node:module";
    registerHooks({ load: (url, context, next) => (/gitbeaker/.test(url) && console.log(url), next(url, context)) });
    const { createForge } = await import("./src/forge/create-forge.ts");
    const options = { id: "ours", login: { token: "a-token" }, apiUrl: "https://git.example.com/api" };
    await createForge({ ...options, kind: "gitea" });
    console.log("gitlab:");
    await createForge({ ...options, kind: "gitlab" });
  `;
  const root = new URL("../../../", import.meta.url);
  const args = ["--input-type=module", "--eval", script];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  const [before, after] = stdout.split("gitlab:\n");
  expect(before).toBe("");
  expect(after).toContain("gitbeaker");
});
