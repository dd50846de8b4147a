/** The webhooks of repositories as a local GitHub and GitLab show them, why they do not arrive, and failed deliveries that are requested again. */
import { setImmediate as settled } from "node:timers/promises";
import { pino } from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import { startRedeliveriesSweep } from "../../../jobs/sweeps/redeliveries-sweep.ts";
import { examineWebhooks } from "../../../src/doctor/webhooks.ts";
import { createHostWebhooks, type HostWebhooksOptions } from "../../../src/forge/create-host-webhooks.ts";
import type { ForgeLogin } from "../../../src/forge/forge-options.ts";
import { createExplainMissed } from "../../../src/intake/explain-missed.ts";
import type { MissReason } from "../../../src/model.ts";
import type { HostWebhooks } from "../../../src/ports.ts";
import { aDeployment } from "../../support/deployments.ts";
import { silentLog } from "../../support/fakes.ts";
import type { GithubDelivery } from "../../support/github-delivery-routes.ts";
import { type GithubHost, useGithubHost } from "../../support/github-host.ts";
import { useGitlabHost } from "../../support/gitlab-host.ts";
import { patience } from "../../support/patience.ts";

const hour = 3_600_000;
const now = Date.now();
const address = (path: string, host = "towline.example.com") => ({ url: `https://${host}${path}?token=hidden` });
const ours = { events: ["push"], active: true, config: address("/webhooks/github") };

/** Why the repository's push was missed, as it is recorded. */
async function explain(webhooks: HostWebhooks | undefined, repoName: string, received: string[] = []) {
  const found = Promise.withResolvers<MissReason>();
  const counts = { matched: 0, queued: 0, ignoredMore: 0, ms: 1, deployments: [], ignored: [] };
  const { explain, stop } = createExplainMissed({
    webhooksOf: () => webhooks,
    repoNameOf: () => repoName,
    deliveries: {
      latest: async () =>
        received.map((delivery) => ({
          ...{ v: 1, forge: "github", at: now, status: 202, event: "push", delivery },
          ...counts,
        })),
    },
    store: { saveReason: async (_forge, _repo, reason) => found.resolve(reason) },
    clock: { now: () => now },
    log: silentLog,
  });
  explain("github", { v: 1, repo: "github.com/org/shop", ref: "main", since: now, lastAt: now, count: 1 });
  const reason = await found.promise;
  await stop();
  return reason;
}

/** What `towline doctor` reports about the webhooks of the repository. */
async function examine(webhooks: HostWebhooks, repoName: string) {
  const found = [{ deployment: aDeployment(), spec: {} }];
  const looker = { id: "github", repoName: () => repoName, find: webhooks.find, now: () => now };
  return (await examineWebhooks(looker, found)).map(({ level, message }) => `${level} ${message}`);
}

function connect(own: Pick<HostWebhooksOptions, "kind" | "apiUrl" | "login">) {
  return createHostWebhooks({ id: "github", log: silentLog, ...own });
}

test("GitHub, by token: the reason is in the webhook's configuration and its deliveries, page by page", async () => {
  const host = await useGithubHost();
  const { repository, logins, repoName, apiUrl } = host;
  const webhooks = connect({ kind: "github", apiUrl, login: { token: logins.token } });

  const denied = await explain(webhooks, repoName);
  expect(denied).toMatchObject({
    kind: "unreadable",
    detail: expect.stringContaining("repository_hooks=read") as string,
  });
  expect(await examine(webhooks, repoName)).toEqual([expect.stringContaining("ok ")]);
  logins.permissions = { repository_hooks: "read" };

  repository.hooks.push({
    id: 1,
    events: ["push"],
    active: true,
    config: address("/api/webhooks/7/x/github", "chat.example.com"),
  });
  expect(await explain(webhooks, repoName)).toEqual({ kind: "missing" });
  repository.hooks.push({
    id: 2,
    events: ["push"],
    active: true,
    config: address("/webhooks/gitea", "old.example.com"),
  });
  expect(await explain(webhooks, repoName)).toEqual({ kind: "address", host: "old.example.com" });
  expect(await examine(webhooks, repoName)).toEqual([
    expect.stringMatching(/^warning .*old\.example\.com has another path/),
  ]);

  const hook = { id: 3, ...ours, active: false };
  repository.hooks.push(hook);
  expect(await explain(webhooks, repoName)).toEqual({ kind: "disabled", host: "towline.example.com" });
  hook.active = true;
  expect(await explain(webhooks, repoName)).toEqual({ kind: "unsent", host: "towline.example.com" });
  expect(await examine(webhooks, repoName)).toEqual([expect.stringContaining("reports pushes")]);

  const failed = { event: "push", status: "Invalid HTTP Response: 503", status_code: 503 };
  const others = Array.from({ length: 150 }, (_, index) => ({
    ...failed,
    event: "status",
    id: 900 - index,
    guid: `o${index}`,
    at: now,
  }));
  const deliveries = [
    { ...failed, id: 1_000, guid: "c", at: now, status: "timed out" },
    ...others,
    { ...failed, id: 20, guid: "b", at: now - hour / 2 },
    { ...failed, id: 10, guid: "a", at: now - 30 * hour },
  ];
  Object.assign(hook, { deliveries });
  // The response of the last one, and none of the day before.
  expect(await explain(webhooks, repoName)).toEqual({ kind: "refused", host: "towline.example.com", count: 2 });
  expect(await examine(webhooks, repoName)).toEqual([expect.stringMatching(/^warning .* 3 deliveries to towline/)]);
  Object.assign(hook, {
    deliveries: [{ ...failed, status: "OK", id: 30, guid: "d", at: now }, ...deliveries.slice(1)],
  });
  expect(await explain(webhooks, repoName)).toMatchObject({ kind: "refused", code: 503, count: 1 });
  expect(await explain(webhooks, repoName, ["d"])).toMatchObject({ kind: "unsent" });
  expect(await explain(undefined, repoName)).toMatchObject({ kind: "unreadable" });
});

