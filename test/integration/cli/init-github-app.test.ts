/** `towline init --github-app` with a local GitHub; the test takes the browser's role. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadConfig } from "../../../src/config.ts";
import { manifestFormUrl } from "../../../src/forge/github-manifest.ts";
import { towline } from "../../support/command-line.ts";
import { useGithubHost } from "../../support/github-host.ts";

/** Runs the command, and returns the page on which it waits for the user. */
async function useInit(...argv: string[]) {
  const host = await useGithubHost({ as: "app" });
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const file = join(dir, "conf", "towline.yaml");
  const page = Promise.withResolvers<string>();
  const init = ["init", "--url", "https://towline.example.com/base", "--api-url", host.apiUrl, "--github-app"];
  const ended = towline([...init, "--file", file, ...argv], {
    err: (text) => {
      const found = /http:\/\/127\.0\.0\.1:\d+\/\w+/.exec(text)?.[0];
      if (found) page.resolve(found);
    },
  });
  const address = await page.promise;
  const shown = await fetch(address);
  const html = (await shown.text()).replaceAll("&quot;", '"').replaceAll("&amp;", "&");
  const action = new URL(/action="([^"]*)"/.exec(html)?.[1] ?? "");
  const manifest = JSON.parse(/name="manifest" value="(\{.*\})"/.exec(html)?.[1] ?? "") as Record<string, unknown>;
  return { host, file, ended, address, shown, action, manifest };
}

/** The URL to which GitHub redirects the browser. */
function answerOf(manifest: Record<string, unknown>, code: string, state: string): string {
  const url = new URL(String(manifest["redirect_url"]));
  url.search = new URLSearchParams({ code, state }).toString();
  return url.href;
}

test("one click creates the App, and only their owner can read the files with its key and secret", async () => {
  const { host, file, ended, address, shown, action, manifest } = await useInit("--organization", "Example-Org");
  expect(shown.headers.get("content-security-policy")).toContain("default-src 'none'");
  expect(`${action.origin}${action.pathname}`).toBe(
    `${new URL(host.apiUrl).origin}/organizations/Example-Org/settings/apps/new`,
  );
  expect(manifest).toMatchObject({
    name: "Towline Example-Org",
    hook_attributes: { url: "https://towline.example.com/base/webhooks/github", active: true },
    default_permissions: {
      ...{ metadata: "read", contents: "read", pull_requests: "write", checks: "write", statuses: "write" },
      merge_queues: "read",
    },
    default_events: ["push", "pull_request", "merge_group"],
    public: false,
  });

  const state = action.searchParams.get("state") ?? "";
  host.logins.manifestCodes.add("a-code");
  const forged = await fetch(answerOf(manifest, "a-code-of-somebody-else", "a-guess"));
  expect(forged.status).toBe(400);
  expect((await fetch(new URL("/", address))).status).toBe(404);
  expect(existsSync(file)).toBe(false);

  const done = await fetch(answerOf(manifest, "a-code", state));
  expect(await done.text()).toContain("/apps/towline-test/installations/new");
  const { code, out } = await ended;
  expect(out).toContain("/apps/towline-test/installations/new\n");
  expect(code).toBe(0);

  const readFile = (path: string) => readFileSync(path, "utf8");
  const [forge] = loadConfig({ env: {}, argvFlags: { config: file }, readFile }).config.forges;
  const { appId, privateKey } = host.logins.app;
  expect(forge).toMatchObject({ id: "github", apiUrl: host.apiUrl, app: { id: appId } });
  expect(forge?.app?.privateKey.reveal().trim()).toBe(privateKey.trim());
  const secret = forge?.webhookSecrets[0]?.reveal() ?? "";
  expect(secret).toBe("e340154128314309424b7c8e90325147d99fdafa");
  for (const name of ["github-app.pem", "github-webhook.secret"]) {
    expect(statSync(join(file, "..", name)).mode & 0o777).toBe(0o600);
  }
  expect(out).not.toContain(secret);
  expect(out + readFile(file)).not.toContain("PRIVATE KEY");
  // The page is no longer served.
  await expect(fetch(address)).rejects.toThrow("fetch failed");
});

test("a code that GitHub rejects is reported in the browser and the terminal, and nothing is written", async () => {
  const { file, ended, action, manifest } = await useInit();
  expect(action.pathname).toBe("/settings/apps/new");
  const answer = await fetch(answerOf(manifest, "an-old-code", action.searchParams.get("state") ?? ""));
  expect(answer.status).toBe(502);
  expect(await answer.text()).toContain("cannot fetch the new App's key");
  expect(await ended).toMatchObject({ code: 1, out: "" });
  expect(existsSync(file)).toBe(false);
});

test("the form for a new App is found on github.com, GitHub Enterprise Server and ghe.com", () => {
  expect(manifestFormUrl(undefined, undefined, "s")).toBe("https://github.com/settings/apps/new?state=s");
  expect(manifestFormUrl("https://git.example.com/api/v3", "a b", "s")).toBe(
    "https://git.example.com/organizations/a%20b/settings/apps/new?state=s",
  );
  expect(manifestFormUrl("https://api.example.ghe.com/", "o", "s")).toBe(
    "https://example.ghe.com/organizations/o/settings/apps/new?state=s",
  );
});

test("options that do not go with an App are rejected before anything is created", async () => {
  const init = (...argv: string[]) =>
    towline(["init", "--url", "https://towline.example.com", "--github-app", ...argv]);
  expect(await init("--forge", "gitlab", "--api-url", "https://gitlab.example.com/api/v4")).toMatchObject({ code: 2 });
  expect((await init("--ensure-webhooks", "--token-file", "x")).err).toContain("an App has its own webhook");
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  expect((await init("--app-port", "x", "--file", join(dir, "towline.yaml"))).err).toContain(
    '--app-port: "x" is not a port',
  );
});
