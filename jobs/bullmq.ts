/** What the queue and its workers have to agree on, and the one thing about BullMQ's keys that has no call. */
import type { JobsOptions, Queue, Worker } from "bullmq";
import { type Request, subjectOf } from "../src/model.ts";

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
