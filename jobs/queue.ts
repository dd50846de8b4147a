/**
 * Step 5 of a push: stores the requests in Redis, where they outlive the delivery and this server. Per subject (and
 * lane), one job runs and at most one waits. Next: jobs/worker.ts.
 *
 * A request that finds a waiting job of its subject creates no other: that job reads git when it starts and learns then
 * why it was requested (joined.ts). If the job is running, the request is stored and runs right after it. If the job
 * waits for a retry, the request replaces it immediately. Only `interval` and the sweep of pull requests need less: any
 * existing job is enough for them.
 */
import { randomUUID } from "node:crypto";
import { type Job, Queue as BullQueue } from "bullmq";
import type { Redis } from "ioredis";
import { parseJson } from "../src/kit/json.ts";
import type { Logger } from "../src/log.ts";
import type { Cause, PreviewCause, RepoId, Request } from "../src/model.ts";
import type { Queue } from "../src/ports.ts";
import { createBatch } from "./batch.ts";
import { deadlineMs, deduplicationId, followUpKey, jobOptions } from "./bullmq.ts";
import { createReadiness, describeRedisError, withinDeadline } from "../src/redis/connection.ts";
import { type LaneFairness, moreUrgentOf, urgencyAt, urgencyOf } from "./fairness.ts";
import { createLookAhead } from "./look-ahead.ts";
import { parseJobData, toJobData } from "./job-data.ts";
import { digest, movedKey } from "../src/redis/keys.ts";
import { type Lane, laneOf } from "./lanes.ts";
import { createQueuedJobs, type QueuedJobs } from "./queued-jobs.ts";

export interface QueueDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  /** Shared with the workers of this process. */
  readonly fairness: LaneFairness;
  readonly log: Logger;
  readonly observe?: { enqueued(request: Request, queued: boolean): void; unavailable(): void } | undefined;
}

export interface JobQueue extends Queue, QueuedJobs {
  /** Returns true to the first replica that calls it within this time. Throws QueueUnavailableError. */
  claim(what: string, forMs: number): Promise<boolean>;
  close(): Promise<void>;
}

/** During a burst of deliveries, how long the first one waits for others that share its round trip. */
const gatherMs = 5;

