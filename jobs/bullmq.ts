/** What the queue and its workers have to agree on, and the few things about BullMQ's keys that have no call. */
import type { JobsOptions, Queue, Worker } from "bullmq";
import { type Request, subjectOf } from "../src/model.ts";
import type { Lane } from "./lanes.ts";

/** A failure that time may mend is tried this often, about 1, 2, 4 and 8 s apart; then its sweep asks again. */
export const maxAttempts = 5;

/** Redis holds no truth, so little is kept of what is over: enough to look at. */
export const jobOptions = {
  attempts: maxAttempts,
  backoff: { type: "exponential", delay: 1_000, jitter: 0.3 },
  removeOnComplete: { count: 100 },
  removeOnFail: { count: 100, age: 24 * 3_600 },
  stackTraceLimit: 0,
} as const satisfies JobsOptions;

/** By what BullMQ tells subjects apart. Git hosts do not mind the case of a repository's name, and spell it variously. */
export function deduplicationId(request: Request): string {
  return subjectOf(request).toLowerCase();
}

/** Where BullMQ keeps the request that came for a subject while its job ran (`keepLastIfActive`). */
export function followUpKey(queue: Pick<Queue | Worker, "toKey">, request: Request): string {
  return queue.toKey(`dn:${deduplicationId(request)}`);
}

/** Where BullMQ keeps the id of the job that a subject has, whatever its state. */
export function jobOfKey(prefix: string, lane: Lane, request: Request): string {
  return `${prefix}:${lane}:de:${deduplicationId(request)}`;
}

/** The ids of the jobs of a lane that wait for a worker, in order. Each of ours has a priority. */
export function waitingKey(prefix: string, lane: Lane): string {
  return `${prefix}:${lane}:prioritized`;
}

/** When a job that is delayed is due, epoch milliseconds, by its score: BullMQ puts a counter into the lower 12 bits. */
export function delayedUntil(score: string | null): number | undefined {
  return score === null ? undefined : Math.floor(Number(score) / 2 ** 12);
}

/** The progress of a job that waits for a git host. */
export const waitsForHost = "put off";

/** The job's priority, by its score there: BullMQ puts the order among equals into the lower 32 bits. */
export function priorityAt(score: string): number {
  return Math.floor(Number(score) / 2 ** 32);
}

/** The lowest score of that priority. */
export function scoreOf(priority: number): number {
  return priority * 2 ** 32;
}
