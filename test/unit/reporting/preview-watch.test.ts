import { expect, onTestFinished, test, vi } from "vitest";
import {
  annotation,
  type AnyDeployment,
  type CommandSummary,
  type Deployment,
  type DeploymentChange,
  type RepoId,
} from "../../../src/model.ts";
import { startPreviewWatch } from "../../../src/reporting/preview-watch.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";
import { aPreview, aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const key = { namespace: "shop", name: "prod" };
const keyOf = (number: number) => ({ ...aReport().pullRequest, number });

function setUp() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const listeners: ((change: DeploymentChange) => void)[] = [];
  const queue = fakeQueue();
  const reports = fakeReports();
  const stop = startPreviewWatch({
    deployments: { onChange: (listener) => void listeners.push(listener) },
    reports,
    queue,
    clock: { now: () => Date.now() },
    log: silentLog,
  });
  const emit = (change: DeploymentChange) => listeners.forEach((listener) => listener(change));
  const change = (previous: AnyDeployment, deployment: AnyDeployment) =>
    emit({ kind: "changed", previous, deployment });
  return { change, emit, queue, reports, stop };
}

/** The numbers of the pull requests that were queued. */
const numbersOf = ({ requests }: ReturnType<typeof fakeQueue>) =>
  requests.map((request) => (request.kind === "preview" ? request.pullRequest.number : request.kind));

/** After a check that found these objects to differ. */
function checked(id: string, ...objects: string[]) {
  const found = objects.map((name) => ({ ref: { kind: "ConfigMap", name }, lastResourceVersion: id }));
  const document = { id, ...(found.length > 0 && { objects: found }) };
  return aDeployment({ key, status: { lastDriftDetectionResult: { endTime: "2026-01-01T00:00:00Z", document } } });
}

async function savePullRequests(reports: ReturnType<typeof fakeReports>) {
  const { repo } = aDeployment();
  const report = (number: number, name: string) =>
    aReport({ repo, pullRequest: keyOf(number), previews: [aPreview({ deployment: { namespace: "shop", name } })] });
  await reports.save(report(1, "prod"));
  await reports.save(report(2, "other"));
  await reports.save({ ...report(3, "prod"), state: "merged" });
  await reports.save({ ...report(4, "prod"), baseBranch: "release" });
}

test("drift requests new previews of the open pull requests that show the deployment", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  change(checked("1"), checked("2", "a"));
  change(checked("2", "a"), checked("3", "a", "b"));
  await vi.runAllTimersAsync();
  expect(queue.requests).toMatchObject([{ kind: "preview", pullRequest: { number: 1 }, cause: "cluster" }]);
});

test("a changed spec requests new previews of all open pull requests into its branch", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const before = aDeployment({ key });
  change(before, { ...before, generation: 2 });
  change(checked("1"), checked("2", "a"));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1, 2]);
});

const withLast = (last: Partial<CommandSummary>) =>
  aDeployment({ key, status: { lastDeployResult: aSummary({ id: "earlier", ...last }) } });
const at = (commit: string, renderedObjectsHash = "hash") => ({ gitInfo: { commit }, renderedObjectsHash });
const dryRun = { commandInfo: { dryRun: true } };

test.each<[string, Partial<CommandSummary>, Partial<CommandSummary>]>([
  ["changed an object", {}, { changedObjects: 1 }],
  ["created an object", {}, { newObjects: 1 }],
  ["deleted an object", {}, { deletedObjects: 1 }],
  ["was of another commit", { document: at("c1") }, { document: at("c2") }],
  ["rendered other objects", { document: at("c1", "one") }, { document: at("c1", "two") }],
  ["ended with errors", {}, { errors: 1 }],
])("a deploy that %s requests new previews of the open pull requests that show it", async (_, before, now) => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  change(withLast(before), withLast({ ...now, id: "now" }));
  await vi.runAllTimersAsync();
  expect(queue.requests).toMatchObject([{ kind: "preview", pullRequest: { number: 1 }, cause: "cluster" }]);
});

test.each<[string, Partial<CommandSummary>, Partial<CommandSummary>]>([
  ["changed nothing", { document: at("c1") }, { document: at("c1"), appliedHookObjects: 1, orphanObjects: 2 }],
  ["applied nothing", { document: dryRun }, { document: dryRun, changedObjects: 1 }],
])("a deploy that %s requests nothing, however often it is repeated", async (_, before, now) => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  change(withLast(before), withLast({ ...now, id: "1" }));
  change(withLast({ ...now, id: "1" }), withLast({ ...now, id: "2" }));
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([]);
});

