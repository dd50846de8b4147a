import { expect, test, vi } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import {
  annotation,
  type CommandResult,
  type DeploymentStatus,
  type ResultObject,
  type Run,
} from "../../../src/model.ts";
import type { PreviewDeps } from "../../../src/preview/preview.ts";
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
  readonly lastMove?: PreviewDeps["lastMove"];
}

/** One deployment whose project is in all commits. */
function aWorld({ diffs, status, confined = false, lastMove }: Options) {
  const deployment = named("prod", { spec: inFolder("app"), ...status });
  const world = aPreviewWorld([deployment], { settings: { confined }, lastMove });
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

/** A result that shows that nothing comes from elsewhere, unless `deployment` says so. */
const of = (object: ResultObject, objectsHash = "hash-1", deployment: unknown = { deployments: [{ path: "app" }] }) =>
  aResult({ objects: [object], objectsHash, document: { deployment } });

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

test("the base is compared again after a push to a repository that the project includes", async () => {
  const diffs = { merge: of(config("1", "2")), base: of(config("1", "1")) };
  const annotations = { [annotation.includes]: "https://git.example.com/org/library" };
  const moves = new Map<string, string>();
  const lastMove = (repo: string) => Promise.resolve(moves.get(repo));
  const { run, compared } = aWorld({ diffs, status: { annotations }, lastMove });
  await run();
  await run();
  expect(compared()).toEqual(["merge", "base", "merge"]);
  moves.set("git.example.com/org/library", "a push");
  await run();
  expect(compared()).toEqual(["merge", "base"]);
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

const [beganAt, checkedAt] = ["2026-01-01T00:00:05Z", "2026-01-01T00:00:10Z"];

/** A ready deployment whose last check found no difference to the base. */
function inSync(more: Partial<DeploymentStatus> = {}, document: Record<string, unknown> = {}) {
  const checked = { startTime: beganAt, renderedObjectsHash: "h", ...document };
  return {
    status: {
      observedCommit: base,
      observedGeneration: 1,
      lastObjectsHash: "h",
      conditions: [aCondition("True")],
      lastDriftDetectionResult: { endTime: checkedAt, document: checked },
      ...more,
    },
  };
}

/** What the last check knows follows from the result of a deploy. */
const justDeployed = { lastDeployResult: aSummary({ document: { commandInfo: { startTime: beganAt } } }) };

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
const wrote = (time: string, manager = "kluctl") => ({ manager, time });
const before = wrote("2026-01-01T00:00:04Z");

test.each<[string, ResultObject, ReturnType<typeof inSync>?]>([
  ["nothing was written since", writtenAt([before, wrote("2026-01-01T00:00:04Z", "kubectl-edit")])],
  ["only the status was written since", writtenAt([before, { time: "2026-01-01T00:01:00Z", subresource: "status" }])],
  ["only the last deploy itself has written", writtenAt([wrote(checkedAt)]), inSync(justDeployed)],
])(
  "the base of a deployment that is in sync is not compared if of the object %s",
  async (_, object, status = inSync()) => {
    const { run, compared, previews } = aWorld({ diffs: { merge: of(object) }, status });
    await run();
    expect(compared()).toEqual(["merge"]);
    expect(previews()[0]).toMatchObject({ drift: 0 });
    expect(previews()[0]?.objects).toHaveLength(1);
  },
);

const withIncludes = { annotations: { [annotation.includes]: "https://git.example.com/org/library" } };

test.each<[string, Parameters<typeof named>[1], ResultObject?]>([
  ["it was written since", inSync(), writtenAt([before, { time: "2026-01-01T00:00:11Z", subresource: "scale" }])],
  ["it was written in the second of the check", inSync(), writtenAt([wrote(beganAt)])],
  ["another deploy has written since the last one", inSync(justDeployed), writtenAt([wrote("2026-01-01T00:00:11Z")])],
  ["it was edited while it was deployed", inSync(justDeployed), writtenAt([wrote(beganAt, "kubectl-edit")])],
  ["nobody knows when the check began", inSync({}, { startTime: undefined })],
  ["nobody knows when it was written", inSync(), writtenAt(undefined)],
  ["a time is missing", inSync(), writtenAt([before, {}])],
  ["it is not in the cluster, from where it may have been deleted", inSync(), anObject({ new: true, rendered: "{}" })],
  ["the project includes a library, which may have moved", { ...inSync(), ...withIncludes }],
  ["the check was of another commit", inSync({ observedCommit: other })],
  ["the spec has changed since", inSync({ observedGeneration: 0 })],
  ["a reconciliation is in progress", inSync({ conditions: [aCondition("Unknown")] })],
  ["a deploy was interrupted", inSync({ lastObjectsHash: undefined }, { renderedObjectsHash: undefined })],
  ["the check was of other objects", inSync({}, { renderedObjectsHash: "other" })],
  ["the check found a difference", inSync({}, { objects: [{}] })],
  ["the check had an error", inSync({}, { errors: [{}] })],
  ["it was never checked", inSync({ lastDriftDetectionResult: undefined })],
  [
    "it is suspended and includes what may have moved since",
    {
      ...inSync(),
      spec: { ...inFolder("app"), suspend: true },
      annotations: { [annotation.includes]: "https://x.example/y" },
    },
  ],
])("the base is compared if %s", async (_, status, object = writtenAt([before])) => {
  const { run, compared } = aWorld({ diffs: { merge: of(object) }, status });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
});

test.each([
  ["a library", { deployments: [{ git: { url: "https://git.example.com/org/library" } }] }],
  ["variables of the cluster", { vars: [{ clusterConfigMap: { name: "settings" } }] }],
])("the base is compared if the merge renders %s, which may have changed since", async (_, deployment) => {
  const { run, compared } = aWorld({ diffs: { merge: of(writtenAt([before]), "h", deployment) }, status: inSync() });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
});

test("a known base is compared again once a push to what the project includes was announced", async () => {
  const moves = ["1", "1", "2"];
  const diffs = { merge: of(config("1", "2")), base: of(config("1", "1")) };
  const { run, compared } = aWorld({ diffs, status: withIncludes, lastMove: () => Promise.resolve(moves.shift()) });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
  await run();
  expect(compared()).toEqual(["merge"]);
  await run();
  expect(compared()).toEqual(["merge", "base"]);
});

test("drift is what the commit that was deployed last would change as well", async () => {
  const diffs = {
    merge: of(config("by hand", "1")),
    base: of(config("by hand", "1")),
    [deployed]: of(config("by hand", "1"), "hash-of-deployed"),
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
  ["is the base", lastDeploy(base, "hash-1")],
  ["rendered the same objects", lastDeploy(other, "hash-1")],
])("the deployed commit is not compared if it %s", async (_, status) => {
  const diffs = { merge: of(config("by hand", "1")), base: of(config("by hand", "1")) };
  const { run, compared, previews } = aWorld({ diffs, status });
  await run();
  expect(compared()).toEqual(["merge", "base"]);
  expect(previews()[0]).toMatchObject({ drift: 1 });
});

test.each([
  ["the base", base, ["merge", "base"]],
  ["another commit", deployed, ["merge", "base", deployed]],
])(
  "nothing drifted if %s was deployed, but renders other objects by now: a spec or a library has changed",
  async (_, commit, all) => {
    const diffs = {
      merge: of(config("0", "1")),
      base: of(config("0", "1"), "hash-now"),
      [deployed]: of(config("0", "1"), "hash-now"),
    };
    const { run, compared, previews } = aWorld({ diffs, status: lastDeploy(commit) });
    await run();
    expect(compared()).toEqual(all);
    expect(previews()[0]).toMatchObject({ drift: 0, undeployed: { objects: [{ action: "changed" }] } });
  },
);

const mask = `masked-${"0".repeat(44)}`;
const masked = { ...config("0", "1"), rendered: JSON.stringify({ data: { a: "1", token: mask } }) };
const reads = { vars: [{ clusterSecret: { name: "settings" } }] };

test.each<[string, ResultObject, { maskedValues?: string[]; lastCheck?: string; drift: number; deployment?: unknown }]>(
  [
    ["the last check rendered what was deployed", masked, { lastCheck: "hash-of-deployed", drift: 1 }],
    ["the last check rendered something else", masked, { lastCheck: "hash-now", drift: 0 }],
    ["there was no check of it", masked, { drift: 1 }],
    ["a Secret may be in it in another form", config("0", "1"), { maskedValues: ["x"], deployment: reads, drift: 1 }],
    ["Secrets are in the cluster only", config("0", "1"), { maskedValues: ["x"], drift: 0 }],
  ],
)(
  "the hash of a base with masks says nothing: %s",
  async (_, object, { maskedValues, lastCheck, drift, deployment }) => {
    const diffs = {
      merge: of(object),
      base: { ...of(object, "hash-of-masks", deployment), maskedValues },
    };
    const { status } = lastDeploy(base);
    const checked = { endTime: checkedAt, document: { renderedObjectsHash: lastCheck } };
    const known = { observedCommit: base, observedGeneration: 1, lastDriftDetectionResult: checked };
    const { run, previews } = aWorld({
      diffs,
      status: { status: { ...status, ...(lastCheck !== undefined && known) } },
    });
    await run();
    expect(previews()[0]?.drift).toBe(drift);
  },
);

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
