/**
 * Step 6 of a push: takes the job, on this or another server, and runs what it asks for. unfinished.ts translates
 * outcomes that are not final for BullMQ. Next: src/reconcile/reconcile.ts.
 */
import { type Job, Worker as BullWorker } from "bullmq";
import type { Redis } from "ioredis";
import { QueueUnavailableError, SupersededError } from "../src/errors.ts";
import { within } from "../src/kit/deadline.ts";
import type { Logger } from "../src/log.ts";
import { type Attempt, type Outcome, type PreviewRequest, type ReconcileRequest, subjectOf } from "../src/model.ts";
import { startAging } from "./aging.ts";
import { attemptOf, followUpKey } from "./bullmq.ts";
import { describeRedisError } from "../src/redis/connection.ts";
import type { LaneFairness } from "./fairness.ts";
import { createJoined } from "./joined.ts";
import { parseJobData } from "./job-data.ts";
import type { Lane, LaneRequests } from "./lanes.ts";
import { startServerClock } from "../src/redis/server-time.ts";
import { createSuperseding } from "./superseding.ts";
import { createUnfinished, later } from "./unfinished.ts";

export interface WorkerDeps<L extends Lane = Lane> {
  readonly lane: L;
  /** A worker's connection, see connection.ts. */
  readonly connection: Redis;
  readonly prefix: string;
  readonly concurrency: number;
  /** Shared with the queue of this process. */
  readonly fairness: LaneFairness;
  /** `busy`: another worker holds the subject's lease. */
  readonly work: (request: LaneRequests[L], attempt: Attempt) => Promise<Outcome | "busy">;
  readonly log: Logger;
  readonly observe?:
    | {
        started(request: LaneRequests[L], waitedSeconds: number): void;
        finished(request: LaneRequests[L], result: WorkResult, seconds: number): void;
      }
    | undefined;
  readonly timing?: Partial<Timing> | undefined;
}

export type WorkResult = Outcome["kind"] | "busy" | "handed-back";

export interface Timing {
  /** A job whose worker has not been heard from for this long is taken by another. */
  readonly lockMs: number;
  /** How often workers check for such jobs. */
  readonly stalledEveryMs: number;
  readonly busyRetryMs: number;
  /** How often running previews are checked for newer requests that wait behind them. */
  readonly supersedeEveryMs: number;
  /** How long aborted work may take to end. */
  readonly abortGraceMs: number;
  /** A job that has waited this long moves up a class. */
  readonly agedMs: number;
  /** How often workers check for such jobs. */
  readonly ageEveryMs: number;
}

export interface RunningWorker {
  /** The number of running jobs. */
  running(): number;
  /** Sets the concurrency; running jobs continue. */
  allow(concurrency: number): void;
  /**
   * Takes no more jobs, waits at most `drainMs` for the running ones, then aborts the rest and hands them back: another
   * worker runs them, and this does not count as an attempt.
   */
  stop(drainMs: number): Promise<void>;
}

/**
 * How often a job may lose its worker before it is abandoned: enough for rolling updates, but not for a job that kills
 * every worker. The sweep requests such a deployment again.
 */
const maxStalledCount = 5;

/** Longer than closing takes while Redis responds. */
const closeMs = 3_000;

