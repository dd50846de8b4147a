/** Reads the queue for display, retries failed jobs, and removes those for which there is no worker any more. */
import type { Job, Queue as BullQueue } from "bullmq";
import type { Redis } from "ioredis";
import { type RepoId, type Request, subjectOf } from "../src/model.ts";
import { withinDeadline } from "../src/redis/connection.ts";
import { deadlineMs, delayedUntil, followUpKey, jobOfKey, mostFailed, waitsForHealth, whyPutOff } from "./bullmq.ts";
import { parseJobData } from "./job-data.ts";
import { type Lane, laneOf, lanes } from "./lanes.ts";

export interface QueuedJobs {
  /** The number of jobs in one lane, or in all lanes. */
  depth(lane?: Lane): Promise<Depth>;
  /** The first jobs of each lane and state, for display. Throws QueueUnavailableError. */
  jobs(): Promise<readonly ListedJob[]>;
  /**
   * The job of the request's subject that runs or waits. Of a running job that another one follows, the one that
   * follows, as waiting. Throws QueueUnavailableError.
   */
  find(request: Request): Promise<FoundJob | undefined>;
  /** The jobs of a lane that have waited for a worker for this long, the next ones first. Throws QueueUnavailableError. */
  waiting(lane: Lane, forMs: number): Promise<readonly ListedJob[]>;
  /**
   * Queues a permanently failed job again. `queued`: whether a new job was created; otherwise the request joined an
   * existing one. `undefined`: no job of this subject has failed. Throws QueueUnavailableError.
   */
  retryFailed(
    lane: string,
    subject: string,
    allow?: (request: Request) => Promise<void>,
  ): Promise<{ readonly queued: boolean } | undefined>;
  /** Removes jobs that were requested longer ago, unless a worker has them. Throws QueueUnavailableError. */
  removeOld(lane: Lane, olderThanMs: number): Promise<void>;
}

export interface ListedJob {
  readonly lane: Lane;
  readonly request: Request;
  /** The subject: `reconcile:shop/staging`. */
  readonly subject: string;
  readonly state: (typeof listedStates)[number];
  /** When it started, was requested or failed, in epoch milliseconds. */
  readonly at: number;
  readonly tries: number;
  /** Why it failed or was delayed, as far as the queue knows. */
  readonly why?: string | undefined;
  /** When a delayed job is tried again, in epoch milliseconds. */
  readonly nextAt?: number | undefined;
}

/** `why` and `nextAt`: of a delayed job, as in ListedJob. */
export interface FoundJob extends Pick<ListedJob, "why" | "nextAt"> {
  readonly state: "active" | "waiting" | "delayed";
  /** When a job that waits for a worker was requested, in epoch milliseconds; absent while it follows a running one. */
  readonly at?: number | undefined;
}

const listedStates = ["active", "waiting", "delayed", "failed"] as const;
/** Per lane and state. */
const mostListed = 20;
/** Of one lane: those after them are found later. */
const mostWaiting = 100;
/** Per state and call, so that one call does not block Redis for long. */
const mostRemoved = 1_000;

export interface Depth {
  readonly waiting: number;
  readonly active: number;
  /** Waiting for a retry, or for a lease held elsewhere. */
  readonly delayed: number;
}

export interface QueuedJobsDeps {
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  /** Creates the queue of a lane on first use. */
  readonly open: (lane: Lane, signal: AbortSignal) => Promise<BullQueue>;
  /** Returns how many jobs were created. Throws QueueUnavailableError. */
  readonly enqueue: (requests: readonly Request[], moved: readonly RepoId[]) => Promise<number>;
}

