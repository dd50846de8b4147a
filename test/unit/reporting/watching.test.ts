import { expect, onTestFinished, test, vi } from "vitest";
import type { Condition, Deployment, DeploymentChange } from "../../../src/model.ts";
import { startReportWatch } from "../../../src/reporting/watching.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";
import { fakeForge } from "../../support/fake-forge.ts";
import { fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const now = Date.parse("2026-01-02T00:00:00Z");

function setUp() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const listeners: ((change: DeploymentChange) => void)[] = [];
  const queue = fakeQueue();
  const reports = fakeReports();
  const stop = startReportWatch({
    deployments: { onChange: (listener) => void listeners.push(listener) },
    forges: new Map([["gitea", fakeForge()]]),
    reports,
    queue,
    clock: { now: () => now },
    log: silentLog,
  });
  const change = (previous: Deployment, deployment: Deployment) =>
    listeners.forEach((listener) => listener({ kind: "changed", previous, deployment }));
  const add = (deployment: Deployment) => listeners.forEach((listener) => listener({ kind: "added", deployment }));
  return { change, add, queue, reports, stop };
}

const before = aDeployment({ status: { observedCommit: "a".repeat(40) } });
const observed = aDeployment({ status: { observedCommit: "c".repeat(40) } });
const deployed = aDeployment({
  status: { observedCommit: "c".repeat(40), lastDeployResult: aSummary({ id: "result-1" }) },
});

test("many changes of many deployments request the statuses of their commit once", async () => {
  const { change, queue } = setUp();
  change(before, observed);
  change(observed, deployed);
  change(before, aDeployment({ ...observed, key: { namespace: "shop", name: "other" } }));

  await vi.runAllTimersAsync();

  const commit = { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) };
  expect(queue.requests).toEqual([{ kind: "commit-status", commit, repo: before.repo }]);
});

test("unfinished commits are checked when a deployment of their repository changes, and at the start", async () => {
  const { change, add, queue, reports } = setUp();
  const waiting = { forge: "gitea", repoName: "org/shop", commit: "b".repeat(40) };
  await reports.setUnsettled(waiting, before.repo, true);
  await reports.setUnsettled({ ...waiting, forge: "not-configured-any-more" }, before.repo, true);
  const request = { kind: "commit-status", commit: waiting, repo: before.repo };

  add(before);
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([request]);

  change(before, observed);
  await vi.runAllTimersAsync();
  expect(queue.requests.slice(1)).toEqual([{ ...request, commit: { ...waiting, commit: "c".repeat(40) } }, request]);
});

test("a reconciliation that ends without a change completes the commits that waited for its end", async () => {
  const { change, queue, reports } = setUp();
  const waiting = { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) };
  await reports.setUnsettled(waiting, before.repo, true);
  const condition = { type: "Reconciling", status: "True", reason: "Progressing", message: "", lastTransitionTime: "" };
  const working = aDeployment({ status: { ...observed.status, conditions: [condition as Condition] } });

  change(observed, working);
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([]);
  change(working, observed);
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([{ kind: "commit-status", commit: waiting, repo: before.repo }]);
});

test("changes that no status shows, and repositories without a forge, request nothing", async () => {
  const { change, queue } = setUp();
  change(observed, { ...observed, resourceVersion: "2", annotations: { a: "b" } });
  const elsewhere = { url: "https://other.example.com/org/shop", ref: {}, path: "" };
  change(
    aDeployment({ spec: { source: elsewhere } }),
    aDeployment({ status: observed.status, spec: { source: elsewhere } }),
  );

  await vi.runAllTimersAsync();

  expect(queue.requests).toEqual([]);
});

test("what has changed by the end is requested before it stops", async () => {
  const { change, queue, stop } = setUp();
  change(before, observed);
  await stop();
  expect(queue.requests).toMatchObject([{ kind: "commit-status", commit: { commit: "c".repeat(40) } }]);
});

test.each<[string, string, string[]]>([
  ["was deployed lately is reported, because a stopped server may have missed it", "2026-01-01T23:00:00Z", ["c", "d"]],
  ["was deployed long ago is not reported again", "2025-12-31T23:00:00Z", []],
])("at the start, a commit that %s", async (_, endTime, reported) => {
  const { add, queue } = setUp();
  for (const [name, commit] of [
    ["a", "c"],
    ["b", "c"],
    ["x", "d"],
  ] as const) {
    const status = { observedCommit: commit.repeat(40), lastDeployResult: aSummary({ endTime }) };
    add(aDeployment({ key: { namespace: "shop", name }, status }));
  }
  await vi.runAllTimersAsync();
  const commits = queue.requests.map((request) => request.kind === "commit-status" && request.commit.commit[0]);
  expect(commits).toEqual(reported);
});

test("at the start, the commit of a deployment whose result changed lately is reported without a deploy, too", async () => {
  const { add, queue } = setUp();
  const ready = { type: "Ready", status: "False", reason: "PrepareFailed", message: "no" } as const;
  const conditions = [{ ...ready, lastTransitionTime: "2026-01-01T23:00:00Z" }];
  add(aDeployment({ status: { observedCommit: "c".repeat(40), conditions } }));
  await vi.runAllTimersAsync();
  expect(queue.requests).toMatchObject([{ kind: "commit-status", commit: { commit: "c".repeat(40) } }]);
});

test.each<[string, Deployment]>([
  [
    "another repository",
    aDeployment({ spec: { source: { url: "https://git.example.com/org/new", ref: {}, path: "" } } }),
  ],
  [
    "an artifact",
    {
      ...before,
      repo: undefined,
      spec: { ...before.spec, source: { kind: "oci", url: "oci://r.example.com/a", ref: {}, path: "" } },
    } as Deployment,
  ],
])("unfinished commits are checked when a deployment follows %s instead of their repository", async (_, next) => {
  const { change, queue, reports } = setUp();
  const waiting = { forge: "gitea", repoName: "org/shop", commit: "b".repeat(40) };
  await reports.setUnsettled(waiting, before.repo, true);
  change(before, next);
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([{ kind: "commit-status", commit: waiting, repo: before.repo }]);
});

test("what Redis did not accept is queued later, together with what has changed since", async () => {
  const { change, queue } = setUp();
  const enqueue = vi.spyOn(queue, "enqueue").mockRejectedValueOnce(new Error("Redis is away"));
  change(before, observed);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(enqueue).toHaveBeenCalledOnce();
  expect(queue.requests).toEqual([]);

  change(before, aDeployment({ status: { observedCommit: "d".repeat(40) } }));
  await vi.runAllTimersAsync();
  const commits = queue.requests.map((request) => request.kind === "commit-status" && request.commit.commit[0]);
  expect(commits).toEqual(["c", "d"]);
});

test("once Redis accepts requests again, the next change queues all of them", async () => {
  const { change, queue, reports } = setUp();
  vi.spyOn(reports, "unsettled").mockRejectedValueOnce(new Error("Redis is away"));
  change(before, observed);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(queue.requests).toEqual([]);
  change(observed, aDeployment({ status: { observedCommit: "d".repeat(40) } }));
  await vi.advanceTimersByTimeAsync(1_000);
  expect(queue.requests.map((request) => request.kind === "commit-status" && request.commit.commit[0])).toEqual([
    "c",
    "d",
  ]);
});

test("nothing is queued after it was stopped", async () => {
  const { change, queue, stop } = setUp();
  await stop();
  change(observed, deployed);
  await vi.runAllTimersAsync();
  expect(queue.requests).toEqual([]);
});
