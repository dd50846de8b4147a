import { expect, test, vi } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import type { CommandResult, DeploymentStatus, ResultObject, Run } from "../../../src/model.ts";
import { aResult, anObject, aSummary } from "../../support/deployments.ts";
import { aPreviewWorld, base, inFolder, named } from "../../support/preview.ts";
import { patience } from "../../support/patience.ts";

const deployed = "d".repeat(40);
const other = "e".repeat(40);

const config = (live: string, rendered: string, jsonPath = "data.a"): ResultObject =>
  anObject({
    changes: live === rendered ? [] : [{ type: "update", jsonPath, oldValue: live, newValue: rendered }],
    rendered: JSON.stringify({ data: { a: rendered } }),
    remote: JSON.stringify({ data: { a: live } }),
    applied: JSON.stringify({ data: { a: rendered } }),
  });

interface Options {
  /** The diffs by commit; `merge` is that of the merge. */
  readonly diffs: Record<string, CommandResult | Error>;
  readonly status?: Parameters<typeof named>[1];
  readonly confined?: boolean;
}

/** One deployment whose project is in all commits. */
function aWorld({ diffs, status, confined = false }: Options) {
  const deployment = named("prod", { spec: inFolder("app"), ...status });
  const world = aPreviewWorld([deployment], { settings: { confined } });
  world.sources.nextMerge.inBase = true;
  const compared: string[] = [];
  world.kluctl.diff = (run: Run) => {
    const commit = run.projectDir.split("/")[1]?.replace("stubbed", "merge") ?? "";
    compared.push(commit);
    const result = diffs[commit] ?? aResult();
    return result instanceof Error ? Promise.reject(result) : Promise.resolve(result);
  };
  return {
    ...world,
    diffs,
    /** The commits that were compared since the last call. */
    compared: () => compared.splice(0),
  };
}

const lastDeploy = (commit: string, renderedObjectsHash = "hash-of-deployed") => ({
  status: { lastDeployResult: aSummary({ document: { gitInfo: { commit }, renderedObjectsHash } }) },
});

const of = (object: ResultObject, objectsHash = "hash-1") => aResult({ objects: [object], objectsHash });

test.each([false, true])("the base is compared once for all pull requests (confined: %s)", async (confined) => {
  const diffs = { merge: of(config("1", "2")), base: of(config("1", "1")) };
  const { run, compared, previews } = aWorld({ diffs, confined });
  expect(await run()).toEqual({ kind: "done" });
  expect(compared()).toEqual(["merge", "base"]);
  expect(previews()[0]).toMatchObject({ counts: { changed: 1 }, drift: 0 });
  expect(await run()).toEqual({ kind: "done" });
  expect(compared()).toEqual(["merge"]);
});

test("the base is compared again as soon as a live object that the merge changes is another one", async () => {
  const { run, compared, previews, diffs } = aWorld({
    diffs: { merge: of(config("1", "2")), base: of(config("1", "1")) },
  });
  await run();
  Object.assign(diffs, { merge: of(config("by hand", "1")), base: of(config("by hand", "1")) });
  compared();
  await run();
  expect(compared()).toEqual(["merge", "base"]);
  expect(previews()[0]).toMatchObject({ counts: { changed: 0 }, undeployed: { objects: [{ action: "changed" }] } });
});

test("a merge that takes back what the base changes is reported, without the base's values", async () => {
  const diffs = { merge: of(config("live-value", "live-value")), base: of(config("live-value", "base-value")) };
  const { run, compared, previews } = aWorld({ diffs });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
  const [preview] = previews();
  expect(preview).toMatchObject({ counts: { changed: 0 }, kept: { objects: [{ action: "changed" }] } });
  expect(JSON.stringify(preview)).not.toMatch(/(base|live)-value/);
});

const checkedAt = "2026-01-01T00:00:10Z";

/** A ready deployment whose last check found no difference to the base. */
function inSync(more: Partial<DeploymentStatus> = {}, document: Record<string, unknown> = {}) {
  return {
    status: {
      observedCommit: base,
      observedGeneration: 1,
      lastObjectsHash: "h",
      conditions: [aCondition("True")],
      lastDriftDetectionResult: { endTime: checkedAt, document: { renderedObjectsHash: "h", ...document } },
      ...more,
    },
  };
}

const aCondition = (status: "True" | "Unknown") => ({
  type: "Ready",
  status,
  reason: "",
  message: "",
  lastTransitionTime: checkedAt,
});

const writtenAt = (managedFields: unknown, object = config("1", "2")): ResultObject => ({
  ...object,
  remote: JSON.stringify({ metadata: { managedFields } }),
});
const kluctlWrote = { manager: "kluctl", time: "2026-01-01T00:00:10Z" };

test.each<[string, ResultObject]>([
  ["nothing was written since", writtenAt([kluctlWrote])],
  [
    "only the status was written since",
    writtenAt([kluctlWrote, { time: "2026-01-01T00:01:00Z", subresource: "status" }]),
  ],
  ["it is new", anObject({ new: true, rendered: "{}" })],
])("the base of a deployment that is in sync is not compared if of the object %s", async (_, object) => {
  const { run, compared, previews } = aWorld({ diffs: { merge: of(object) }, status: inSync() });
  await run();
  expect(compared()).toEqual(["merge"]);
  expect(previews()[0]).toMatchObject({ drift: 0 });
  expect(previews()[0]?.objects).toHaveLength(1);
});

