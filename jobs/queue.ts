/**
 * What has to be brought up to date, in Redis: per subject (and lane) one job runs and at most one waits.
 *
 * A request that finds a job of its subject waiting makes no other: that job reads git when it starts, and learns then by
 * which causes it was asked for (joined.ts). One that finds it running is kept and runs right after it. One that finds it
 * waiting for another try takes its place at once. Only `interval`, and the sweep of pull requests, ask for less: they are
 * content with any job there is.
 */
import { randomUUID } from "node:crypto";
import { type Job, Queue as BullQueue } from "bullmq";
import type { Redis } from "ioredis";
import { parseJson } from "../src/json.ts";
import type { Logger } from "../src/log.ts";
import { type Cause, type RepoId, type Request, subjectOf } from "../src/model.ts";
import type { Queue } from "../src/ports.ts";
import { createBatch } from "./batch.ts";
import { deduplicationId, delayedUntil, followUpKey, jobOptions, waitsForHost } from "./bullmq.ts";
import { createReadiness, describeRedisError, withinDeadline } from "./connection.ts";
import { type LaneFairness, moreUrgentOf, urgencyAt, urgencyOf } from "./fairness.ts";
import { createLookAhead } from "./look-ahead.ts";
import { parseJobData, toJobData } from "./job-data.ts";
import { digest, movedKey } from "./keys.ts";
import { type Lane, laneOf, lanes } from "./lanes.ts";

export interface QueueDeps {
  /** A producer's, see connection.ts. */
  readonly connection: Redis;
  /** Starts every key of ours in Redis. */
  readonly prefix: string;
  /** Shared with the workers of this process. */
  readonly fairness: LaneFairness;
  readonly log: Logger;
  readonly observe?: { enqueued(request: Request, queued: boolean): void; unavailable(): void } | undefined;
}

export interface JobQueue extends Queue {
  /** True for the first of all replicas that asks in this time. Throws QueueUnavailableError. */
  claim(what: string, forMs: number): Promise<boolean>;
  /** Of one lane, or of all together. */
  depth(lane?: Lane): Promise<Depth>;
  /** The first of each lane and state, for people. Throws QueueUnavailableError. */
  jobs(): Promise<readonly ListedJob[]>;
  /**
   * Wants again what failed for good. `queued`: whether that made a job, or one of the subject was there already;
   * `undefined`: none of this subject has failed. Throws QueueUnavailableError.
   */
  retryFailed(
    lane: string,
    subject: string,
    allow?: (request: Request) => Promise<void>,
  ): Promise<{ readonly queued: boolean } | undefined>;
  close(): Promise<void>;
}

export interface ListedJob {
  readonly lane: Lane;
  readonly request: Request;
  /** What it is about: `reconcile:shop/staging`. */
  readonly subject: string;
  readonly state: (typeof listedStates)[number];
  /** When it began, was wanted, or failed; epoch milliseconds. */
  readonly at: number;
  readonly tries: number;
  /** Why it was not done at once, as far as the queue knows. */
  readonly why?: string | undefined;
  /** When a delayed one is tried again; epoch milliseconds. */
  readonly nextAt?: number | undefined;
}

const listedStates = ["active", "waiting", "delayed", "failed"] as const;
/** Of each lane and state. */
const mostListed = 20;
/** As many as are kept. */
const mostFailed = 100;

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

