/** What becomes of a job that is not done: it is put off, checked again, retried or given up. In BullMQ's terms. */
import { DelayedError, type Job, UnrecoverableError } from "bullmq";
import type { Logger } from "../src/log.ts";
import { type Outcome, type Request, subjectOf } from "../src/model.ts";
import { attemptOf, maxAttempts, type PutOff, waitsForHealth, whyPutOff } from "./bullmq.ts";
import { toJobData } from "./job-data.ts";

export interface UnfinishedDeps {
  /** Whether another request for the same subject arrived while the job ran. */
  readonly hasFollowUp: (request: Request) => Promise<boolean>;
  /** The shortest delay, in milliseconds. */
  readonly shortestMs: number;
  readonly log: Logger;
}

const longestReason = 300;

/** The upper limit for the delay that a forge asks for, because it may be wrong. */
const longestLaterMs = 3_600_000;

/**
 * Hands the job back without counting an attempt. As a delayed job even if the delay is 0, because that wakes an idle
 * worker.
 */
export async function later(job: Job, ms: number): Promise<never> {
  await job.moveToDelayed(Date.now() + ms, job.token);
  throw new DelayedError();
}

/** Each function throws the error by which BullMQ delays, retries or fails the job. */
export function createUnfinished({ hasFollowUp, shortestMs, log }: UnfinishedDeps) {
  /**
   * A request that arrived while the job ran would wait as long as the job does, and may be about what has changed since: let
   * it run now. One that arrives later replaces the delayed job as usual, and is delayed in turn.
   */
  async function putOff(
    job: Job,
    request: Request,
    { afterMs, why, afresh }: Extract<Outcome, { kind: "later" }>,
  ): Promise<void> {
    if (await hasFollowUp(request)) return;
    const ms = Math.min(Math.max(afterMs, shortestMs), longestLaterMs);
    const isNew = whyPutOff(job.progress) === undefined; // logged once, whichever worker takes it next
    if (isNew) log.info({ job: job.id, subject: subjectOf(request), why, ms }, "job delayed");
    if (isNew || (afresh && attemptOf(job).attempt > 1)) {
      const progress: PutOff = { waits: why.slice(0, longestReason), ...(afresh && { forgets: job.attemptsMade }) };
      await job.updateProgress({ ...progress });
    }
    await laterUnlessAsked(job, request, ms);
  }

  /** A request that arrives at the moment at which the job is moved would wait with it: then the job runs again at once. */
  async function laterUnlessAsked(job: Job, request: Request, ms: number): Promise<never> {
    await job.moveToDelayed(Date.now() + ms, job.token);
    // The worker has the job no more: whatever happens here, it ends by being delayed.
    await hasFollowUp(request)
      .then((asked) => (asked ? job.promote() : undefined))
      .catch((error: unknown) => log.debug({ job: job.id, error: (error as Error).message }, "job stays delayed"));
    throw new DelayedError();
  }

  /**
   * The job stays, as one that any newer request replaces. A request that arrived while it ran is as good as the check:
   * let it run now.
   */
  async function recheck(job: Job, request: Request, afterMs: number): Promise<void> {
    if (await hasFollowUp(request)) return;
    await job.updateData(toJobData(toCheck(request)));
    await job.updateProgress(waitsForHealth);
    await laterUnlessAsked(job, request, Math.max(afterMs, shortestMs));
  }

  /**
   * Uses a generic message if the cluster or a report already has the real one. A git host's rejection is recorded
   * nowhere else.
   */
  async function fail(
    job: Job,
    request: Request,
    { retry, message }: Extract<Outcome, { kind: "failed" }>,
    settle: () => Promise<void>,
  ): Promise<void> {
    const isElsewhere = request.kind === "reconcile" || request.kind === "preview";
    const said = isElsewhere ? "" : `: ${message.slice(0, longestReason)}`;
    const givenUp = job.attemptsMade + 1 >= maxAttempts;
    if (retry === "person" || givenUp) await settle();
    if (retry === "person") throw new UnrecoverableError(`failed permanently: a change is needed${said}`);
    if (givenUp) throw new UnrecoverableError(`failed too often; the sweep will request it again${said}`);
    // A request that arrived meanwhile would wait until all attempts are over. It is as good as a retry: let it run
    // now.
    if (await hasFollowUp(request)) return;
    throw new Error(`will be retried${said}`);
  }

  return { putOff, recheck, fail };
}

/** What is left of a request that was carried out. */
function toCheck(request: Request): Request {
  return request.kind === "reconcile" ? { ...request, cause: "interval" } : request;
}
