/**
 * The deliveries that a real Gitea sends about pull requests, the events they become, and the webhooks that send them.
 */
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { createHostWebhooks } from "../../../src/forge/create-host-webhooks.ts";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { type DeliveryHeaders, readHeaders } from "../../../src/forge/webhook-source.ts";
import type { GitEvent } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";
import { removeSharedInGitea, useGiteaHost } from "../../support/gitea-host.ts";
import { ensure, secret, url } from "../../support/hooks.ts";
import { patience } from "../../support/patience.ts";

afterAll(removeSharedInGitea);

/** A server that receives deliveries and rejects those for which `receive` returns false; returns its address. */
async function useReceiver(receive: (headers: DeliveryHeaders, body: Buffer) => Promise<boolean>): Promise<string> {
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      void receive(readHeaders(req.rawHeaders), Buffer.concat(chunks)).then((taken) =>
        res.writeHead(taken ? 202 : 401).end(),
      );
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A webhook registered for all of Gitea's events about pull requests. */
async function useDeliveries() {
  const host = await useGiteaHost();
  const source = createWebhookSource({ id: "our-gitea", kind: "gitea", secrets: [secret], allowUnsigned: false });
  const events: GitEvent[] = [];
  const address = await useReceiver(async (headers, body) => {
    const { genuine } = await source.verify(headers, body);
    if (genuine) events.push(source.parse(headers, body));
    return genuine;
  });
  await host.call("POST", `/repos/${host.repoName}/hooks`, {
    ...{ type: "gitea", active: true, branch_filter: "*", config: { url: address, secret, content_type: "json" } },
    events: ["pull_request", "pull_request_sync", "pull_request_label", "pull_request_comment"],
  });
  return { host, events };
}

/** Gitea sends deliveries with a delay: one action at a time, so that they arrive in the order of the actions. */
test("each action on a pull request arrives as the matching event", async () => {
  const { host, events } = await useDeliveries();
  const seen = () => events.map((event) => (event.kind === "pull-request" ? event.action : event.kind));
  const expected: string[] = [];
  async function happens(action: string, act: () => Promise<unknown>): Promise<void> {
    await act();
    expected.push(action);
    await expect.poll(seen, patience).toEqual(expected);
  }

  let number = 0;
  await happens("opened", async () => {
    ({ number } = await host.openPullRequest());
  });
  const edit = (changes: object) => host.call("PATCH", `/repos/${host.repoName}/pulls/${number}`, changes);
  let head = "";
  await happens("updated", async () => {
    head = await host.push(number);
  });
  expect(events.at(-1)).toMatchObject({ number, head, baseBranch: "main", fork: false, repoName: host.repoName });
  await happens("retargeted", () => host.retarget(number, "release"));
  expect(events.at(-1)).toMatchObject({ number, head, baseBranch: "release" });
  await happens("draft-changed", () => host.setDraft(number, true));
  await happens("draft-changed", () => host.setDraft(number, false));
  await happens("other", () => edit({ title: "Change something" }));
  await happens("other", () => edit({ body: "Why it is changed" }));
  const { id } = await host.call<{ id: number }>("POST", `/repos/${host.repoName}/labels`, {
    name: "important",
    color: "#aa0000",
  });
  await happens("other", () => host.call("POST", `/repos/${host.repoName}/issues/${number}/labels`, { labels: [id] }));
  await happens("irrelevant", () => host.somebodyComments(number, ["a comment"]));
  await happens("closed", () => host.close(number));
  await happens("reopened", () => edit({ state: "open" }));
  await happens("closed", () => host.merge(number));
});

test("a pull request from a fork arrives marked as one", async () => {
  const { host, events } = await useDeliveries();
  const { head, number } = await host.openPullRequest({ fork: true });
  await expect
    .poll(() => events, patience)
    .toMatchObject([{ kind: "pull-request", action: "opened", number, head, fork: true, repoName: host.repoName }]);
});

test("a pull request that is opened as a draft arrives as opened", async () => {
  const { host, events } = await useDeliveries();
  await host.openPullRequest({ draft: true });
  await expect.poll(() => events, patience).toMatchObject([{ kind: "pull-request", action: "opened" }]);
});

const newSecret = "another-secret-of-this-test";

interface Hook {
  readonly id: number;
  readonly active: boolean;
  readonly events: readonly string[];
  readonly config: { readonly url: string; readonly content_type: string };
  readonly branch_filter: string;
  readonly authorization_header: string;
}

async function useEnsure() {
  const host = await useGiteaHost();
  const [, adminToken = ""] = host.secrets;
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  const tokenFile = join(dir, "admin.token");
  writeFileSync(tokenFile, `${adminToken}\n`);
  const env = { TOWLINE_GITEA_WEBHOOK_SECRET: secret, TOWLINE_GITEA_API_URL: host.apiUrl };
  const hooks = () => host.call<Hook[]>("GET", `/repos/${host.repoName}/hooks`);
  const asAdmin = (argv: readonly string[], more: Record<string, string> = {}) =>
    ensure([host.repoName, "--token-file", tokenFile, ...argv], { ...env, ...more }, host.secrets);
  return { host, env, hooks, asAdmin };
}

test("a webhook is created once, its deliveries are genuine, and a new secret replaces the old one", async () => {
  const { host, hooks, asAdmin } = await useEnsure();
  const secrets: string[] = [];
  const address = await useReceiver(async (headers, body) => {
    for (const one of [secret, newSecret]) {
      const source = createWebhookSource({ id: "gitea", kind: "gitea", secrets: [one], allowUnsigned: false });
      if ((await source.verify(headers, body)).genuine) secrets.push(one);
    }
    return true;
  });
  const here = ["--url", address];

  const dry = await asAdmin([...here, "--dry-run"]);
  expect(dry).toMatchObject({ code: 0, results: [{ name: host.repoName, result: "created" }] });
  expect(await hooks()).toEqual([]);
  expect(await asAdmin(here)).toMatchObject({ code: 0, results: [{ result: "created" }] });
  expect(await asAdmin(here)).toMatchObject({ code: 0, results: [{ result: "unchanged", why: [] }] });
  // The address of the webhook itself, as the git host's page shows it.
  for (const given of ["/webhooks/gitea", "/webhooks/gitea/", "/webhooks"]) {
    expect(await asAdmin(["--url", address + given])).toMatchObject({ code: 0, results: [{ result: "unchanged" }] });
  }
  expect(await asAdmin(["--url", `${address}/webhooks/github`])).toMatchObject({
    code: 2,
    err: "towline: no forge github is configured; configured: gitea\n",
  });
  const [made, ...others] = await hooks();
  expect(others).toEqual([]);
  expect(made?.config.url).toBe(new URL("webhooks/gitea", address).href);
  // No other events: our own comments would come back as deliveries.
  const events = ["delete", "pull_request", "pull_request_sync", "push"];
  expect(made?.events.toSorted()).toEqual(events);
  await host.call("POST", `/repos/${host.repoName}/hooks/${made?.id}/tests`);
  await vi.waitFor(() => expect(secrets).toEqual([secret]), patience);

  const more = { TOWLINE_GITEA_WEBHOOK_SECRET: newSecret };
  const why = ["the secret was set again"];
  expect(await asAdmin([...here, "--rotate"], more)).toMatchObject({
    code: 0,
    results: [{ result: "repaired", why }],
  });
  const [rotated, ...rest] = await hooks();
  expect(rest).toEqual([]);
  expect(rotated?.events.toSorted()).toEqual(events);
  await host.call("POST", `/repos/${host.repoName}/hooks/${rotated?.id}/tests`);
  await vi.waitFor(() => expect(secrets).toEqual([secret, newSecret]), patience);
});

test("differences are corrected, additional events stay, and webhooks of others are not touched", async () => {
  const { host, env, hooks, asAdmin } = await useEnsure();
  const make = (config: object, more: object = {}) =>
    host.call("POST", `/repos/${host.repoName}/hooks`, { type: "gitea", config, events: ["push"], ...more });
  await make({ url: "https://example.com/webhooks/gitea", content_type: "form", secret: "theirs" });
  await make(
    { url: `${url}/webhooks/gitea/`, content_type: "form", secret: "ours" },
    {
      ...{ active: false, events: ["push", "release"], branch_filter: "main" },
      authorization_header: "Bearer of-a-proxy",
    },
  );
  const [theirs] = await hooks();
  const result = await asAdmin(["--url", url]);
  expect(result).toMatchObject({ code: 0, results: [{ result: "repaired" }] });
  expect(result.results[0]?.why).toEqual([
    "it did not send delete, pull_request, pull_request_sync",
    "its content type was not application/json",
    "it was not active",
  ]);
  expect(await asAdmin(["--url", url])).toMatchObject({ code: 0, results: [{ result: "unchanged" }] });
  const [still, ours, ...others] = await hooks();
  expect([still, others]).toEqual([theirs, []]);
  expect(ours).toMatchObject({ active: true, branch_filter: "main", authorization_header: "Bearer of-a-proxy" });
  expect(ours?.config.content_type).toBe("json");
  expect(ours?.events).toEqual(expect.arrayContaining(["push", "release", "delete", "pull_request_sync"]));
  const [, token = ""] = host.secrets;
  const reader = createHostWebhooks({
    id: "gitea",
    kind: "gitea",
    apiUrl: host.apiUrl,
    login: { token },
    log: silentLog,
  });
  expect(await reader.find(host.repoName)).toMatchObject({
    ours: [{ host: "example.com" }, { host: new URL(url).host, isEnabled: true, sendsPushes: true }],
  });

  const [botToken = ""] = host.secrets;
  const asBot = { ...env, TOWLINE_GITEA_TOKEN: botToken };
  const denied = await ensure([host.repoName, "org/nowhere", "--url", url], asBot, host.secrets);
  expect(denied).toMatchObject({ code: 1, results: [{ result: "failed" }, { result: "failed" }] });
  expect(denied.results[0]?.why.join()).toContain("(403)");
  expect(denied.results[0]?.why.join()).toContain("administrator rights on the repository");
});
