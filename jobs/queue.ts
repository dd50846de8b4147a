/**
 * What has to be brought up to date, in Redis: per subject one job runs and at most one waits.
 *
 * A request that finds a job of its subject waiting adds nothing: that job looks at git when it starts, and so sees
 * what this request is about. One that finds it running is kept and runs right after it. One that finds it waiting for
 * another try takes its place at once. Only `interval` asks for less: it is content with any job there is.
 */
import { createHash, randomUUID } from "node:crypto";
import { type Job, Queue as BullQueue } from "bullmq";
import type { Redis } from "ioredis";
import type { Logger } from "../src/log.ts";
import { type Cause, type RepoId, type Request, subjectOf } from "../src/model.ts";
import type { Queue } from "../src/ports.ts";
import { createBatch } from "./batch.ts";
import { followUpKey, jobOptions, queueName } from "./bullmq.ts";
import { createReadiness, describeRedisError, withinDeadline } from "./connection.ts";
import { type Fairness, moreUrgentOf, urgencyOf } from "./fairness.ts";
import { parseJobData, toJobData } from "./job-data.ts";

export interface QueueDeps {
  /** A producer's, see connection.ts. */
  readonly connection: Redis;
  /** Starts every key of ours in Redis. */
  readonly prefix: string;
  /** Shared with the worker of this process. */
  readonly fairness: Fairness;
  readonly log: Logger;
  readonly observe?: { enqueued(cause: Cause, queued: boolean): void; unavailable(): void } | undefined;
}

export interface JobQueue extends Queue {
  /** True for the first of all replicas that asks in this time. Throws QueueUnavailableError. */
  claim(what: string, forMs: number): Promise<boolean>;
  depth(): Promise<Depth>;
  close(): Promise<void>;
}

export interface Depth {
  readonly waiting: number;
  readonly active: number;
  /** Waiting for another try, or for somebody else's lease. */
  readonly delayed: number;
}

/** A git host gives up after 10 s, and a sender that hears 503 sends again. */
const deadlineMs = 2_000;
/** In a rush of deliveries, how long the first waits for others to share a round trip with. */
const gatherMs = 5;
const moveKnownForS = 7 * 24 * 3_600;

