/** Rendering runs code, so git and not the forge decides where the code comes from. */
import { expect, test } from "vitest";
import { aPreviewWorld, base, head, inFolder, key, named } from "../../support/preview.ts";

const deployment = named("prod");

test.each([
  ["a branch", "refs/heads/feature"],
  ["any other branch than the one that is claimed", "refs/heads/somebody/else"],
])("a head that %s points at is rendered", async (_what, ref) => {
  const { run, sources, kluctl } = aPreviewWorld([deployment]);
  delete sources.refs["refs/heads/feature"];
  sources.refs[ref] = head;
  expect(await run()).toEqual({ kind: "done" });
  expect(kluctl.runs).toHaveLength(1);
});

test.each([
  ["nothing", undefined],
  ["a tag", "refs/tags/v1"],
  ["a pull request's own ref", "refs/pull/7/head"],
  ["a merge request's own ref", "refs/merge-requests/7/head"],
  ["GitHub's merge queue", `refs/heads/gh-readonly-queue/main/pr-7-${base}`],
  ["Bitbucket's merge queue", "refs/heads/bitbucket-merge-queue-7"],
  ["GitLab's merge train", "refs/merge-requests/7/train"],
])("a head that only %s points at is retried, and then neither merged nor rendered", async (_what, ref) => {
  const { run, sources, kluctl, told, reports } = aPreviewWorld([deployment]);
  delete sources.refs["refs/heads/feature"];
  if (ref !== undefined) sources.refs[ref] = head;
  expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
  expect(told).toEqual([]);
  expect(await run({ attempt: 5, lastAttempt: true })).toEqual({ kind: "done" });
  expect(await reports.find(key)).toMatchObject({
    state: "done",
    obstacle: { kind: "no-branch" },
    mendable: true,
    previews: [],
  });
  expect([sources.merges, kluctl.runs]).toEqual([[], []]);
});

test("if the branch has moved, the pull request is read again and its new head is rendered", async () => {
  const { run, sources, forge } = aPreviewWorld([deployment]);
  const moved = "2".repeat(40);
  sources.refs["refs/heads/feature"] = moved;
  expect(await run()).toMatchObject({ kind: "failed", retry: "soon" });
  forge.put(7, { head: moved });
  expect(await run({ attempt: 2 })).toEqual({ kind: "done" });
  expect(sources.merges.map((merge) => merge.head)).toEqual([moved]);
});

test("a head that equals the base is on a branch and changes nothing", async () => {
  const { run, sources, told } = aPreviewWorld([deployment], { pullRequest: { head: base } });
  sources.refs = { "refs/heads/main": base };
  sources.nextMerge.changed = { complete: true, paths: [] };
  expect(await run()).toEqual({ kind: "done" });
  expect(told.at(-1)).toMatchObject({ obstacle: undefined, previews: [] });
});

test("a preview that the sweep repeats keeps its finish time until a branch points to the head", async () => {
  const { run, sources, time, reports, kluctl } = aPreviewWorld([deployment]);
  delete sources.refs["refs/heads/feature"];
  await run({ lastAttempt: true });
  const first = await reports.find(key);
  time.now += 600_000;
  expect(await run({}, "sweep")).toEqual({ kind: "done" });
  expect(await reports.find(key)).toEqual({ ...first, startedAt: time.now });
  sources.refs["refs/heads/feature"] = head;
  await run({}, "sweep");
  expect(await reports.find(key)).toMatchObject({ obstacle: undefined, finishedAt: time.now });
  expect(kluctl.runs).toHaveLength(1);
});

test("a forge's answer about a repository of another forge affects no deployment", async () => {
  const { run, sources, told } = aPreviewWorld([deployment], { speaksFor: (forge, url) => forge !== "gitea" || !url });
  expect(await run()).toEqual({ kind: "done" });
  expect(told).toMatchObject([{ repo: undefined, previews: [], obstacle: undefined }]);
  expect(sources.merges).toEqual([]);
});

test("a login that does not see the branch renders nothing, whatever another login sees", async () => {
  const logins = ["https://git.example.com/org/shop", "https://git.example.com/org/shop.git"].map((url, i) =>
    named(`shop-${i}`, { spec: inFolder("", { url }) }),
  );
  const { run, sources, kluctl, previews } = aPreviewWorld(logins);
  const { heads } = sources;
  let asked = 0;
  sources.heads = async (...args) => {
    if (asked++ > 0) delete sources.refs["refs/heads/feature"];
    return heads(...args);
  };
  await run({ lastAttempt: true });
  expect(kluctl.runs).toHaveLength(1);
  expect(previews().map(({ state, failure }) => failure ?? state)).toEqual([
    "done",
    "no branch of the repository points at 1111111",
  ]);
});
