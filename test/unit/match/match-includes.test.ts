/** Which deployments a push to a repository affects that their projects include. */
import { expect, test } from "vitest";
import { matchIncludes } from "../../../src/intake/match-includes.ts";
import { reposOf, type Matched } from "../../../src/intake/match.ts";
import { annotation, type Deployment, type PushEvent } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { aDeployment, aSpec } from "../../support/deployments.ts";

const library = "https://git.example.com/org/library";
const nothing: Matched = { requests: [], ignored: [] };

function push(overrides: Partial<PushEvent> = {}): PushEvent {
  return {
    kind: "push",
    forge: "gitea",
    delivery: "d1",
    sender: "ada",
    repoUrls: [`${library}.git`],
    repoName: "org/library",
    ref: "refs/heads/main",
    change: "updated",
    after: "1".repeat(40),
    defaultBranch: "main",
    changed: { complete: true, paths: [] },
    ...overrides,
  };
}

/** A deployment whose last deploy recorded these includes. */
function including(includes: readonly string[], { name = "shop", suspend = false, annotations = {} } = {}): Deployment {
  const source = { ...aSpec().source, url: "https://git.example.com/org/shop" };
  return aDeployment({
    key: { namespace: "shop", name },
    repo: repoId(source.url)!,
    spec: { source, suspend },
    annotations: { [annotation.includes]: includes.join("\n"), ...annotations },
  });
}

const matched = (event: PushEvent, deployments: readonly Deployment[], followed = nothing) =>
  matchIncludes(event, deployments, reposOf(event), followed);

/** "matched", or the reason why the deployment was ignored. */
function outcome(event: PushEvent, deployment: Deployment): string | undefined {
  const { requests, ignored } = matched(event, [deployment]);
  return requests.length > 0 ? "matched" : ignored[0]?.reason;
}

const request = (name: string, cause: "push" | "include") => ({
  kind: "reconcile" as const,
  deployment: { namespace: "shop", name },
  cause,
  repo: repoId("https://git.example.com/org/shop")!,
  delivery: "d1",
  sender: "ada",
});

test("a push to an included repository requests the deployment, about its own repository", () => {
  expect(matched(push(), [including([library])])).toEqual({ requests: [request("shop", "include")], ignored: [] });
});

test("a deployment that follows the repository as well is requested once", () => {
  const followed = { requests: [request("shop", "push")], ignored: [] };
  const deployments = [including([library]), including([library], { name: "site" })];
  expect(matched(push(), deployments, followed).requests).toEqual([
    request("shop", "push"),
    request("site", "include"),
  ]);
});

test("one that the push does not affect as a follower is requested because of its include, and no longer ignored", () => {
  const ignored = ["shop", "other"].map((name) => ({ deployment: `shop/${name}`, reason: "follows branch release" }));
  expect(matched(push(), [including([library])], { requests: [], ignored })).toEqual({
    requests: [request("shop", "include")],
    ignored: [{ deployment: "shop/other", reason: "follows branch release" }],
  });
});

test("one that the push affects in neither way is ignored once, for the first reason", () => {
  const ignored = [{ deployment: "shop/shop", reason: "follows branch release" }];
  const deployments = [including([`${library} refs/heads/v1`]), including([library], { name: "site", suspend: true })];
  expect(matched(push(), deployments, { requests: [], ignored })).toEqual({
    requests: [],
    ignored: [...ignored, { deployment: "shop/site", reason: "suspended" }],
  });
});

test.each([
  { includes: [library], ref: "refs/heads/main", outcome: "matched" },
  {
    includes: [library],
    ref: "refs/heads/v1",
    outcome: "includes the default branch, the push is to branch v1",
  },
  { includes: [`${library} refs/heads/v1`], ref: "refs/heads/v1", outcome: "matched" },
  { includes: [`${library} refs/tags/v1`], ref: "refs/tags/v1", outcome: "matched" },
  {
    includes: [`${library} refs/heads/v1 refs/tags/v1`, `${library} refs/heads/v1`],
    ref: "refs/heads/main",
    outcome: "includes refs/heads/v1, refs/tags/v1, the push is to branch main",
  },
  { includes: [`${library} refs/heads/v1`, library], ref: "refs/heads/main", outcome: "matched" },
  {
    includes: ["https://git.example.com/org/other refs/heads/main", `${library} refs/heads/v1`],
    ref: "refs/heads/main",
    outcome: "includes refs/heads/v1, the push is to branch main",
  },
])("a project that includes $includes, and a push to $ref: $outcome", ({ includes, ref, outcome: expected }) => {
  expect(outcome(push({ ref }), including(includes))).toBe(expected);
});

test("if the host does not report the default branch, any branch may be it, and no tag is", () => {
  const event = { defaultBranch: undefined };
  expect(outcome(push({ ...event, ref: "refs/heads/trunk" }), including([library]))).toBe("matched");
  expect(outcome(push({ ...event, ref: "refs/tags/v1" }), including([library]))).toBe(
    "includes the default branch, the push is to tag v1",
  );
});

test("disabled webhooks and suspended deployments are the reason if nothing else is", () => {
  const disabled = { [annotation.webhooks]: "false" };
  expect(outcome(push(), including([library], { annotations: disabled, suspend: true }))).toBe(
    "webhooks are disabled by annotation",
  );
  expect(outcome(push(), including([library], { suspend: true }))).toBe("suspended");
  expect(outcome(push({ ref: "refs/heads/v1" }), including([library], { suspend: true }))).toBe(
    "includes the default branch, the push is to branch v1",
  );
});