test("GitHub, as an App: its own webhook counts, and of its deliveries those about the repository", async () => {
  const host = await useGithubHost({ as: "app" });
  const { repository, logins, repoName, apiUrl } = host;
  const webhooks = connect({ kind: "github", apiUrl, login: { app: logins.app } });
  Object.assign(logins.appObject, { events: ["push", "merge_group"] });
  logins.appHook = address("/webhooks/github");
  const failed = { event: "push", at: now, status: "Invalid HTTP Response: 401", status_code: 401 };
  logins.appDeliveries.push(
    { ...failed, id: 3, guid: "b", repository_id: repository.id + 1 },
    { ...failed, id: 2, guid: "a", repository_id: repository.id },
  );
  expect(await explain(webhooks, repoName)).toMatchObject({ kind: "refused", code: 401, count: 1 });
  logins.appDeliveries.pop();
  expect(await explain(webhooks, repoName)).toMatchObject({ kind: "unsent" });
  Object.assign(logins.appObject, { events: ["merge_group"] });
  expect(await explain(webhooks, repoName)).toMatchObject({ kind: "events" });

  // Where the App has no webhook of this server, repositories have their own.
  logins.appHook = address("/other");
  expect(await explain(webhooks, repoName)).toMatchObject({
    kind: "unreadable",
    detail: expect.stringContaining("repository hooks") as string,
  });
  logins.installation!.permissions = { repository_hooks: "write" };
  repository.hooks.push({ id: 1, ...ours, events: ["*"] });
  expect(await explain(webhooks, repoName)).toMatchObject({ kind: "unsent" });
});

test("GitLab: the configuration, and whether GitLab has disabled the webhook; it lists no deliveries with times", async () => {
  const { project, bot, repoName, apiUrl } = await useGitlabHost();
  const webhooks = connect({ kind: "gitlab", apiUrl, login: { token: bot.token } });
  expect(await explain(webhooks, repoName)).toMatchObject({ kind: "unreadable" });
  bot.maintainerOf.add(project.id);
  expect(await explain(webhooks, repoName)).toEqual({ kind: "missing" });
  const events = { push_events: true, tag_push_events: true, merge_requests_events: true };
  project.hooks.push({ id: 1, ...address("/webhooks/github"), ...events, alert_status: "temporarily_disabled" });
  expect(await explain(webhooks, repoName)).toEqual({ kind: "disabled", host: "towline.example.com" });
  project.hooks[0]!.alert_status = "executable";
  expect(await explain(webhooks, repoName)).toEqual({ kind: "unlisted", host: "towline.example.com" });
});

const minute = 60_000;

