import { expect, test, vi } from "vitest";
import type { LaneRequests } from "../../../jobs/lanes.ts";
import type { WorkResult } from "../../../jobs/worker.ts";
import { SupersededError } from "../../../src/errors.ts";
import type { Attempt, Outcome, PreviewCause } from "../../../src/model.ts";
import { aPreviewRequest, done, gate, type TestQueue, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

const nothing = { waiting: 0, active: 0, delayed: 0 };

/** Previews that run until they are ended or aborted. */
function usePreviews({ workOn }: TestQueue) {
  const runs: { request: LaneRequests["preview"]; attempt: number; signal: AbortSignal; end: () => void }[] = [];
  const results: WorkResult[] = [];
  const preview = async (request: LaneRequests["preview"], { attempt, signal }: Attempt): Promise<Outcome> => {
    const { opened, open } = gate();
    runs.push({ request, attempt, signal, end: open });
    const aborted = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
    await Promise.race([opened, aborted]);
    return done;
  };
  const worker = workOn("preview", preview, {
    observe: { started: () => undefined, finished: (_request, result) => void results.push(result) },
    timing: { supersedeEveryMs: 20 },
  });
  return { runs, results, worker };
}

async function ask({ queue }: TestQueue, cause: PreviewCause, number = 7): Promise<void> {
  await queue.enqueue([aPreviewRequest(number, cause)]);
}

test("a preview is aborted when its pull request changes, and the newer one runs", async () => {
  const jobs = await useQueue();
  const { runs, results } = usePreviews(jobs);
  await ask(jobs, "pull-request");
  await ask(jobs, "pull-request", 8);
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);

  await ask(jobs, "pull-request");

  await vi.waitFor(() => expect(runs).toHaveLength(3), patience);
  expect(runs[0]?.signal.reason).toBeInstanceOf(SupersededError);
  expect(runs[2]).toMatchObject({ request: { pullRequest: { number: 7 } }, attempt: 1 });
  expect(runs[1]?.signal.aborted).toBe(false);
  for (const { end } of runs) end();
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toEqual(nothing), patience);
  expect(results.toSorted()).toEqual(["done", "done", "skipped"]);
});

test("a base branch that moves all the time aborts a preview three times, and then lets it finish", async () => {
  const jobs = await useQueue();
  const { runs, results } = usePreviews(jobs);
  await ask(jobs, "pull-request");
  for (const broken of [1, 2, 3]) {
    await vi.waitFor(() => expect(runs).toHaveLength(broken), patience);
    await ask(jobs, "base");
  }
  await vi.waitFor(() => expect(runs).toHaveLength(4), patience);
  await ask(jobs, "base");
  // Another preview is aborted meanwhile, which shows that this one was considered and left running.
  await ask(jobs, "base", 8);
  await vi.waitFor(() => expect(runs).toHaveLength(5), patience);
  await ask(jobs, "base", 8);
  await vi.waitFor(() => expect(runs).toHaveLength(6), patience);
  expect(runs[3]?.signal.aborted).toBe(false);

  runs[3]?.end();
  await vi.waitFor(() => expect(runs).toHaveLength(7), patience);
  await ask(jobs, "base");
  await vi.waitFor(() => expect(runs).toHaveLength(8), patience); // it has finished once, so it can be aborted again
  expect(results.filter((result) => result === "done")).toHaveLength(1);
});

test("a sweep that finds a pull request during its preview neither aborts that preview nor queues another", async () => {
  const jobs = await useQueue();
  const { runs, results } = usePreviews(jobs);
  await ask(jobs, "pull-request");
  await ask(jobs, "pull-request", 8);
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);

  await ask(jobs, "sweep");
  // Of the two, the change takes precedence: the git host reported it, while the sweep found the same state.
  await Promise.all([ask(jobs, "sweep", 8), ask(jobs, "pull-request", 8)]);

  await vi.waitFor(() => expect(runs).toHaveLength(3), patience);
  expect(runs[2]?.request).toMatchObject({ cause: "pull-request", pullRequest: { number: 8 } });
  expect(runs[0]?.signal.aborted).toBe(false);
  for (const { end } of runs) end();
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toEqual(nothing), patience);
  expect(results.toSorted()).toEqual(["done", "done", "skipped"]);
});

test("a change of the pull request always aborts its preview, however often that happened before", async () => {
  const jobs = await useQueue();
  const { runs } = usePreviews(jobs);
  await ask(jobs, "pull-request");
  for (let broken = 1; broken <= 6; broken++) {
    await vi.waitFor(() => expect(runs).toHaveLength(broken), patience);
    await ask(jobs, "pull-request");
  }
  await vi.waitFor(() => expect(runs).toHaveLength(7), patience);
});

test("a preview that finishes although it was aborted keeps its outcome, and the newer one runs", async () => {
  const jobs = await useQueue();
  const results: WorkResult[] = [];
  let runs = 0;
  jobs.workOn(
    "preview",
    async (_request, { signal }) => {
      runs++;
      if (runs === 1) await new Promise((resolve) => signal.addEventListener("abort", resolve));
      return done;
    },
    {
      observe: { started: () => undefined, finished: (_request, result) => void results.push(result) },
      timing: { supersedeEveryMs: 20 },
    },
  );
  await ask(jobs, "pull-request");
  await vi.waitFor(() => expect(runs).toBe(1), patience);
  await ask(jobs, "pull-request");

  await vi.waitFor(() => expect(results).toEqual(["done", "done"]), patience);
});

