import { expect, test, vi, onTestFinished } from "vitest";
import { annotation, type DeploymentChange } from "../../../src/model.ts";
import { repoId } from "../../../src/model/repo-url.ts";
import { startRolloutWatch } from "../../../src/reporting/rollout-watch.ts";
import { aDeployment } from "../../support/deployments.ts";
import { fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";

const url = "https://git.example.com/org/library";
const pullRequest = { forge: "gitea", repoName: "org/library", number: 7 };
const shown = { [annotation.includes]: url, [annotation.previewIn]: url };

async function setUp() {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const [reports, queue] = [fakeReports(), fakeQueue()];
  await reports.setRollingOut(pullRequest, repoId(url)!, 1_000);
  let change: (change: DeploymentChange) => void = () => undefined;
  const away = { is: false };
  const stop = startRolloutWatch({
    deployments: { onChange: (callback) => void (change = callback) },
    reports: {
      rollingOut: (repo) => (away.is ? Promise.reject(new Error("Redis is away")) : reports.rollingOut(repo)),
    },
    queue,
    log: silentLog,
  });
  onTestFinished(stop);
  return { change: (one: DeploymentChange) => change(one), queue, away, stop };
}

const at = (commit: string, more: Readonly<Record<string, string>> = shown) =>
  aDeployment({
    annotations: { ...more, [annotation.includedCommits]: `${url} refs/heads/main ${commit.repeat(40)}` },
  });
const request = { kind: "report", pullRequest };

test("what a deployment renders of a library requests the reports of merges that it lacks, once", async () => {
  const { change, queue } = await setUp();
  change({ kind: "changed", deployment: at("b"), previous: at("a") });
  change({ kind: "changed", deployment: at("c"), previous: at("b") });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(queue.requests).toEqual([request]);
});

test("a start requests them, and so does a deployment that may no longer be shown", async () => {
  const { change, queue } = await setUp();
  change({ kind: "added", deployment: at("a") });
  await vi.advanceTimersByTimeAsync(2_000);
  change({ kind: "changed", deployment: at("a", { [annotation.includes]: url }), previous: at("a") });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(queue.requests).toEqual([request, request]);
});

test("nothing is requested for deployments that are not shown, or of which nothing else is shown", async () => {
  const { change, queue } = await setUp();
  change({ kind: "changed", deployment: at("a"), previous: { ...at("a"), resourceVersion: "0" } });
  change({ kind: "added", deployment: at("a", { [annotation.includes]: url }) });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(queue.requests).toEqual([]);
});

test("while Redis is away nothing is forgotten", async () => {
  const { change, queue, away } = await setUp();
  away.is = true;
  change({ kind: "added", deployment: at("a") });
  await vi.advanceTimersByTimeAsync(2_000);
  away.is = false;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(queue.requests).toEqual([request]);
});