test.each<[string, Parameters<typeof named>[1], ResultObject?]>([
  ["it was written since", inSync(), writtenAt([kluctlWrote, { time: "2026-01-01T00:00:11Z", subresource: "scale" }])],
  ["nobody knows when it was written", inSync(), writtenAt(undefined)],
  ["a time is missing", inSync(), writtenAt([kluctlWrote, {}])],
  ["the check was of another commit", inSync({ observedCommit: other })],
  ["the spec has changed since", inSync({ observedGeneration: 0 })],
  ["a reconciliation is in progress", inSync({ conditions: [aCondition("Unknown")] })],
  ["a deploy was interrupted", inSync({ lastObjectsHash: undefined }, { renderedObjectsHash: undefined })],
  ["the check was of other objects", inSync({}, { renderedObjectsHash: "other" })],
  ["the check found a difference", inSync({}, { objects: [{}] })],
  ["the check had an error", inSync({}, { errors: [{}] })],
  ["it was never checked", inSync({ lastDriftDetectionResult: undefined })],
])("the base is compared if %s", async (_, status, object = writtenAt([kluctlWrote])) => {
  const { run, compared } = aWorld({ diffs: { merge: of(object) }, status });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
});

test("drift is what the commit that was deployed last would change as well", async () => {
  const diffs = {
    merge: of(config("by hand", "1")),
    base: of(config("by hand", "1")),
    [deployed]: of(config("by hand", "1")),
  };
  const { run, compared, previews } = aWorld({ diffs, status: lastDeploy(deployed) });
  await run();
  expect(compared()).toEqual(["merge", "base", deployed]);
  expect(previews()[0]).toMatchObject({
    counts: { changed: 0 },
    drift: 1,
    drifted: { objects: [{ action: "changed" }] },
  });
  expect(previews()[0]?.undeployed).toBeUndefined();
});

test.each([
  ["is the base", lastDeploy(base)],
  ["rendered the same objects", lastDeploy(other, "hash-1")],
])("the deployed commit is not compared if it %s", async (_, status) => {
  const diffs = { merge: of(config("by hand", "1")), base: of(config("by hand", "1")) };
  const { run, compared, previews } = aWorld({ diffs, status });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
  expect(previews()[0]).toMatchObject({ drift: 1 });
});

test.each([
  ["nothing was deployed", {}],
  [
    "the last deploy failed",
    { status: { lastDeployResult: aSummary({ errors: 1, document: { gitInfo: { commit: base } } }) } },
  ],
  [
    "the last deploy was a dry run",
    {
      status: {
        lastDeployResult: aSummary({ document: { gitInfo: { commit: base }, commandInfo: { dryRun: true } } }),
      },
    },
  ],
  ["the deployed commit cannot be rendered", lastDeploy(deployed)],
])("what the base changes is not deployed if %s", async (_, status) => {
  const broken = new PrepareError("it is broken");
  const diffs = { merge: of(config("0", "1")), base: of(config("0", "1")), [deployed]: broken };
  const { run, previews } = aWorld({ diffs, status });
  expect(await run()).toEqual({ kind: "done" });
  expect(previews()[0]).toMatchObject({ state: "done", drift: 0, undeployed: { objects: [{ action: "changed" }] } });
});

test("if the base cannot be rendered, every change counts, and the preview says why", async () => {
  const diffs = { merge: of(config("by hand", "1")), base: new PrepareError("line 7:\n 'x' is undefined") };
  const { run, previews, told } = aWorld({ diffs });
  expect(await run()).toEqual({ kind: "done" });
  expect(previews()[0]).toMatchObject({
    state: "done",
    counts: { changed: 1 },
    unattributed: "line 7: 'x' is undefined",
  });
  expect(told.at(-1)?.mendable).not.toBe(true);
});

test("a base that could not be compared just now is compared again after a while", async () => {
  const { run, told } = aWorld({ diffs: { merge: of(config("1", "2")), base: new Error("connection refused") } });
  expect(await run()).toEqual({ kind: "done" });
  expect(told.at(-1)?.mendable).toBe(true);
});

test("pull requests that need the same base at the same time have it compared once", async () => {
  const diffs = { merge: of(config("1", "2")), base: of(config("1", "1")) };
  const { run, compared } = aWorld({ diffs });
  await Promise.all([run(), run()]);
  expect(compared().toSorted()).toEqual(["base", "merge", "merge"]);
});

test("a comparison that another pull request began and gave up is made again", async () => {
  const { run, kluctl, previews } = aWorld({ diffs: {} });
  const { promise: begun, reject } = Promise.withResolvers<CommandResult>();
  let bases = 0;
  kluctl.diff = ({ projectDir }: Run) => {
    if (!projectDir.includes("base")) return Promise.resolve(of(config("by hand", "1")));
    return ++bases === 1 ? begun : Promise.resolve(of(config("by hand", "1")));
  };
  const both = [run(), run()];
  await vi.waitFor(() => expect(bases).toBe(1), patience);
  reject(new Error("killed"));
  await Promise.all(both);
  expect(bases).toBe(2);
  expect(previews()[0]).toMatchObject({ undeployed: { objects: [{ action: "changed" }] } });
});

test("a preview that is stopped while the base is compared is not reported", async () => {
  const { run, kluctl, told } = aWorld({ diffs: {} });
  const stop = new AbortController();
  let runs = 0;
  kluctl.diff = () => {
    if (++runs === 1) return Promise.resolve(of(config("1", "2")));
    stop.abort(new Error("stopped"));
    return Promise.reject(new Error("killed"));
  };
  expect(await run({ signal: stop.signal })).toMatchObject({ kind: "failed", retry: "soon" });
  expect(runs).toBe(2);
  expect(told).toEqual([]);
});