test("a server that stops hands its previews to another", async () => {
  const jobs = await useQueue();
  const { runs, results, worker } = usePreviews(jobs);
  await ask(jobs, "pull-request");
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  await worker.stop(0);

  expect(results).toEqual(["handed-back"]);
  const { runs: again } = usePreviews(jobs);
  await vi.waitFor(() => expect(again).toHaveLength(1), patience);
  expect(again[0]?.attempt).toBe(1);
});

test("a preview survives a restart of Redis, and can still be superseded", async () => {
  const jobs = await useQueue();
  const { runs } = usePreviews(jobs);
  await ask(jobs, "pull-request");
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  await jobs.redis.stop();
  await jobs.redis.start();
  await vi.waitFor(() => ask(jobs, "pull-request"), patience);

  await vi.waitFor(() => expect(runs[0]?.signal.reason).toBeInstanceOf(SupersededError), patience);
  await vi.waitFor(() => expect(runs.length).toBeGreaterThan(1), patience);
});

test("an unreadable request behind one preview does not keep others from being superseded", async () => {
  const jobs = await useQueue();
  const { runs } = usePreviews(jobs);
  await ask(jobs, "pull-request", 6);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  await ask(jobs, "pull-request");
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
  await jobs.redis.client().hset(`${jobs.prefix}:preview:dn:preview:gitea:org/shop#6`, { data: "nonsense" });

  await ask(jobs, "pull-request");

  await vi.waitFor(() => expect(runs[1]?.signal.reason).toBeInstanceOf(SupersededError), patience);
  expect(runs[0]?.signal.aborted).toBe(false);
});

test("the preview of a merge queue group is aborted when the group ends, and not when it is announced again", async () => {
  const jobs = await useQueue();
  const { runs, results } = usePreviews(jobs);
  const [base, commit] = ["b".repeat(40), "c".repeat(40)];
  const branch = `gh-readonly-queue/main/pr-7-${base}`;
  const group = { forge: "github", repoName: "org/shop", commit, branch, base };
  const announce = (ended: boolean) => jobs.queue.enqueue([{ kind: "merge-group", group, ended }]);
  await announce(false);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  await announce(false);
  // Another preview is aborted meanwhile, which shows that this one was considered and left running.
  await ask(jobs, "pull-request", 8);
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
  await ask(jobs, "pull-request", 8);
  await vi.waitFor(() => expect(runs).toHaveLength(3), patience);
  expect(runs[0]?.signal.aborted).toBe(false);

  await announce(true);

  await vi.waitFor(() => expect(runs).toHaveLength(4), patience);
  expect(runs[0]?.signal.reason).toBeInstanceOf(SupersededError);
  expect(runs[3]?.request).toMatchObject({ kind: "merge-group", ended: true });
  for (const { end } of runs) end();
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toEqual(nothing), patience);
  expect(results.filter((result) => result === "skipped")).toHaveLength(2);
});

test("the end of a merge queue group replaces its waiting request", async () => {
  const jobs = await useQueue();
  const [base, commit] = ["b".repeat(40), "c".repeat(40)];
  const branch = `gh-readonly-queue/main/pr-7-${base}`;
  const group = { forge: "github", repoName: "org/shop", commit, branch, base };
  for (const ended of [false, true, false]) await jobs.queue.enqueue([{ kind: "merge-group", group, ended }]);

  const { runs } = usePreviews(jobs);

  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  expect(runs[0]?.request).toMatchObject({ ended: true });
  for (const { end } of runs) end();
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toEqual(nothing), patience);
});

test("what a user requested stays the cause of the preview that another request replaces, until one is complete", async () => {
  const jobs = await useQueue();
  const { runs } = usePreviews(jobs);
  await ask(jobs, "cluster");
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
  // Of the requests that follow a running preview, the queue keeps the last.
  await Promise.all([ask(jobs, "pull-request"), ask(jobs, "pull-request", 8)]);
  await ask(jobs, "base");
  await vi.waitFor(() => expect(runs.length).toBeGreaterThan(2), patience);
  const last = () => runs.filter(({ request }) => "pullRequest" in request && request.pullRequest.number === 7).at(-1);
  await vi.waitFor(() => expect(last()).toMatchObject({ request: { cause: "pull-request" } }), patience);

  // Also if that one is aborted in turn.
  const before = last();
  await ask(jobs, "cluster");
  await vi.waitFor(() => expect(last()).not.toBe(before), patience);
  expect(last()).toMatchObject({ request: { cause: "pull-request" } });
  for (const { end } of runs) end();
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toEqual(nothing), patience);

  const complete = runs.length;
  await ask(jobs, "cluster");
  await vi.waitFor(() => expect(runs).toHaveLength(complete + 1), patience);
  expect(last()).toMatchObject({ request: { cause: "cluster" } });
});

test("a preview that a user requested and that was put off is the user's when another request replaces it", async () => {
  const jobs = await useQueue();
  const causes: PreviewCause[] = [];
  jobs.workOn("preview", async (request) => {
    if (request.kind === "preview") causes.push(request.cause);
    return causes.length === 1 ? { kind: "later", afterMs: 60_000, why: "the remote is slow" } : done;
  });
  await ask(jobs, "pull-request");
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toMatchObject({ delayed: 1 }), patience);
  await ask(jobs, "cluster");
  await vi.waitFor(() => expect(causes).toHaveLength(2), patience);
  expect(causes).toEqual(["pull-request", "pull-request"]);
  await vi.waitFor(async () => expect(await jobs.queue.depth()).toEqual(nothing), patience);
  const { redis, prefix } = jobs;
  await vi.waitFor(async () => expect(await redis.client().keys(`${prefix}:causes:*`)).toEqual([]), patience);
});
