/** Commits of forks that a user with access to the cluster has reviewed and allowed. */
import { expect, test } from "vitest";
import { annotation, type PullRequest } from "../../../src/model.ts";
import { type AllowedFork } from "../../../src/preview/open.ts";
import { allowancesOf, withAllowance } from "../../../src/preview/allowances.ts";
import { aPreviewWorld, base, head, named, startedAt } from "../../support/preview.ts";

const day = 24 * 3_600_000;
const repo = named("prod").repo!;
const allowance = {
  pullRequest: "gitea:org/shop#7",
  repo: repo as string,
  head,
  until: new Date(startedAt + 7 * day).toISOString(),
};
const allowing = (...entries: unknown[]) => ({ annotations: { [annotation.allowPreview]: JSON.stringify(entries) } });

function aForkWorld(deployments: ReturnType<typeof named>[], pullRequest: Partial<PullRequest> = {}) {
  const audit: AllowedFork[] = [];
  const world = aPreviewWorld(deployments, {
    pullRequest: { fork: true, ...pullRequest },
    audit: (line) => void audit.push(line),
  });
  delete world.sources.refs["refs/heads/feature"];
  return { ...world, audit };
}

test.each(["refs/pull/7/head", "refs/merge-requests/7/head"])(
  "an allowed commit of a fork is previewed for the deployment that allows it, once git has it as %s, and audited",
  async (ref) => {
    const { run, sources, kluctl, told, audit } = aForkWorld([named("prod", allowing(allowance)), named("staging")]);
    sources.refs[ref] = head;
    expect(await run()).toEqual({ kind: "done" });
    expect(sources.merges).toMatchObject([{ head, base }]);
    expect(kluctl.runs.map(({ run: { deployment } }) => deployment?.name)).toEqual(["prod"]);
    expect(told.at(-1)).toMatchObject({ obstacle: undefined, previews: [{ state: "done" }] });
    expect(audit).toEqual([
      { action: "preview-fork", pullRequest: "gitea:org/shop#7", commit: head, deployments: ["shop/prod"] },
    ]);
  },
);

test.each([
  ["another commit", { head: "2".repeat(40) }],
  ["the beginning of its hash", { head: head.slice(0, 7) }],
  ["another pull request", { pullRequest: "gitea:org/shop#8" }],
  ["one of another host", { pullRequest: "github:org/shop#7" }],
  ["one into another repository", { repo: "git.example.com/org/other" }],
  ["until a moment ago", { until: new Date(startedAt - 1).toISOString() }],
  ["for longer than anybody may", { until: new Date(startedAt + 8 * day).toISOString() }],
  ["for ever", { until: undefined }],
])("an invalid permission allows nothing, and nothing is fetched: %s", async (_what, other) => {
  const { run, sources, kluctl, told, audit } = aForkWorld([named("prod", allowing({ ...allowance, ...other }))]);
  sources.refs["refs/pull/7/head"] = head;
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([{ obstacle: { kind: "fork" }, previews: [] }]);
  expect([sources.merges, kluctl.runs, audit]).toEqual([[], [], []]);
});

test.each([
  ["has another one", { "refs/pull/7/head": "2".repeat(40) }],
  ["has none", {}],
  ["has it for another pull request only", { "refs/pull/17/head": head, "refs/heads/refs/pull/7/head": head }],
])("an allowed head that the host claims is not rendered while git %s", async (_what, refs) => {
  const { run, sources, kluctl, told, audit } = aForkWorld([named("prod", allowing(allowance))]);
  Object.assign(sources.refs, refs);
  expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
  expect(await run({ attempt: 5, lastAttempt: true })).toEqual({ kind: "done" });
  expect(told.at(-1)).toMatchObject({ obstacle: { kind: "fork" }, previews: [] });
  expect([sources.merges, kluctl.runs, audit]).toEqual([[], [], []]);
});

test("another push to the fork ends the permission", async () => {
  const { run, sources, forge, told } = aForkWorld([named("prod", allowing(allowance))]);
  sources.refs["refs/pull/7/head"] = head;
  await run();
  const pushed = "2".repeat(40);
  sources.refs["refs/pull/7/head"] = pushed;
  forge.put(7, { head: pushed });
  await run();
  expect(told.at(-1)).toMatchObject({ head: pushed, obstacle: { kind: "fork" }, previews: [] });
  expect(sources.merges).toHaveLength(1);
});

test.each(["", "yes", "{}", '"x"', "[1, null, {}]", "[", '[{"pullRequest":7}]'])(
  "an invalid annotation (%j) allows nothing",
  (text) => expect(allowancesOf({ annotations: { [annotation.allowPreview]: text }, repo }, startedAt)).toEqual([]),
);

test("a permission replaces earlier ones for the same pull request and keeps those for others", () => {
  const other = { ...allowance, pullRequest: "gitea:org/shop#8" };
  const over = { ...allowance, pullRequest: "gitea:org/shop#9", until: new Date(startedAt).toISOString() };
  const deployment = {
    ...named("prod", allowing({ ...allowance, pullRequest: "gitea:Org/Shop#7" }, other, over)),
    repo,
  };
  const next = { ...allowance, head: "2".repeat(40) };
  expect(JSON.parse(withAllowance(deployment, next, startedAt))).toEqual([other, next]);
});
