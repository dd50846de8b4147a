import { expect, test, vi } from "vitest";
import { annotation, type Deployment, type DeploymentChange } from "../../../src/model.ts";
import { startAllowedWaking } from "../../../src/preview/wake-allowed.ts";
import { aDeployment } from "../../support/deployments.ts";
import { aPreview, aReport, fakeQueue, fakeReports } from "../../support/fake-reports.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

const now = Date.parse("2026-01-01T00:00:00Z");
const plain = aDeployment();
const head = "1".repeat(40);
const pullRequest = { forge: "gitea", repoName: "org/shop", number: 7 };
const request = { kind: "preview", pullRequest, cause: "pull-request" };

function allowing(more: object = {}): Deployment {
  const allowance = {
    ...{ pullRequest: "gitea:org/shop#7", repo: plain.repo, head, until: "2026-01-02T00:00:00Z" },
    ...more,
  };
  return aDeployment({ annotations: { [annotation.allowPreview]: JSON.stringify([allowance]) } });
}

function setUp() {
  const listeners: ((change: DeploymentChange) => void)[] = [];
  const queue = fakeQueue();
  const reports = fakeReports();
  const stop = startAllowedWaking({
    deployments: { onChange: (listener) => void listeners.push(listener) },
    forges: new Map([["gitea", {}]]),
    reports,
    queue,
    clock: { now: () => now },
    log: silentLog,
  });
  const change = (change: DeploymentChange) => listeners.forEach((listener) => listener(change));
  return { change, queue, reports, stop };
}

test("allowing a commit requests a preview of its pull request, once for each change of the annotation", async () => {
  const { change, queue } = setUp();
  change({ kind: "changed", previous: plain, deployment: allowing() });
  await vi.waitFor(() => expect(queue.requests).toEqual([request]), patience);
  change({ kind: "changed", previous: allowing(), deployment: allowing() });
  change({ kind: "changed", previous: allowing(), deployment: plain });
  change({ kind: "removed", deployment: allowing() });
  change({ kind: "changed", previous: plain, deployment: allowing({ until: "2025-12-31T00:00:00Z" }) });
  change({ kind: "changed", previous: plain, deployment: allowing({ pullRequest: "unknown:org/shop#7" }) });
  change({ kind: "changed", previous: plain, deployment: allowing({ until: "2026-01-03T00:00:00Z" }) });
  await vi.waitFor(() => expect(queue.requests).toEqual([request, request]), patience);
});

test("a server that starts requests only the previews that were allowed while none ran", async () => {
  const { change, queue, reports } = setUp();
  await reports.save(aReport({ pullRequest, head, obstacle: undefined }));
  change({ kind: "added", deployment: allowing() });
  await reports.save(aReport({ pullRequest, head, obstacle: { kind: "fork" } }));
  change({ kind: "added", deployment: allowing() });
  await vi.waitFor(() => expect(queue.requests).toEqual([request]), patience);
});

test("a preview that was rendered without the cluster is compared with it once that is allowed", async () => {
  const { change, queue, reports } = setUp();
  await reports.save(aReport({ pullRequest, head, previews: [aPreview({ isolated: true, deployment: plain.key })] }));
  change({ kind: "added", deployment: allowing() });
  await vi.waitFor(() => expect(queue.requests).toEqual([request]), patience);
});

test("a server that stops requests nothing more", async () => {
  const { change, queue, stop } = setUp();
  stop();
  change({ kind: "changed", previous: plain, deployment: allowing() });
  await Promise.resolve();
  expect(queue.requests).toEqual([]);
});
