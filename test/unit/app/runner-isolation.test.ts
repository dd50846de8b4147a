/** What the server reports about the isolation of its preview runner. */
import { expect, test } from "vitest";
import { examineIsolation, refusalOf, toIsolation } from "../../../src/app/isolation.ts";
import { loadConfig } from "../../../src/config.ts";

const version = "1.2.3";
const all = { files: "Landlock", processes: "seccomp", credentials: "a proxy", network: "a network policy" };

test("the isolation that a runner reports is in force", () => {
  const isolation = toIsolation("required", "previews:8092", { version, provided: all, missing: {} });

  expect(isolation).toEqual({ mode: "required", runner: "previews:8092", provided: all, missing: {} });
  expect(refusalOf(isolation)).toBeUndefined();
});

test("an unreachable runner has no isolation in force, and a property that a runner does not report is missing", () => {
  const away = toIsolation("auto", "previews:8092", new Error("which does not respond"));
  const { network: _, ...others } = all;
  const partial = toIsolation("required", "previews:8092", { version, provided: others, missing: {} });

  expect(away.provided).toEqual({});
  expect(refusalOf(away)).toContain("which does not respond");
  expect(partial.missing).toEqual({ network: "the preview runner does not report it" });
  expect(refusalOf(partial)).toContain("network: the preview runner does not report it");
  expect(refusalOf(toIsolation("auto", "previews:8092", undefined))).toContain("has not responded yet");
});

test("doctor names the isolation in force at the runner, forks included, and reports an unreachable runner once", async () => {
  const env = { TOWLINE_PREVIEW_ENABLED: "true", TOWLINE_PREVIEW_FORKS: "isolated" };
  const { config } = loadConfig({ env, readFile: () => "" });
  const found = async (said: Parameters<typeof toIsolation>[2]) =>
    (await examineIsolation(config, toIsolation("auto", "previews:8092", said))).map((finding) =>
      JSON.stringify(finding),
    );
  const { network: _, ...others } = all;

  const [whole, ...none] = await found({ version, provided: all, missing: {} });
  expect(whole).toContain("at the preview runner previews:8092: files (Landlock), processes (seccomp)");
  expect(whole).toContain("forks are rendered there too, without the cluster");
  expect(none).toEqual([]);
  const partial = await found({ version, provided: others, missing: { network: "it reaches DNS" } });
  expect(partial).toEqual([expect.stringMatching(/network: it reaches DNS.*nothing of forks is rendered/)]);
  const away = await found(new Error("the preview runner previews:8092, which does not respond"));
  expect(away).toEqual([expect.stringMatching(/"problem".*which does not respond.*retried/)]);
});
