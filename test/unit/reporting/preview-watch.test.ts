import { expect, onTestFinished, test, vi } from "vitest";
import { annotation, type Deployment, type DeploymentChange, type RepoId } from "../../../src/model.ts";
import { startPreviewWatch } from "../../../src/reporting/preview-watch.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";
import { aPreview, aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const key = { namespace: "shop", name: "prod" };

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
    log: silentLog,
  });
  const change = (previous: Deployment, deployment: Deployment) =>
    listeners.forEach((listener) => listener({ kind: "changed", previous, deployment }));
  return { change, queue, reports, stop };
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
    aReport({
      repo,
      pullRequest: { ...aReport().pullRequest, number },
      previews: [aPreview({ deployment: { namespace: "shop", name } })],
    });
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

/** Includes the library of pull requests 11 and 12, of which the first shows it. */
const includesIt = (shown = true, status = {}) =>
  aDeployment({
    key,
    status,
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
    const pullRequest = { ...aReport().pullRequest, number };
    await reports.save(
      aReport({ repo, pullRequest, previews: [aPreview({ deployment: { namespace: "shop", name } })] }),
    );
  }
}

const deployed = (id: string) => ({ lastDeployResult: aSummary({ id }) });

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

test("drift and a changed spec of a deployment that follows the default branch request previews, into whatever branch", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const onDefault = (deployment: Deployment) => ({
    ...deployment,
    spec: { ...deployment.spec, source: { ...deployment.spec.source, ref: {} } },
  });
  change(onDefault(checked("1")), onDefault(checked("2", "a")));
  await vi.runAllTimersAsync();
  expect(numbersOf(queue)).toEqual([1, 4]);
  const before = onDefault(aDeployment({ key }));
  change(before, { ...before, generation: 2 });
  await vi.runAllTimersAsync();
  expect(numbersOf(queue).slice(2)).toEqual([1, 2, 4]);
});

test("an object that changes all the time causes twelve previews an hour, and the last change is not forgotten", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  for (let id = 0; id < 40; id++) {
    change(checked(`${id}`, "a"), checked(`${id + 1}`, "a", String(id)));
    await vi.advanceTimersByTimeAsync(60_000);
  }
  // Then the comment says once that it is outdated.
  expect(numbersOf(queue)).toEqual([...Array.from({ length: 12 }, () => 1), "report"]);
  const { pullRequest, startedAt } = aReport({ pullRequest: { ...aReport().pullRequest, number: 1 } });
  const stale = await reports.stale(pullRequest);
  expect(stale?.startedAt).toBe(startedAt);
  const waitMs = (stale?.until ?? 0) - Date.now();
  expect(waitMs).toBeGreaterThan(0);
  expect(waitMs).toBeLessThan(30 * 60_000);
  await vi.advanceTimersByTimeAsync(30 * 60_000);
  expect(numbersOf(queue).slice(13)).toEqual([1]);
  await vi.advanceTimersByTimeAsync(3 * 3_600_000);
  expect(numbersOf(queue)).toHaveLength(14);
});

test("a comment that was written anew while previews wait is marked again", async () => {
  const { change, queue, reports } = setUp();
  await savePullRequests(reports);
  const pullRequest = { ...aReport().pullRequest, number: 1 };
  for (let id = 0; id < 14; id++) {
    change(checked(`${id}`, "a"), checked(`${id + 1}`, "a", String(id)));
    await vi.advanceTimersByTimeAsync(60_000);
  }
  expect((await reports.stale(pullRequest))?.startedAt).toBe(aReport().startedAt);
  const newer = (await reports.find(pullRequest))!;
  await reports.save({ ...newer, state: "working", startedAt: 7_000 }); // a push
  change(checked("20", "a"), checked("21", "a", "b"));
  await vi.advanceTimersByTimeAsync(10_000);
  await reports.save({ ...newer, startedAt: 7_000 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect((await reports.stale(pullRequest))?.startedAt).toBe(7_000);
  expect(numbersOf(queue).filter((one) => one === "report")).toHaveLength(2);
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