export function startWorker<L extends Lane>(deps: WorkerDeps<L>): RunningWorker {
  const { lane, connection, prefix, concurrency, work, log, observe } = deps;
  const fairness = deps.fairness[lane];
  const timing: Timing = {
    lockMs: 15_000,
    stalledEveryMs: 5_000,
    busyRetryMs: 1_000,
    supersedeEveryMs: 250,
    abortGraceMs: 10_000,
    agedMs: 120_000,
    ageEveryMs: 5_000,
    ...deps.timing,
  };
  const running = new Map<Promise<void>, AbortController>();
  const joined = createJoined({ connection, prefix });
  let stopping = false;

  const bull = new TolerantWorker(lane, take, {
    connection,
    prefix,
    concurrency,
    lockDuration: timing.lockMs,
    stalledInterval: timing.stalledEveryMs,
    maxStalledCount,
    runRetryDelay: 1_000,
  });
  const superseding = createSuperseding({
    connection,
    followUpKey: (request) => followUpKey(bull, request),
    everyMs: timing.supersedeEveryMs,
    log,
  });
  const unfinished = createUnfinished({
    hasFollowUp: async (request) => (await connection.exists(followUpKey(bull, request))) > 0,
    shortestMs: timing.busyRetryMs,
    log,
  });
  const serverClock = startServerClock(connection);
  bull.serverNow = serverClock.now;
  const { ageEveryMs: everyMs, agedMs: afterMs } = timing;
  const stopAging = startAging({ connection, prefix, lane, worker: bull, fairness, everyMs, afterMs, log });
  bull.on("error", (error) => {
    // The connection itself logs once that it is down.
    const level = connection.status === "ready" ? "warn" : "debug";
    log[level]({ lane, error: describeRedisError(error) }, "worker error");
  });
  bull.on("failed", (job, error) => {
    if (job && job.stalledCounter > maxStalledCount) {
      log.error(
        { job: job.id, subject: job.deduplicationId, error: error.message },
        "job abandoned; the sweep will request it again",
      );
    }
  });
  bull.on("drained", () => fairness.idle());

  async function take(job: Job): Promise<void> {
    fairness.started(job.priority);
    const parsed = parseJobData(lane, job.data);
    if (parsed === undefined) {
      log.warn({ job: job.id }, "job dropped: this version cannot read it; the sweep will request it again");
      return;
    }
    const request = isJoined(lane, parsed) ? ((await joined.take(parsed)) as LaneRequests[L]) : parsed;
    // BullMQ may fetch one more job after it was told to stop, and nothing waits for jobs that start after that.
    if (stopping) return later(job, 0);

    const controller = new AbortController();
    const ended =
      request.kind === "preview" || request.kind === "merge-group" ? superseding.watch(request, controller) : undefined;
    const doing = run(request, job, controller.signal);
    running.set(doing, controller);
    try {
      await doing;
    } finally {
      running.delete(doing);
      ended?.();
    }
  }

  async function run(request: LaneRequests[L], job: Job, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const seconds = () => (performance.now() - startedAt) / 1_000;
    observe?.started(request, Math.max(0, serverClock.now() - job.timestamp) / 1_000);
    const came = await attempt(request, job, signal);
    const isUnfinished = came === "busy" || came.kind === "failed" || came.kind === "later";
    const superseded = isUnfinished && signal.reason instanceof SupersededError;
    const outcome: Outcome | "busy" = superseded ? { kind: "skipped", why: "superseded" } : came;
    const handBack = signal.aborted && (outcome === "busy" || outcome.kind === "failed");
    const result: WorkResult = handBack ? "handed-back" : outcome === "busy" ? "busy" : outcome.kind;
    if (result === "done") fairness.took(request, seconds());
    observe?.finished(request, result, seconds());
    // The newer request does the work of one that gave way, for its causes too.
    const gaveWay = signal.reason instanceof SupersededError && result !== "done";
    if ((result === "done" || result === "skipped" || result === "recheck") && !gaveWay) await settle(request);
    if (handBack) return later(job, 0);
    if (outcome === "busy") return later(job, timing.busyRetryMs);
    if (outcome.kind === "later") return unfinished.putOff(job, request, outcome);
    if (outcome.kind === "recheck") return unfinished.recheck(job, request, outcome.afterMs);
    if (outcome.kind === "failed") await unfinished.fail(job, request, outcome, () => settle(request));
  }

  async function attempt(request: LaneRequests[L], job: Job, signal: AbortSignal): Promise<Outcome | "busy"> {
    try {
      return await work(request, { ...attemptOf(job), signal });
    } catch (error) {
      const { message, stack } = error instanceof Error ? error : new Error(String(error));
      // The work reports its own failures. This is a bug, or Redis is unavailable, which its connection reports.
      const subject = subjectOf(request);
      if (!signal.aborted && !(error instanceof QueueUnavailableError))
        log.error({ subject, error: message, stack }, "job failed unexpectedly");
      return { kind: "failed", retry: "soon", message };
    }
  }

  async function settle(request: LaneRequests[L]): Promise<void> {
    if (isJoined(lane, request)) await joined.settle(request);
  }

  async function stop(drainMs: number): Promise<void> {
    stopping = true;
    await bull.pause(true);
    await inTime(drainMs, allEnded());
    superseding.stop();
    serverClock.stop();
    stopAging();
    for (const controller of running.values()) controller.abort(new Error("the server is stopping"));
    if (!(await inTime(timing.abortGraceMs, allEnded()))) {
      log.warn(
        { jobs: running.size },
        "jobs did not end before the shutdown deadline; this or another server will run them again",
      );
    }
    // Without Redis the worker cannot deregister, and BullMQ would wait for Redis.
    if (!(await inTime(closeMs, bull.close(running.size > 0)))) log.warn("could not deregister the worker in Redis");
  }

  async function allEnded(): Promise<void> {
    await Promise.allSettled(running.keys());
  }

  return {
    running: () => running.size,
    allow: (many) => void (bull.concurrency = many),
    stop,
  };
}

class TolerantWorker extends BullWorker {
  serverNow: () => number = () => Date.now();

  /** The due time of the next delayed job is by Redis' clock. */
  protected override getBlockTimeout(blockUntil: number): number {
    return super.getBlockTimeout(blockUntil && blockUntil - this.serverNow() + Date.now());
  }

  /** Data that is not even JSON would make BullMQ's own loop fail repeatedly: read it as no data. */
  // BullMQ renews a lock some time after the job began: too late for one that begins in the future, by a clock ahead of this server's.
  protected override createJob(...[{ processedOn, ...data }, jobId]: Parameters<BullWorker["createJob"]>): Job {
    const began = processedOn && { processedOn: Math.min(processedOn, Date.now()) };
    try {
      return super.createJob({ ...data, ...began }, jobId);
    } catch {
      return super.createJob({ ...data, ...began, data: "null" }, jobId);
    }
  }
}

/** Whether the request may have more causes than its own. */
function isJoined(lane: Lane, request: LaneRequests[Lane]): request is ReconcileRequest | PreviewRequest {
  return request.kind === "preview" || (lane === "reconcile" && request.kind === "reconcile");
}

/** Whether the promise resolved in time. */
async function inTime(ms: number, happening: Promise<unknown>): Promise<boolean> {
  const happened = happening.then(() => true);
  return within(ms, happened, () => false);
}