export function createQueue({ connection, prefix, fairness, log, observe }: QueueDeps): JobQueue {
  const ready = createReadiness(connection);
  const queues = new Map<Lane, BullQueue>();

  /** Creates the queue on first use, once Redis is available: BullMQ never recovers if its very first commands fail. */
  async function open(lane: Lane, signal: AbortSignal): Promise<BullQueue> {
    await ready(signal);
    const opened = queues.get(lane);
    if (opened) return opened;
    const queue = new BullQueue(lane, { connection, prefix, streams: { events: { maxLen: 1_000 } } });
    queues.set(lane, queue);
    queue.on("error", (error) => log.debug({ lane, error: describeRedisError(error) }, "queue error"));
    queue.waitUntilReady().catch(() => {
      if (queues.get(lane) === queue) queues.delete(lane);
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

  /** Returns for each request whether it created a job, or a follow-up of a running one. */
  async function add(lane: Lane, requests: readonly Request[], signal: AbortSignal): Promise<boolean[]> {
    const queue = await open(lane, signal);
    const places = fairness[lane];
    const wanted = requests.map((request, i) => ({ request, id: randomUUID(), priority: 0, i }));
    const inLine = places.shortestFirst(wanted, ({ request }) => request);
    for (const one of inLine) one.priority = places.place(one.request);
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
      for (const { request, priority } of inLine.toReversed()) places.giveBack(priority, request);
      throw error;
    }
    // BullMQ returns the id of the subject's job: ours, or the existing one that made ours unnecessary.
    const outcomes = await Promise.all(
      wanted.map(async (one, i) => {
        const there = jobs[i]?.id ?? one.id;
        return there === one.id || (await join(queue, one, there));
      }),
    );
    for (const { request, priority, i } of inLine.toReversed()) {
      if (outcomes[i] === false) places.giveBack(priority, request);
    }
    for (const [i, { request }] of wanted.entries()) observe?.enqueued(request, outcomes[i] === true);
    return outcomes;
  }

  const lookAhead = createLookAhead({ connection, prefix });

  /**
   * In a burst of pushes, many requests have the same subject: one of them is enough, and the first caller counts as
   * the one that created the job. Most of the others find a waiting job that is as urgent: they need one round trip to
   * Redis and do not wait for the rest.
   */
  async function take(asked: readonly Asked[]): Promise<readonly (number | Promise<number>)[]> {
    const bySubject = new Map<string, Distinct>();
    for (const one of asked) {
      for (const request of one.requests) {
        const place = `${laneOf(request)} ${deduplicationId(request)}`;
        const same = bySubject.get(place);
        if (same) {
          same.by.push(one);
          same.request = moreUrgentOf(same.request, request);
        } else bySubject.set(place, { by: [one], request, causes: new Set() });
        const cause = joiningCause(request);
        if (cause !== undefined) bySubject.get(place)?.causes.add(cause);
      }
    }
    const repos = [...new Set(asked.flatMap(({ moved }) => moved))];
    const left = await inTime(takes(asked), async (signal) => {
      await ready(signal);
      return joinWaiting(repos, [...bySubject.values()]);
    });
    if (left.length === 0) return asked.map(() => 0);
    const made = inTime(takes(asked), (signal) => addAll(left, signal));
    const waiting = new Set(left.flatMap(({ by }) => by));
    return asked.map((one) => (waiting.has(one) ? made.then((counts) => counts.get(one) ?? 0) : 0));
  }

  /** Returns how many jobs each call created. */
  async function addAll(wanted: readonly Distinct[], signal: AbortSignal): Promise<ReadonlyMap<Asked, number>> {
    const made = new Map<Asked, number>();
    const byLane = Map.groupBy(wanted, ({ request }) => laneOf(request));
    await Promise.all(
      Array.from(byLane, async ([lane, those]) => {
        const requests = those.map(({ request }) => request);
        const outcomes = await add(lane, requests, signal);
        for (const [i, { by }] of those.entries()) if (outcomes[i]) made.set(by[0], (made.get(by[0]) ?? 0) + 1);
      }),
    );
    return made;
  }

  /** Records the moves and the causes. Returns the requests for which no waiting job does the same work as soon. */
  async function joinWaiting(moved: readonly RepoId[], wanted: readonly Distinct[]): Promise<readonly Distinct[]> {
    const joining = wanted.filter(({ request }) => !isContent(request));
    if (moved.length + joining.length === 0) return wanted;
    const priorities = await lookAhead(moved, joining);
    const joined = new Set<Request>();
    for (const [i, { request }] of joining.entries()) {
      const there = priorities[i];
      if (there === undefined || urgencyAt(there) > urgencyOf(request)) continue;
      joined.add(request);
      observe?.enqueued(request, false);
    }
    return wanted.filter(({ request }) => !joined.has(request));
  }

  const ask = createBatch(gatherMs, take);

  /**
   * Handles a request whose subject already has a job. Returns true if that job runs and ours follows it; otherwise it
   * waits and gets our urgency. This only affects its place in the line: if it fails, nothing is lost.
   */
  async function join(queue: BullQueue, { request, id, priority }: Wanted, thereId: string): Promise<boolean> {
    if (isContent(request)) return false;
    try {
      // One round trip for the two answers that are usually sufficient.
      const [follower, [data, waitingPriority]] = await Promise.all([
        connection.hget(followUpKey(queue, request), "jid"),
        connection.hmget(queue.toKey(thereId), "data", "priority"),
      ]);
      if (follower === id) return true;
      const waiting = parseJobData(laneOf(request), parseJson(data ?? ""));
      if (!waitingPriority || (waiting && urgencyOf(request) >= urgencyOf(waiting))) return false;
      const there = await queue.getJob(thereId);
      // Its worker may take it at any moment, so update its data before its place.
      await there?.updateData(toJobData(moreUrgent(request, waiting)));
      // A job that has waited long may already have this urgency.
      if (urgencyAt(priority) < urgencyAt(Number(waitingPriority))) await there?.changePriority({ priority });
    } catch (error) {
      log.debug({ error: describeRedisError(error) }, "could not raise the priority of a waiting job");
    }
    return false;
  }

  /** Returns how many jobs were created. The deadline also covers the time spent waiting behind a batch. */
  function enqueue(requests: readonly Request[], moved: readonly RepoId[]): Promise<number> {
    return inTime("queue the request", () => ask({ requests, moved }));
  }

  return {
    async enqueue(requests, moved = []) {
      return { queued: await enqueue(requests, moved) };
    },
    async markMoved(repo) {
      await inTime("record that the repository changed", () => ask({ requests: [], moved: [repo] }));
    },
    async lastMove(repo) {
      try {
        return (await withinDeadline("answer", deadlineMs, () => connection.get(movedKey(prefix, repo)))) ?? undefined;
      } catch {
        return undefined; // then git is queried, which is slower but always right
      }
    },
    async claim(what, forMs) {
      const key = `${prefix}:claim:${digest(what)}`;
      return withinDeadline("record the claim", deadlineMs, async (signal) => {
        await ready(signal);
        return (await connection.set(key, "1", "PX", forMs, "NX")) === "OK";
      });
    },
    ...createQueuedJobs({ connection, prefix, open, enqueue }),
    async close() {
      await Promise.all([...queues.values()].map(async (queue) => queue.close()));
    },
  };
}

/** The requests of one call. */
interface Asked {
  readonly requests: readonly Request[];
  /** Recorded before any job is created. */
  readonly moved: readonly RepoId[];
}

/** A subject and the calls that request it; there is at least one. */
interface Distinct {
  readonly by: [Asked, ...Asked[]];
  request: Request;
  /** One cause may need work when the others do not. */
  readonly causes: Set<Cause | PreviewCause>;
}

function takes(asked: readonly Asked[]): string {
  return asked.some(({ requests }) => requests.length > 0) ? "queue the request" : "record that the repository changed";
}

interface Wanted {
  readonly request: Request;
  readonly id: string;
  readonly priority: number;
}

function deduplication(request: Request) {
  const id = deduplicationId(request);
  return isContent(request) ? { id } : { id, keepLastIfActive: true, replace: true };
}

/**
 * The cause to record for the subject's next job, whichever request created that job; see joined.ts. Of the causes of a preview,
 * only what users do makes a difference to the work: it has no budget.
 */
function joiningCause(request: Request): Cause | PreviewCause | undefined {
  if (request.kind === "preview") return request.cause === "pull-request" ? request.cause : undefined;
  return laneOf(request) === "reconcile" && "deployment" in request && !isContent(request) ? request.cause : undefined;
}

/**
 * Whether any job of the subject is enough, even a running one: a sweep that finds a pull request while it is being
 * previewed has found nothing new and must not restart that preview.
 */
function isContent(request: Request): boolean {
  if (request.kind === "preview") return request.cause === "sweep";
  return request.kind === "reconcile" && request.cause === "interval";
}

/** Keeps the origin of the waiting delivery, so that its time is measured from the first one. */
function moreUrgent(request: Request, waiting: Request | undefined): Request {
  if (waiting === undefined || !("receivedAt" in waiting) || waiting.receivedAt === undefined) return request;
  const { delivery, receivedAt, trace } = waiting;
  const sender = "sender" in waiting ? waiting.sender : undefined;
  return { ...request, delivery, receivedAt, trace, ...(sender !== undefined && { sender }) } as Request;
}