test("fifty deployments that are deployed together request each pull request once", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const names = Array.from({ length: 50 }, (_, i) => `d${i}`);
  const previews = names.map((name) => aPreview({ deployment: { namespace: "shop", name } }));
  await reports.save(aReport({ repo: aDeployment().repo, pullRequest: keyOf(5), previews }));
  for (const name of names) {
    const one = (last: Partial<CommandSummary>) => ({ ...withLast(last), key: { ...key, name } });
    change(one({}), one({ id: "now", changedObjects: 1 }));
    await vi.advanceTimersByTimeAsync(10);
  }
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([5]);
});

test("a pull request whose deployments are not known yet may show any", async () => {
  const { change, queue, reports } = setUp();
  const working = { repo: aDeployment().repo, state: "working", finishedAt: undefined } as const;
  await reports.save(aReport({ ...working, pullRequest: keyOf(1), previews: [] }));
  const others = Array.from({ length: 400 }, (_, i) =>
    aPreview({ deployment: { namespace: "shop", name: `no-${i}` } }),
  );
  await reports.save(aReport({ ...working, pullRequest: keyOf(2), previews: others.slice(0, 1) }));
  await reports.save(aReport({ repo: aDeployment().repo, pullRequest: keyOf(3), previews: others })); // too many to list
  await reports.save(aReport({ repo: aDeployment().repo, pullRequest: keyOf(4), previews: [] }));
  change(checked("1"), checked("2", "a"));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1, 3]);
});

test.each<[string, string, number[]]>([
  ["that decides which pull requests show it", annotation.preview, [1, 2]],
  ["that adds paths", annotation.paths, [1, 2]],
  ["that folds changes", annotation.ignoreChanges, [1]],
  ["that allows decryption", annotation.previewDecrypt, [1]],
  ["that names its dependencies", annotation.dependsOn, [1]],
  ["that says nothing to previews", annotation.notify, []],
])(
  "an annotation %s requests the previews that it concerns, when it comes and when it goes",
  async (_, name, numbers) => {
    const { change, queue, reports } = setUp();
    await savePullRequests(reports);
    const [without, having] = [aDeployment({ key }), aDeployment({ key, annotations: { [name]: "false" } })];
    change(without, having);
    await vi.runAllTimersAsync();
    expect(numbersOf(queue)).toEqual(numbers);
    change(having, without);
    await vi.runAllTimersAsync();
    expect(numbersOf(queue)).toEqual([...numbers, ...numbers]);
  },
);

test.each([
  ["more than before", "app/\nbase", "app/\nbase\nlibs", [1, 2]],
  ["less than before", "app/\nbase\nlibs", "app/\nbase", [1]],
  ["what is known now", undefined, "app/\nbase", [1]],
  ["what is not known any more", "app/\nbase", "app/\n*", [1, 2]],
])("a deployment that reads %s requests the previews that it concerns", async (_, before, after, numbers) => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const spec = { source: { ...aDeployment().spec.source, path: "app" } };
  const reading = (reads: string | undefined) =>
    aDeployment({ key, spec, annotations: reads === undefined ? {} : { [annotation.reads]: reads } });
  change(reading(before), reading(after));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual(numbers);
});

test("a created deployment requests the pull requests into its branch that were previewed before, also after a restart", async () => {
  const { emit, queue, reports } = setUp();
  const createdAt = Date.parse("2026-01-02T00:00:00Z");
  await savePullRequests(reports);
  const later = { repo: aDeployment().repo, previews: [], startedAt: createdAt + 60_000 };
  await reports.save(aReport({ ...later, pullRequest: keyOf(5) }));
  const deployment = aDeployment({ key, creationTimestamp: "2026-01-02T00:00:00Z" });
  emit({ kind: "added", deployment });
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1, 2]);
});

test.each<[string, (deployment: Deployment) => DeploymentChange]>([
  ["was deleted", (deployment) => ({ kind: "removed", deployment, previous: deployment })],
  [
    "is being deleted",
    (previous) => {
      const deployment = { ...previous, generation: 2, deletionTimestamp: "2026-01-01T00:00:00Z" };
      return { kind: "changed", previous, deployment };
    },
  ],
  [
    "became invalid",
    ({ spec: _, ...previous }) => ({
      kind: "changed",
      previous: aDeployment({ key }),
      deployment: { ...previous, problem: "spec.source: is missing" },
    }),
  ],
])("a deployment that %s requests the pull requests that show it", async (_, changeOf) => {
  const { emit, queue, reports } = setUp();
  await savePullRequests(reports);
  emit(changeOf(aDeployment({ key })));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1]);
});