export function createQueue({ connection, prefix, fairness, log, observe }: QueueDeps): JobQueue {
  const ready = createReadiness(connection);
  const queues = new Map<Lane, BullQueue>();

  /** Made on first use, when Redis is there: BullMQ never recovers from a Redis that fails its very first questions. */
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

  /** Says of each whether it made a job, or a follow-up of a running one. */
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
    // BullMQ answers with the id of the job that is there, ours or the one that made ours unnecessary.
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
   * In a rush of pushes many are about the same: of those one is enough, and it is the first's that made the job. And most
   * of them find a job waiting that is as urgent: those need one question to Redis, and do not wait for the others.
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

  /** How many jobs each of them made. */
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

  /** Notes the moves and the causes. What is left are those for which no job waits that does all of it as soon. */
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
   * A job of the subject is there already. True if it runs and ours follows it; otherwise it waits, and is made as
   * urgent as ours. That only concerns its place in the line: failing to do so loses nothing.
   */
  async function join(queue: BullQueue, { request, id, priority }: Wanted, thereId: string): Promise<boolean> {
    if (isContent(request)) return false;
    try {
      // One round trip for the two answers that most often are all that is needed.
      const [follower, [data, waitingPriority]] = await Promise.all([
        connection.hget(followUpKey(queue, request), "jid"),
        connection.hmget(queue.toKey(thereId), "data", "priority"),
      ]);
      if (follower === id) return true;
      const waiting = parseJobData(laneOf(request), parseJson(data ?? ""));
      if (!waitingPriority || (waiting && urgencyOf(request) >= urgencyOf(waiting))) return false;
      const there = await queue.getJob(thereId);
      // Its worker may take it at any moment: what it is about comes before its place.
      await there?.updateData(toJobData(moreUrgent(request, waiting)));
      // One that waited for long may be there already.
      if (urgencyAt(priority) < urgencyAt(Number(waitingPriority))) await there?.changePriority({ priority });
    } catch (error) {
      log.debug({ error: describeRedisError(error) }, "could not raise the priority of a waiting job");
    }
    return false;
  }

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
      // Whoever asks knows of something that nobody told: git is asked anew.
      const moved = request.kind === "reconcile" && request.repo !== undefined ? [request.repo] : [];
      // Not the old job: what came meanwhile may wait, or run, and there is one of each subject at most.
      const queued = (await inTime("queue the request", () => ask({ requests: [toRetry(request)], moved }))) > 0;
      // Whoever looks at the queue then sees that it is wanted again, not that it has failed.
      await withinDeadline("remove the failed job", deadlineMs, () => Promise.all(failed.map((job) => job.remove())));
      return { queued };
    },
    async enqueue(requests, moved = []) {
      // The limit holds also for those who wait behind a batch that Redis does not take.
      return { queued: await inTime("queue the request", () => ask({ requests, moved })) };
    },
    async markMoved(repo) {
      await inTime("record that the repository changed", () => ask({ requests: [], moved: [repo] }));
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
      return withinDeadline("record the claim", deadlineMs, async (signal) => {
        await ready(signal);
        return (await connection.set(key, "1", "PX", forMs, "NX")) === "OK";
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
    async close() {
      await Promise.all([...queues.values()].map(async (queue) => queue.close()));
    },
  };
}

/** `undefined` for one that is gone meanwhile, or that this version cannot read. */
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
  const held =
    job.progress === waitsForHost ? "forge temporarily unavailable" : "another job holds the deployment's lease";
  const why = failedReason ?? (state === "delayed" ? held : undefined);
  return { id, lane, request, subject: subjectOf(request), state, at: times[state] ?? job.timestamp, tries, why };
}

async function count(queue: BullQueue): Promise<Depth> {
  const counts = await queue.getJobCounts("waiting", "prioritized", "active", "delayed");
  const { waiting = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
  return { waiting: waiting + prioritized, active, delayed };
}

/** What one caller wants at once. */
interface Asked {
  readonly requests: readonly Request[];
  /** Is noted before any job is made. */
  readonly moved: readonly RepoId[];
}

/** A subject, and those who want something of it; there is a first one. */
interface Distinct {
  readonly by: [Asked, ...Asked[]];
  request: Request;
  /** Each of them may have something to do where the others have not. */
  readonly causes: Set<Cause>;
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

/** Why the subject's next job is to do something, whoever else's job that is; see joined.ts. */
function joiningCause(request: Request): Cause | undefined {
  return laneOf(request) === "reconcile" && "deployment" in request && !isContent(request) ? request.cause : undefined;
}

/**
 * Whether any job of its subject will do, even one that runs already: a sweep that sees a pull request while it is previewed
 * has found nothing that nobody told of, and must not end that preview to begin it again.
 */
function isContent(request: Request): boolean {
  if (request.kind === "preview") return request.cause === "sweep";
  return request.kind === "reconcile" && request.cause === "interval";
}

/** The first delivery that is waited for stays the one whose time is taken. */
function moreUrgent(request: Request, waiting: Request | undefined): Request {
  if (waiting === undefined || !("receivedAt" in waiting) || waiting.receivedAt === undefined) return request;
  const { delivery, receivedAt, trace } = waiting;
  const sender = "sender" in waiting ? waiting.sender : undefined;
  return { ...request, delivery, receivedAt, trace, ...(sender !== undefined && { sender }) } as Request;
}

/** Whoever asked by annotation has had their answer: what is left is to look at the deployment itself. */
function toRetry(request: Request): Request {
  return request.kind === "reconcile" && request.cause === "manual" ? { ...request, cause: "change" } : request;
}
