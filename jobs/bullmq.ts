/** What the queue and its workers have to agree on, and the details of BullMQ's keys for which it has no API. */
import type { Job, JobsOptions, Queue, Worker } from "bullmq";
import { type Request, subjectOf } from "../src/model.ts";
import type { Lane } from "./lanes.ts";

/** Attempts after transient failures, about 1, 2, 4 and 8 s apart; after that, the sweep requests the work again. */
export const maxAttempts = 5;

/** A git host gives up after 10 s; a sender that receives 503 sends the delivery again. */
export const deadlineMs = 2_000;

/** The number of failed jobs that are kept. */
export const mostFailed = 100;

/** Redis is not the source of truth, so few finished jobs are kept: enough to look at. */
export const jobOptions = {
  attempts: maxAttempts,
  backoff: { type: "exponential", delay: 1_000, jitter: 0.3 },
  removeOnComplete: { count: 100 },
  removeOnFail: { count: mostFailed, age: 24 * 3_600 },
  stackTraceLimit: 0,
} as const satisfies JobsOptions;

/**
 * The id by which BullMQ distinguishes subjects. Git hosts ignore the letter case of repository names and spell them
 * inconsistently.
 */
export function deduplicationId(request: Request): string {
  return subjectOf(request).toLowerCase();
}

/** The key where BullMQ keeps the request that arrived for a subject while its job ran (`keepLastIfActive`). */
export function followUpKey(queue: Pick<Queue | Worker, "toKey">, request: Request): string {
  return queue.toKey(`dn:${deduplicationId(request)}`);
}

/** The key where BullMQ keeps the id of a subject's job, whatever its state. */
export function jobOfKey(prefix: string, lane: Lane, request: Request): string {
  return `${prefix}:${lane}:de:${deduplicationId(request)}`;
}

/** The key with the ids of a lane's waiting jobs, in order. All our jobs have a priority. */
export function waitingKey(prefix: string, lane: Lane): string {
  return `${prefix}:${lane}:prioritized`;
}

/** When a delayed job is due, in epoch milliseconds, from its score: BullMQ uses the lower 12 bits for a counter. */
export function delayedUntil(score: string | null): number | undefined {
  return score === null ? undefined : Math.floor(Number(score) / 2 ** 12);
}

/** The progress value of a job that is put off, with the reason. */
export interface PutOff {
  readonly waits: string;
  /** How many attempts had failed when it began afresh. */
  readonly forgets?: number | undefined;
}

/** `undefined` if the job is not put off. */
export function whyPutOff(progress: unknown): string | undefined {
  const { waits } = putOffIn(progress);
  return typeof waits === "string" ? waits : undefined;
}

function putOffIn(progress: unknown): Partial<PutOff> {
  return typeof progress === "object" && progress !== null ? progress : {};
}

/** Which attempt it is. A job that began afresh has no more attempts for that: the last one stays the last. */
export function attemptOf({ attemptsMade, progress }: Pick<Job, "attemptsMade" | "progress">) {
  const { forgets = 0 } = putOffIn(progress);
  return { attempt: Math.max(1, attemptsMade + 1 - forgets), lastAttempt: attemptsMade + 1 >= maxAttempts };
}

/** The progress value of a job that waits until what was deployed is healthy. */
export const waitsForHealth = "deployed";

/** A job's priority from its score: BullMQ uses the lower 32 bits for the order of equal priorities. */
export function priorityAt(score: string): number {
  return Math.floor(Number(score) / 2 ** 32);
}

/** The lowest score of a priority. */
export function scoreOf(priority: number): number {
  return priority * 2 ** 32;
}