test("a deployment that follows another branch now requests those into it, and those into the other one that show it", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const onBranch = (branch: string, generation: number) => {
    const deployment = aDeployment({ key, generation });
    return { ...deployment, spec: { ...deployment.spec, source: { ...deployment.spec.source, ref: { branch } } } };
  };
  change(onBranch("main", 1), onBranch("release", 2));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([4, 1]);
});

/** Includes the library of pull requests 11 and 12, of which the first shows it. */
const includesIt = (shown = true, status = {}) =>
  aDeployment({
    key,
    status,
    // Its own pull requests are another matter.
    repo: "git.example.com/org/elsewhere" as RepoId,
    annotations: {
      [annotation.includes]: "https://git.example.com/org/library",
      ...(shown && { [annotation.previewIn]: "git.example.com/org/library" }),
    },
  });

async function saveLibrary(reports: ReturnType<typeof fakeReports>) {
  const repo = "git.example.com/org/library" as RepoId;
  for (const [number, name] of [
    [11, "prod"],
    [12, "other"],
  ] as const) {
    const previews = [aPreview({ deployment: { namespace: "shop", name } })];
    await reports.save(aReport({ repo, pullRequest: keyOf(number), previews }));
  }
}

const deployed = (id: string) => ({ lastDeployResult: aSummary({ id, changedObjects: 1 }) });

test.each<[string, Deployment, Deployment, number[]]>([
  ["a deploy", includesIt(true, deployed("1")), includesIt(true, deployed("2")), [11]],
  ["a deploy, which must not be shown", includesIt(false, deployed("1")), includesIt(false, deployed("2")), []],
  ["the annotation that shows it", includesIt(false), includesIt(true), [11, 12]],
  ["the end of that annotation", includesIt(true), includesIt(false), [11, 12]],
])("in a library that it includes, %s requests new previews", async (_, before, after, numbers) => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  await saveLibrary(reports);
  change(before, after);
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual(numbers);
});

test.each<[string, Deployment, Deployment]>([
  ["a first check", aDeployment({ key }), checked("1", "a")],
  ["a check that finds the same", checked("1"), checked("2")],
  ["a later time of the same check", checked("1", "a"), checked("1", "a")],
  ["an annotation", aDeployment({ key }), aDeployment({ key, annotations: { a: "b" } })],
])("%s requests nothing", async (_, before, after) => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  change(before, after);
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([]);
});

const following = (ref: { branch?: string; tag?: string }) => (deployment: Deployment) => ({
  ...deployment,
  spec: { ...deployment.spec, source: { ...deployment.spec.source, ref } },
});

test("drift and a changed spec of a deployment that follows the default branch request previews, into whatever branch", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const onDefault = following({});
  change(onDefault(checked("1")), onDefault(checked("2", "a")));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1, 4]);
  const before = onDefault(aDeployment({ key }));
  change(before, { ...before, generation: 2 });
  await vi.runAllTimersAsync();
  expect(numbersOf(queue).slice(2)).toEqual([1, 2, 4]);
});

test("a changed spec of a deployment that is pinned to a tag requests nothing", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const before = following({ tag: "v1" })(aDeployment({ key }));
  change(before, { ...before, generation: 2 });
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([]);
});

test("a pull request whose next preview waits for its time is not requested again until then", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const { startedAt } = aReport();
  await reports.setStale(keyOf(1), { startedAt, until: Date.now() + 60_000 });
  change(checked("1"), checked("2", "a"));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([]);
  await vi.advanceTimersByTimeAsync(60_000);
  change(checked("2", "a"), checked("3", "a", "b"));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1]);

  // This is about a report that was replaced.
  await reports.setStale(keyOf(1), { startedAt: startedAt - 1, until: Date.now() + 3_600_000 });
  change(checked("3", "a", "b"), checked("4", "a"));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1, 1]);
});

test("while Redis is away nothing is forgotten", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const enqueue = vi.spyOn(queue, "enqueue").mockRejectedValueOnce(new Error("Redis is away"));
  change(checked("1"), checked("2", "a"));
  await vi.runAllTimersAsync();
  expect(enqueue).toHaveBeenCalledTimes(2);
  expect(numbersOf(queue)).toEqual([1]);
});

test("after it was stopped nothing is requested", async () => {
  const { change, queue, reports, stop } = setUp();
  await savePullRequests(reports);
  change(checked("1"), checked("2", "a"));
  stop();
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([]);
});
