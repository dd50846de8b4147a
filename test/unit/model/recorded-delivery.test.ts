/** What a recorded delivery keeps of a payload: enough for matching, and no secret. */
import { describe, expect, test } from "vitest";
import { createWebhookSource } from "../../../src/forge/create-webhook-source.ts";
import { readHeaders } from "../../../src/forge/webhook-source.ts";
import { match } from "../../../src/intake/match.ts";
import type { ForgeKind, GitEvent, PushEvent, RepoId } from "../../../src/model.ts";
import { RecordedContent, toGitEvent, toRecordedEvent } from "../../../src/model/recorded-delivery.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { matchPullRequest } from "../../../src/preview/match.ts";
import {
  type Delivery,
  giteaDeliveries,
  githubDeliveries,
  githubEvents,
  gitlabDelivery,
  gitlabMergeRequest,
  gitlabPush,
  gitlabTagPush,
} from "../../support/deliveries.ts";
import { aDeployment } from "../../support/deployments.ts";

const canary = "CANARY-4f1d";

const hosts: readonly (readonly [ForgeKind, readonly Delivery[]])[] = [
  ["github", githubEvents.flatMap(githubDeliveries)],
  ["gitea", giteaDeliveries().filter(({ body }) => body.startsWith("{"))], // one is a form, which is rejected
  [
    "gitlab",
    [
      ...[gitlabPush(), gitlabTagPush(), gitlabMergeRequest(), gitlabMergeRequest({ action: "close" })],
      gitlabMergeRequest({ action: "update", oldrev: "1".repeat(40) }),
    ].map(gitlabDelivery),
  ],
];

function parse(kind: ForgeKind, { rawHeaders }: Delivery, payload: unknown): GitEvent {
  const source = createWebhookSource({ id: kind, kind, secrets: [], allowUnsigned: true });
  return source.parse(readHeaders(rawHeaders), Buffer.from(JSON.stringify(payload)));
}

/** Names and addresses of the repository, refs, commits, actions and paths: what matching reads. */
const read = [
  /^(?:repository|project)\.(?:full_name|path_with_namespace|default_branch)$/,
  /^(?:ref|ref_type|before|after|checkout_sha|action|object_kind|event_name)$/,
  /^commits\.\d+\.(?:id|added\.\d+|modified\.\d+|removed\.\d+)$/,
  /^head_commit\.id$/,
  /^pull_request\.(?:head\.(?:sha|ref|label)|base\.ref)$/,
  /^merge_group\.(?:head_sha|head_ref|base_sha)$/,
  /^object_attributes\.(?:action|target_branch|oldrev|last_commit\.id)$/,
];
const address = /^(?:repository|project)\.(?:(?:clone|ssh|git|html|web)_url|git_(?:http|ssh)_url)$/;

/** The payload with a canary in each other text, in each address, and in fields that hosts may add. */
function withCanaries(value: unknown, path: readonly string[] = []): unknown {
  const place = path.join(".");
  if (typeof value === "string") {
    if (address.test(place)) return withLogin(value);
    return read.some((pattern) => pattern.test(place)) ? value : `${canary} ${value}`;
  }
  if (Array.isArray(value)) return value.map((item, at) => withCanaries(item, [...path, String(at)]));
  if (typeof value !== "object" || value === null) return value;
  const own = Object.entries(value).map(([key, child]) => [key, withCanaries(child, [...path, key])] as const);
  return { token: canary, email: `${canary}@example.com`, ...Object.fromEntries(own), access_token: canary };
}

function withLogin(url: string): string {
  if (!/^[a-z]+:\/\//.test(url)) return url.replace(/^(?:[^@]*@)?/, `${canary}@`);
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${canary}:${canary}@${host}${pathname}?private_token=${canary}#${canary}`;
}

describe.each(hosts)("%s", (kind, deliveries) => {
  test("no text of a payload that matching does not read is recorded, and no login of an address", () => {
    const kinds = new Set<string>();
    for (const delivery of deliveries) {
      const plain = parse(kind, delivery, JSON.parse(delivery.body));
      const event = parse(kind, delivery, withCanaries(JSON.parse(delivery.body)));
      expect(event.kind).toBe(plain.kind);
      const recorded = toRecordedEvent(event);
      if (event.kind === "ping" || event.kind === "irrelevant") {
        expect(recorded).toBeUndefined();
        continue;
      }
      kinds.add(event.kind);
      const [repos, before] = [recorded?.repoUrls ?? [], "repoUrls" in plain ? plain.repoUrls : []];
      expect(new Set(repos.map(repoId))).toEqual(new Set(before.map(repoId)));
      const content: RecordedContent = { v: 1, host: kind, event: recorded as never };
      expect(JSON.stringify(RecordedContent.parse(content))).not.toContain(canary);
    }
    expect([...kinds]).toEqual(expect.arrayContaining(["push", "pull-request"]));
  });

  test("a recorded delivery affects the same deployments, for the same reasons, as it did", () => {
    let compared = 0;
    for (const delivery of deliveries) {
      const event = parse(kind, delivery, JSON.parse(delivery.body));
      const recorded = toRecordedEvent(event);
      if (recorded === undefined) continue;
      const again = toGitEvent({ forge: event.forge, delivery: event.delivery, at: 0, host: kind, event: recorded });
      if (event.kind === "push") expect(matched(again as PushEvent)).toEqual(matched(event));
      if (event.kind === "pull-request") expect(previewed(again as typeof event)).toEqual(previewed(event));
      compared++;
    }
    expect(compared).toBeGreaterThan(3);
  });
});

function deploymentsOf({ repoUrls }: Pick<PushEvent, "repoUrls">) {
  const refs = [undefined, "main", "master", "changes", "simple-tag"];
  return refs.flatMap((branch) =>
    ["", "shop", "app"].map((path) =>
      aDeployment({
        key: { namespace: "shop", name: `${branch}-${path}` },
        repo: repoId(repoUrls[0] ?? "") as RepoId,
        spec: { source: { url: repoUrls[0] ?? "", ref: branch === undefined ? {} : { branch }, path } },
      }),
    ),
  );
}

function matched(event: PushEvent) {
  const { requests, ignored } = match(event, deploymentsOf(event));
  return { requests: requests.map(({ deployment }) => deployment.name), ignored };
}

function previewed(event: Extract<GitEvent, { kind: "pull-request" }>) {
  const { concerned, ignored } = matchPullRequest(event, deploymentsOf(event));
  return { concerned: concerned.map(({ key }) => key.name), ignored };
}

test("paths are recorded only if they can decide, and not if they are too many", () => {
  const push = (complete: boolean, paths: readonly string[]): PushEvent => ({
    ...{ kind: "push", forge: "gitea", delivery: "d", repoUrls: ["https://git.example.com/shop"], repoName: "shop" },
    ...{ ref: "refs/heads/main", change: "updated", after: "a".repeat(40), changed: { complete, paths } },
  });
  expect(toRecordedEvent(push(true, ["shop/a"]))).toMatchObject({ paths: ["shop/a"] });
  expect(toRecordedEvent(push(false, ["shop/a"]))).not.toHaveProperty("paths");
  const many = toRecordedEvent(
    push(
      true,
      Array.from({ length: 2_000 }, (_, n) => `${n}/${"a".repeat(60)}`),
    ),
  );
  expect(many).toMatchObject({ pathsOmitted: true });
  expect(JSON.stringify(many).length).toBeLessThan(1_000);
});