export function createQueue({ connection, prefix, fairness, log, observe }: QueueDeps): JobQueue {
  const ready = createReadiness(connection);
  let bull: BullQueue | undefined;

  /** Made on first use, when Redis is there: BullMQ never recovers from a Redis that fails its very first questions. */
  async function open(signal: AbortSignal): Promise<BullQueue> {
    await ready(signal);
    if (bull) return bull;
    const queue = new BullQueue(queueName, { connection, prefix, streams: { events: { maxLen: 1_000 } } });
    bull = queue;
    queue.on("error", (error) => log.debug({ error: describeRedisError(error) }, "queue error"));
    queue.waitUntilReady().catch(() => {
      if (bull === queue) bull = undefined;
      void queue.close();
    });
    return queue;
  }

  async function inTime<T>(what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await withinDeadline(what, deadlineMs, work);
    } catch (error) {
      observe?.unavailable();
      throw error;
    }
  }

  /** Says of each whether it made a job, or a follow-up of a running one. */
  async function add(requests: readonly Request[], signal: AbortSignal): Promise<boolean[]> {
    const queue = await open(signal);
    const wanted = requests.map((request) => ({
      request,
      id: randomUUID(),
      priority: fairness.place(request.cause, request.repo),
    }));
    let jobs: Job[];
    try {
      jobs = await queue.addBulk(
        wanted.map(({ request, id, priority }) => ({
          name: request.kind,
          data: toJobData(request),
          opts: { ...jobOptions, jobId: id, priority, deduplication: deduplication(request) },
        })),
      );
    } catch (error) {
      for (const { request, priority } of wanted.toReversed()) fairness.giveBack(priority, request.repo);
      throw error;
    }
    // BullMQ answers with the id of the job that is there, ours or the one that made ours unnecessary.
    const outcomes = await Promise.all(
      wanted.map(async (one, i) => {
        const there = jobs[i]?.id ?? one.id;
        return there === one.id || (await join(queue, one, there));
      }),
    );
    for (const [i, { request, priority }] of [...wanted.entries()].toReversed()) {
      if (outcomes[i] === false) fairness.giveBack(priority, request.repo);
    }
    for (const [i, { request }] of wanted.entries()) observe?.enqueued(request.cause, outcomes[i] === true);
    return outcomes;
  }

  /** In a rush of pushes many are about the same: of those one is enough, and it is the first's that made the job. */
  const take = createBatch(gatherMs, async (requests: readonly Request[]) => {
    const bySubject = new Map<string, { readonly first: Request; request: Request }>();
    for (const request of requests) {
      const same = bySubject.get(subjectOf(request));
      if (same) same.request = moreUrgentOf(same.request, request);
      else bySubject.set(subjectOf(request), { first: request, request });
    }
    const distinct = [...bySubject.values()];
    const made = await inTime("take the request", (signal) =>
      add(
        distinct.map(({ request }) => request),
        signal,
      ),
    );
    const makers = new Set(distinct.filter((_, i) => made[i]).map(({ first }) => first));
    return requests.map((request) => makers.has(request));
  });

  const mark = createBatch(gatherMs, async (repos: readonly RepoId[]) => {
    await inTime("note that the repository moved", async (signal) => {
      await ready(signal);
      const keys = new Set(repos.map((repo) => movedKey(prefix, repo)));
      await Promise.all([...keys].map((key) => connection.set(key, randomUUID(), "EX", moveKnownForS)));
    });
    return repos;
  });

  /**
   * A job of the subject is there already. True if it runs and ours follows it; otherwise it waits, and is made as
   * urgent as ours. That only concerns its place in the line: failing to do so loses nothing.
   */
  async function join(queue: BullQueue, { request, id, priority }: Wanted, thereId: string): Promise<boolean> {
    if (request.cause === "interval") return false;
    try {
      // One round trip for the two answers that most often are all that is needed.
      const [follower, waitingPriority] = await Promise.all([
        connection.hget(followUpKey(queue, subjectOf(request)), "jid"),
        connection.hget(queue.toKey(thereId), "priority"),
      ]);
      if (follower === id) return true;
      if (waitingPriority === null || urgencyOf(priority) >= urgencyOf(Number(waitingPriority))) return false;
      const there = await queue.getJob(thereId);
      if (there) {
        // Its worker may take it at any moment: what it is about comes before its place.
        await there.updateData(toJobData(moreUrgent(request, parseJobData(there.data))));
        await there.changePriority({ priority });
      }
    } catch (error) {
      log.debug({ error: describeRedisError(error) }, "a waiting job could not be made more urgent");
    }
    return false;
  }

  return {
    async enqueue(requests) {
      // The limit holds also for those who wait behind a batch that Redis does not take.
      const made = await inTime("take the request", () => Promise.all(requests.map(take)));
      return { queued: made.filter(Boolean).length };
    },
    async markMoved(repo) {
      await inTime("note that the repository moved", () => mark(repo));
    },
    async lastMove(repo) {
      try {
        return (await withinDeadline("answer", deadlineMs, () => connection.get(movedKey(prefix, repo)))) ?? undefined;
      } catch {
        return undefined; // then git is asked, which is slower and always right
      }
    },
    async claim(what, forMs) {
      const key = `${prefix}:claim:${digest(what)}`;
      return withinDeadline("take the claim", deadlineMs, async (signal) => {
        await ready(signal);
        return (await connection.set(key, "1", "PX", forMs, "NX")) === "OK";
      });
    },
    async depth() {
      const counts = await withinDeadline("count the jobs", deadlineMs, async (signal) =>
        (await open(signal)).getJobCounts("waiting", "prioritized", "active", "delayed"),
      );
      const { waiting = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
      return { waiting: waiting + prioritized, active, delayed };
    },
    async close() {
      await bull?.close();
    },
  };
}

interface Wanted {
  readonly request: Request;
  readonly id: string;
  readonly priority: number;
}

function deduplication(request: Request) {
  const id = subjectOf(request);
  return request.cause === "interval" ? { id } : { id, keepLastIfActive: true, replace: true };
}

/** The first delivery that is waited for stays the one whose time is taken. */
function moreUrgent(request: Request, waiting: Request | undefined): Request {
  if (waiting?.receivedAt === undefined) return request;
  return { ...request, delivery: waiting.delivery, receivedAt: waiting.receivedAt };
}

function movedKey(prefix: string, repo: RepoId): string {
  return `${prefix}:moved:${digest(repo)}`;
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}