/** A server that sweeps when it starts and on request, and the records of the deliveries that it accepted. */
function useSweep(host: GithubHost, login: ForgeLogin, accepted: readonly string[] = []) {
  const claims = new Set<string>();
  const requested: string[] = [];
  const warnings: string[] = [];
  const counts = { matched: 0, queued: 0, ignoredMore: 0, ms: 1, deployments: [], ignored: [] };
  const sweep = startRedeliveriesSweep({
    deployments: { all: () => [aDeployment()] },
    forges: () => [
      {
        id: "github",
        repoName: () => host.repoName,
        webhooks: createHostWebhooks({ id: "github", kind: "github", apiUrl: host.apiUrl, login, log: silentLog }),
      },
    ],
    deliveries: {
      latest: () =>
        Promise.resolve(
          accepted.map((delivery) => ({
            ...{ v: 1, forge: "github", at: 0, status: 202, event: "merge-group", delivery },
            ...counts,
          })),
        ),
    },
    queue: { claim: (what) => Promise.resolve(!claims.has(what) && Boolean(claims.add(what))) },
    observe: (forge) => void requested.push(forge),
    firstAfterMs: 0,
    clock: { now: () => Date.now() },
    log: pino({ level: "warn" }, { write: (line) => void warnings.push(line) }),
  });
  onTestFinished(() => sweep.stop());
  return { sweep, requested, warnings, claims };
}

function failures(): GithubDelivery[] {
  const now = Date.now();
  const failed = { event: "merge_group", status: "Invalid HTTP Response: 503", status_code: 503 };
  return [
    { ...failed, id: 6, guid: "works", at: now - minute, event: "push", status: "OK", status_code: 202 },
    { ...failed, id: 5, guid: "pushed", at: now - 2 * minute, event: "push" },
    { ...failed, id: 4, guid: "accepted", at: now - 3 * minute, status: "timed out", status_code: 504 },
    { ...failed, id: 3, guid: "lost", at: now - 4 * minute },
    { ...failed, id: 2, guid: "old", at: now - 4 * 24 * 60 * minute },
  ];
}

const repeated = (all: readonly GithubDelivery[]) => all.filter((one) => one.redelivery).map(({ guid }) => guid);

test("by token: of a repository's webhook, what never arrived is requested once, and not what sweeps find", async () => {
  const host = await useGithubHost();
  const { repository, logins } = host;
  logins.permissions = { repository_hooks: "write" };
  const deliveries = failures();
  const config = { url: "https://towline.example.com/webhooks/github" };
  repository.hooks.push({ id: 1, active: true, events: ["*"], config, deliveries });
  const { sweep, requested, claims } = useSweep(host, { token: logins.token }, ["accepted"]);
  await vi.waitFor(() => expect(requested).toEqual(["github"]), patience);
  expect(repeated(deliveries)).toEqual(["lost"]);

  // Another sweep is not due yet; and when it is, GitHub lists the success.
  sweep.hurry();
  await sweep.stop();
  expect(repeated(deliveries)).toEqual(["lost"]);
  claims.clear();
  const next = useSweep(host, { token: logins.token }, ["accepted"]);
  const listed = host.answered.length;
  await vi.waitFor(() => expect(host.answered.length).toBeGreaterThan(listed + 1), patience);
  await next.sweep.stop();
  expect(repeated(deliveries)).toEqual(["lost"]);
});

test("as an App: of its own webhook, with the App's login; what fails again waits", async () => {
  const host = await useGithubHost({ as: "app" });
  const { repository, logins } = host;
  repository.redeliveryStatus = "failed to connect to host";
  Object.assign(logins.appObject, { events: ["push", "merge_group"] });
  logins.appHook = { url: "https://towline.example.com/webhooks/github" };
  logins.appDeliveries.push(...failures());
  const { sweep, requested } = useSweep(host, { app: logins.app }, ["accepted"]);
  await vi.waitFor(() => expect(requested).toEqual(["github"]), patience);
  await sweep.stop();
  const next = useSweep(host, { app: logins.app }, ["accepted"]);
  const before = host.answered.length;
  await vi.waitFor(() => expect(host.answered.slice(before).join()).toContain("/app/hook/deliveries?"), patience);
  await next.sweep.stop();
  expect(repeated(logins.appDeliveries)).toEqual(["lost"]);
});

test("a login that may not read webhooks changes nothing, and a rate limit is reported once", async () => {
  const host = await useGithubHost();
  const { logins, limits, answered } = host;
  const denied = useSweep(host, { token: logins.token });
  await vi.waitFor(() => expect(answered).toHaveLength(1), patience);
  await vi.waitFor(() => {
    denied.claims.clear();
    denied.sweep.hurry();
    expect(denied.claims.size).toBe(1); // the first sweep has ended
  }, patience);
  await denied.sweep.stop();
  expect([answered.length, denied.warnings]).toEqual([1, []]);

  limits.remaining = 0;
  const limited = useSweep(host, { token: logins.token });
  await vi.waitFor(() => expect(limited.warnings).toHaveLength(1), patience);
  await settled();
  limited.claims.clear();
  limited.sweep.hurry();
  await limited.sweep.stop();
  expect(answered).toHaveLength(2);
});
