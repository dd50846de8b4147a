/** What a real Gitea sends about pull requests, and what it is taken for. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import type { GitEvent } from "../../../src/model.ts";
import { removeSharedInGitea, useGiteaHost } from "../../support/gitea-host.ts";
import { patience } from "../../support/patience.ts";

afterAll(removeSharedInGitea);

const secret = "a-secret-of-this-test";

/** Registered for all that Gitea tells about pull requests. */
async function useDeliveries() {
  const host = await useGiteaHost();
  const source = createWebhookSource({ id: "our-gitea", kind: "gitea", secrets: [secret], allowUnsigned: false });
  const events: GitEvent[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const body = Buffer.concat(chunks);
      const headers = readHeaders(req.rawHeaders);
      void source.verify(headers, body).then(({ genuine }) => {
        if (genuine) events.push(source.parse(headers, body));
        res.writeHead(genuine ? 202 : 401).end();
      });
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  await host.call("POST", `/repos/${host.repoName}/hooks`, {
    ...{ type: "gitea", active: true, branch_filter: "*", config: { url, secret, content_type: "json" } },
    events: ["pull_request", "pull_request_sync", "pull_request_label", "pull_request_comment"],
  });
  return { host, events };
}

/** Gitea sends when it gets to it: one thing after the other, so that the order is that of what happened. */
test("each thing that happens to a pull request arrives as what it is", async () => {
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

test("a pull request from a fork arrives as one", async () => {
  const { host, events } = await useDeliveries();
  const { head, number } = await host.openPullRequest({ fork: true });
  await expect
    .poll(() => events, patience)
    .toMatchObject([{ kind: "pull-request", action: "opened", number, head, fork: true, repoName: host.repoName }]);
});

test("one that is opened as a draft is opened", async () => {
  const { host, events } = await useDeliveries();
  await host.openPullRequest({ draft: true });
  await expect.poll(() => events, patience).toMatchObject([{ kind: "pull-request", action: "opened" }]);
});