export function createQueuedJobs({ connection, prefix, open, enqueue }: QueuedJobsDeps): QueuedJobs {
  async function findFailed(lane: Lane, subject: string, signal: AbortSignal): Promise<Job[]> {
    const queue = await open(lane, signal);
    const jobs = await queue.getJobs(["failed"], 0, mostFailed - 1);
    return jobs.filter((job) => listJob(lane, "failed", job)?.subject === subject);
  }

  return {
    async retryFailed(name, subject, allow) {
      const lane = lanes.find((one) => one === name);
      if (lane === undefined) return undefined;
      const failed = await withinDeadline("find the job", deadlineMs, (signal) => findFailed(lane, subject, signal));
      const request = failed[0] && parseJobData(lane, failed[0].data);
      if (request === undefined) return undefined;
      await allow?.(request);
      // The user may know of a change that no webhook reported: query git again.
      const moved = request.kind === "reconcile" && request.repo !== undefined ? [request.repo] : [];
      // Queues a new request instead of the old job: a newer one may be waiting or running, and there must be at most
      // one per subject.
      const queued = (await enqueue([toRetry(request)], moved)) > 0;
      // The queue then lists it as waiting, not as failed.
      await withinDeadline("remove the failed job", deadlineMs, () => Promise.all(failed.map((job) => job.remove())));
      return { queued };
    },
    async find(request) {
      const lane = laneOf(request);
      return withinDeadline("find the job", deadlineMs, async (signal) => {
        const queue = await open(lane, signal);
        const id = await connection.get(jobOfKey(prefix, lane, request));
        const job = id === null ? undefined : await queue.getJob(id);
        switch (await job?.getState()) {
          case "active":
            return { state: (await connection.exists(followUpKey(queue, request))) > 0 ? "waiting" : "active" };
          case "waiting":
          case "prioritized":
            return { state: "waiting", at: job?.timestamp };
          case "delayed": {
            const { why } = listJob(lane, "delayed", job) ?? {};
            const nextAt = delayedUntil(await connection.zscore(queue.toKey("delayed"), id ?? ""));
            return { state: "delayed", why, nextAt };
          }
          default:
            return undefined;
        }
      });
    },
    async waiting(lane, forMs) {
      return withinDeadline("list the waiting jobs", deadlineMs, async (signal) => {
        const queue = await open(lane, signal);
        const jobs = await queue.getJobs(["waiting", "prioritized"], 0, mostWaiting - 1, true);
        const listed = jobs.flatMap((job) => listJob(lane, "waiting", job) ?? []);
        return listed.filter(({ at }) => at <= Date.now() - forMs);
      });
    },
    async depth(lane) {
      const counts = await withinDeadline("count the jobs", deadlineMs, (signal) =>
        Promise.all((lane ? [lane] : lanes).map(async (one) => count(await open(one, signal)))),
      );
      return counts.reduce((sum, one) => ({
        waiting: sum.waiting + one.waiting,
        active: sum.active + one.active,
        delayed: sum.delayed + one.delayed,
      }));
    },
    async removeOld(lane, olderThanMs) {
      await withinDeadline("remove old jobs", deadlineMs, async (signal) => {
        const queue = await open(lane, signal);
        // A job can be active without a worker, if its server was killed.
        const states = ["prioritized", "delayed", "active"] as const;
        for (const state of states) await queue.clean(olderThanMs, mostRemoved, state);
      });
    },
    async jobs() {
      return withinDeadline("list the jobs", deadlineMs, async (signal) => {
        const lists = lanes.flatMap((lane) => listedStates.map((state) => ({ lane, state })));
        const found = lists.map(async ({ lane, state }) => {
          const queue = await open(lane, signal);
          const of = state === "waiting" ? (["waiting", "prioritized"] as const) : ([state] as const);
          const jobs = await queue.getJobs([...of], 0, mostListed - 1, state !== "failed");
          const listed = jobs.slice(0, mostListed).flatMap((job) => listJob(lane, state, job) ?? []);
          if (state !== "delayed") return listed;
          const scores = listed.map(async ({ id }) => connection.zscore(queue.toKey("delayed"), id));
          return (await Promise.all(scores)).map((score, i) => ({ ...listed[i]!, nextAt: delayedUntil(score) }));
        });
        return (await Promise.all(found)).flat();
      });
    },
  };
}

/** Returns `undefined` for jobs that are already gone, or that this version cannot read. */
function listJob(
  lane: Lane,
  state: ListedJob["state"],
  job: Job | undefined,
): (ListedJob & { readonly id: string }) | undefined {
  if (job === undefined) return undefined;
  const request = parseJobData(lane, job.data);
  if (request === undefined) return undefined;
  const times = { active: job.processedOn, failed: job.finishedOn, waiting: undefined, delayed: undefined };
  const { id = "", attemptsMade: tries, failedReason } = job;
  const why = failedReason ?? (state === "delayed" ? whyDelayed(job.progress) : undefined);
  return { id, lane, request, subject: subjectOf(request), state, at: times[state] ?? job.timestamp, tries, why };
}

/** Why a delayed job that has not failed waits. */
export function whyDelayed(progress: unknown): string {
  if (progress === waitsForHealth) return "waiting until it is healthy";
  return whyPutOff(progress) ?? "another job holds the deployment's lease";
}

async function count(queue: BullQueue): Promise<Depth> {
  const counts = await queue.getJobCounts("waiting", "prioritized", "active", "delayed");
  const { waiting = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
  return { waiting: waiting + prioritized, active, delayed };
}

/** Requests by annotation have been answered; what is left is to reconcile the deployment itself. */
function toRetry(request: Request): Request {
  return request.kind === "reconcile" && request.cause === "manual" ? { ...request, cause: "change" } : request;
}
