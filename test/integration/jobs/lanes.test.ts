import { expect, test, vi } from "vitest";
import type { LaneRequests } from "../../../jobs/lanes.ts";
import type { CommitStatusRequest, FluxFetchRequest, ReportRequest, RepoId } from "../../../src/model.ts";
import { aPreviewRequest, aPullRequestKey, aRequest, done, failedSoon, gate, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

const nothing = { waiting: 0, active: 0, delayed: 0 };
const report: ReportRequest = { kind: "report", pullRequest: aPullRequestKey() };
const status: CommitStatusRequest = {
  kind: "commit-status",
  commit: { forge: "gitea", repoName: "org/shop", commit: "c".repeat(40) },
  repo: "git.example.com/org/shop" as RepoId,
};

test("requests that were queued together run in separate lanes that do not wait for each other", async () => {
  const { queue, work, workOn } = await useQueue();
  const names = Array.from({ length: 20 }, (_, i) => `d${i}`);
  const asked = [...names.map((name) => aRequest(name)), aPreviewRequest(1), aPreviewRequest(2), report, status];
  expect(await queue.enqueue(asked)).toEqual({ queued: 24 });
  expect(await queue.depth("preview")).toEqual({ ...nothing, waiting: 2 });
  expect(await queue.depth()).toEqual({ ...nothing, waiting: 24 });

  const deploys = gate();
  work(async () => {
    await deploys.opened;
    return done;
  });
  const previewed: LaneRequests["preview"][] = [];
  const previews = gate();
  workOn("preview", async (request) => {
    previewed.push(request);
    await previews.opened;
    return done;
  });
  const reported: (ReportRequest | CommitStatusRequest)[] = [];
  workOn("report", async (request) => {
    reported.push(request);
    return done;
  });

  await vi.waitFor(() => expect(previewed).toHaveLength(2), patience);
  await vi.waitFor(() => expect(reported).toEqual([report, status]), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual({ waiting: 18, active: 4, delayed: 0 }), patience);
  previews.open();
  deploys.open();
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
});

test("a manual request does not wait, even if all workers are busy with the same and other deployments", async () => {
  const { queue, work, workOn } = await useQueue();
  const busy = gate();
  let running = 0;
  work(async () => {
    running++;
    await busy.opened;
    return done;
  });
  await queue.enqueue(["a", "b", "c", "d"].map((name) => aRequest(name, "interval")));
  await vi.waitFor(() => expect(running).toBe(2), patience);

  const asked: string[] = [];
  workOn("manual", async ({ deployment }) => {
    asked.push(deployment.name);
    return done;
  });
  expect(await queue.enqueue(["a", "c", "e"].map((name) => aRequest(name, "manual")))).toEqual({ queued: 3 });
  await vi.waitFor(() => expect(asked.toSorted()).toEqual(["a", "c", "e"]), patience);
  expect(running).toBe(2);
  busy.open();
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  expect(running).toBe(4);
});

test("requests for one pull request collapse however its repository is spelled, but not with its report", async () => {
  const { queue, workOn } = await useQueue();
  const spelled = (repoName: string) => ({
    ...aPreviewRequest(),
    pullRequest: aPullRequestKey(7, repoName),
  });
  const queued = [];
  for (const request of [spelled("org/shop"), spelled("Org/Shop"), aPreviewRequest(8), report, report, status]) {
    queued.push((await queue.enqueue([request])).queued);
  }
  expect(queued).toEqual([1, 0, 1, 1, 0, 1]);

  const running = gate();
  let reports = 0;
  workOn("report", async ({ kind }) => {
    if (kind === "report") reports++;
    await running.opened;
    return done;
  });
  await vi.waitFor(() => expect(reports).toBe(1), patience);
  await Promise.all([queue.enqueue([report]), queue.enqueue([report]), queue.enqueue([report])]);
  running.open();

  await vi.waitFor(() => expect(reports).toBe(2), patience);
  await vi.waitFor(async () => expect(await queue.depth("report")).toEqual(nothing), patience);
});

test("a request for a changed pull request takes over the waiting preview of its moved base branch", async () => {
  const { queue, workOn } = await useQueue();
  await queue.enqueue([1, 2, 3].map((number) => aPreviewRequest(number, "base")));

  await queue.enqueue([{ ...aPreviewRequest(3), delivery: "d1", receivedAt: 1_000 }]);
  await queue.enqueue([aPreviewRequest(3, "sweep")]); // less urgent, so it replaces nothing

  const runs: LaneRequests["preview"][] = [];
  workOn(
    "preview",
    async (request) => {
      runs.push(request);
      return done;
    },
    { concurrency: 1 },
  );
  await vi.waitFor(
    () => expect(runs.map((one) => one.kind === "preview" && one.pullRequest.number)).toEqual([3, 1, 2]),
    patience,
  );
  expect(runs[0]).toMatchObject({ cause: "pull-request", delivery: "d1", receivedAt: 1_000 });
});

test("a failed report is retried, and a new request does not wait for the retry", async () => {
  const { queue, workOn } = await useQueue();
  const attempts: number[] = [];
  workOn("report", async (_, { attempt }) => {
    attempts.push(attempt);
    return attempts.length < 4 ? failedSoon : done;
  });
  await queue.enqueue([report]);
  await vi.waitFor(() => expect(attempts).toEqual([1, 2, 3]), patience); // the next try is 4 s away
  await vi.waitFor(async () => expect(await queue.depth("report")).toMatchObject({ delayed: 1 }), patience);

  await queue.enqueue([report]);

  await vi.waitFor(() => expect(attempts).toEqual([1, 2, 3, 1]), patience);
});

test("jobs of a lane without workers can be removed, once they are old, and can be requested again after that", async () => {
  const { queue, workOn } = await useQueue();
  const fetchOf = (name: string): FluxFetchRequest => ({
    kind: "flux-fetch",
    source: { namespace: "flux-system", name },
    cause: "push",
  });
  const busy = gate();
  workOn(
    "flux",
    async () => {
      await busy.opened;
      return done;
    },
    { concurrency: 1 },
  );
  await queue.enqueue([fetchOf("a")]);
  await vi.waitFor(async () => expect(await queue.depth("flux")).toMatchObject({ active: 1 }), patience);
  await queue.enqueue([fetchOf("b"), fetchOf("c"), aRequest("shop")]);
  await queue.removeOld("flux", 3_600_000);
  expect(await queue.depth("flux")).toEqual({ ...nothing, active: 1, waiting: 2 });
  await queue.removeOld("flux", 0);
  expect(await queue.depth("flux"), "the running one is left").toEqual({ ...nothing, active: 1 });
  expect(await queue.depth("reconcile"), "other lanes are left").toEqual({ ...nothing, waiting: 1 });
  expect(await queue.enqueue([fetchOf("b")])).toEqual({ queued: 1 });
  busy.open();
  await vi.waitFor(async () => expect(await queue.depth("flux")).toEqual(nothing), patience);
});
