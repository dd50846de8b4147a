/** `towline webhook ensure` against a local GitHub and GitLab. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { towline } from "../../support/command-line.ts";
import { useFakeApiServer } from "../../support/fake-api-server.ts";
import { useGithubHost } from "../../support/github-host.ts";
import { useGitlabHost } from "../../support/gitlab-host.ts";
import { ensure, secret, url } from "../../support/hooks.ts";

describe("GitHub", () => {
  test("by token: the webhook is created once, corrected without losing its secret, and set again on request", async () => {
    const host = await useGithubHost();
    const { repository, logins } = host;
    logins.permissions = { repository_hooks: "write" };
    const env = {
      ...{ TOWLINE_GITHUB_WEBHOOK_SECRET: secret, TOWLINE_GITHUB_API_URL: host.apiUrl },
      TOWLINE_GITHUB_TOKEN: logins.token,
    };
    const call = (...argv: string[]) => ensure([host.repoName, "--url", url, ...argv], env, host.secrets);
    expect(await call("--dry-run")).toMatchObject({ code: 0, results: [{ result: "created" }] });
    expect(repository.hooks).toEqual([]);
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "created" }] });
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "unchanged" }] });
    const config = { url: `${url}/webhooks/github`, content_type: "json", insecure_ssl: "0", secret };
    const events = ["push", "pull_request"];
    expect(repository.hooks).toEqual([{ id: 1, active: true, events, config }]);

    const [hook] = repository.hooks;
    Object.assign(hook!, { active: false, events: ["push", "release"] });
    Object.assign(hook!.config, { content_type: "form", secret: "an older one" });
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "repaired" }] });
    expect(hook).toMatchObject({ active: true, events: ["push", "release", "pull_request"] });
    expect(hook!.config).toEqual({ ...config, secret: "an older one" });
    expect(await call("--rotate")).toMatchObject({ code: 0, results: [{ why: ["the secret was set again"] }] });
    expect(hook!.config).toEqual(config);
    delete hook!.config["secret"];
    expect(await call()).toMatchObject({ code: 0, results: [{ why: ["it had no secret"] }] });
    expect(hook!.config).toEqual(config);

    logins.permissions = { pull_requests: "write" };
    const denied = await call();
    expect(denied).toMatchObject({ code: 1, results: [{ result: "failed" }] });
    expect(denied.results[0]?.why.join()).toContain("it needs repository_hooks=read");

    host.limits.remaining = 1;
    const spent = await ensure([host.repoName, "org/other", "--url", url], env, host.secrets);
    host.limits.remaining = 0;
    const again = await ensure([host.repoName, "org/other", "--url", url], env, host.secrets);
    expect(spent.code).toBe(1);
    expect(again.results.map(({ why }) => why.join())).toEqual([
      expect.stringContaining("rate limit of the token exceeded"),
      expect.stringContaining("not checked: the host's rate limit is exceeded for"),
    ]);
  });

  test("as an App: the App's own webhook, its events, and repositories without an installation", async () => {
    const host = await useGithubHost({ as: "app" });
    const { logins } = host;
    const file = join(mkdtempSync(join(tmpdir(), "towline-test-")), "app.pem");
    onTestFinished(() => rmSync(join(file, ".."), { recursive: true }));
    writeFileSync(file, logins.app.privateKey);
    const env = {
      ...{ TOWLINE_GITHUB_WEBHOOK_SECRET: secret, TOWLINE_GITHUB_API_URL: host.apiUrl },
      ...{ TOWLINE_GITHUB_APP_ID: logins.app.appId, TOWLINE_GITHUB_APP_PRIVATE_KEY_FILE: file },
    };
    const call = (...argv: string[]) => ensure([host.repoName, "--url", url, ...argv], env, host.secrets);
    Object.assign(logins.appObject, { events: ["push", "pull_request"] });
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "repaired" }, { result: "unchanged" }] });
    const config = { url: `${url}/webhooks/github`, content_type: "json", insecure_ssl: "0", secret };
    expect(logins.appHook).toEqual(config);
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "unchanged" }, { result: "unchanged" }] });

    Object.assign(logins.appObject, { events: ["push"] });
    logins.installation = undefined;
    const lacking = await call();
    expect(lacking.code).toBe(1);
    expect(lacking.results.map(({ why }) => why.join())).toEqual([
      expect.stringContaining("it does not send pull_request: subscribe"),
      expect.stringContaining("/apps/towline-test/installations/new"),
    ]);

    logins.appHook = { ...config, url: "https://other.example.com/hook" };
    const other = await call("--rotate");
    expect(other).toMatchObject({ code: 1, results: [{ result: "failed" }, { result: "failed" }] });
    expect(other.results[0]?.why.join()).toContain("it sends to other.example.com");
    expect(logins.appHook["url"]).toBe("https://other.example.com/hook");
  });
});

describe("GitLab", () => {
  test("webhooks are created once for the repositories that deployments follow, corrected, and enabled again", async () => {
    const host = await useGitlabHost();
    const { project, bot, state } = host;
    const api = await useFakeApiServer();
    api.add("prod", { spec: { interval: "5m", source: { git: { url: host.repoUrl, ref: { branch: "main" } } } } });
    api.add("blog", { spec: { interval: "5m", source: { git: { url: "https://git.example.com/blog" } } } });
    const env = {
      ...{ TOWLINE_GITLAB_WEBHOOK_SECRET: secret, TOWLINE_GITLAB_API_URL: host.apiUrl },
      ...{ TOWLINE_GITLAB_TOKEN: bot.token, TOWLINE_KUBERNETES_KUBECONFIG: api.kubeconfig },
    };
    const call = (...argv: string[]) => ensure(["--url", url, ...argv], env, host.secrets);
    const denied = await call();
    expect(denied).toMatchObject({ code: 1, results: [{ result: "failed" }] });
    expect(denied.results[0]?.why.join()).toContain("the role Maintainer in the project");

    bot.maintainerOf.add(project.id);
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "created" }] });
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "unchanged" }] });
    const all = { push_events: true, tag_push_events: true, merge_requests_events: true };
    expect(project.hooks).toMatchObject([{ url: `${url}/webhooks/gitlab`, ...all, token: secret }]);

    const [hook] = project.hooks;
    Object.assign(hook!, { tag_push_events: false, alert_status: "disabled", token: "an older one" });
    const cannot = await call();
    expect(cannot.code).toBe(1);
    expect(cannot.results[0]?.why.join()).toContain("can GitLab reach the server?");
    state.deliversTests = true;
    expect(await call()).toMatchObject({ code: 0, results: [{ result: "repaired" }] });
    expect(hook).toMatchObject({ ...all, alert_status: "executable", token: "an older one" });
    expect(await call("--rotate")).toMatchObject({ code: 0, results: [{ result: "repaired" }] });
    expect(hook?.token).toBe(secret);

    const signing = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
    const signed = { ...env, TOWLINE_GITLAB_WEBHOOK_SECRET: signing };
    const why = ["it had no secret"];
    expect(await ensure(["--url", url], signed, [signing])).toMatchObject({ code: 0, results: [{ why }] });
    expect(hook?.signing_token).toBe(signing);
  });
});

test("init creates the webhooks as well, with a token that it does not store", async () => {
  const host = await useGitlabHost();
  host.bot.maintainerOf.add(host.project.id);
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const [file, tokenFile] = [join(dir, "towline.yaml"), join(dir, "admin.token")];
  writeFileSync(tokenFile, host.bot.token);
  const init = ["init", "--forge", "gitlab", "--url", url, "--api-url", host.apiUrl, "--file", file];
  const call = (...argv: string[]) => towline([...init, "--ensure-webhooks", "--repo", host.repoName, ...argv]);
  expect(await call()).toMatchObject({ code: 2, err: expect.stringContaining("--token-file") as string });
  const { code, out } = await call("--token-file", tokenFile);
  expect(out).toMatch(/Shop_v-1\.2 +created\n/);
  expect(code).toBe(0);
  const made = readFileSync(join(dir, "gitlab-webhook.secret"), "utf8").trim();
  expect(host.project.hooks).toMatchObject([{ url: `${url}/webhooks/gitlab`, token: made }]);
  expect(out + readFileSync(file, "utf8")).not.toContain(host.bot.token);
  expect(out).not.toContain(made);
});

test("what cannot work is reported before any request is sent", async () => {
  const env = { TOWLINE_GITHUB_WEBHOOK_SECRET: secret, TOWLINE_GITLAB_WEBHOOK_SECRET: secret };
  const call = (...argv: string[]) => towline(["webhook", "ensure", ...argv], { env });
  expect((await call("org/shop")).err).toContain("--url");
  expect(await call("shop", "--url", url)).toMatchObject({ code: 2 });
  expect((await call("org/shop", "--url", url)).err).toContain("use --forge to select one");
  expect((await call("org/shop", "--url", "ftp://x", "--forge", "github")).err).toContain("is not an address");
  const without = await call("org/shop", "--url", url, "--forge", "github");
  expect(without).toMatchObject({ code: 1 });
  expect(without.out).toContain("FAILED  the forge has no login for its API; pass a token with --token-file");
});
