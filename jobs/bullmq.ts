/** What the queue and its workers have to agree on, and the one thing about BullMQ's keys that has no call. */
import type { JobsOptions, Queue, Worker } from "bullmq";

export const queueName = "reconcile";

/** A failure that time may mend is tried this often, about 1, 2, 4 and 8 s apart; then its interval brings it back. */
export const maxAttempts = 5;

/** Redis holds no truth, so little is kept of what is over: enough to look at. */
export const jobOptions = {
  attempts: maxAttempts,
  backoff: { type: "exponential", delay: 1_000, jitter: 0.3 },
  removeOnComplete: { count: 100 },
  removeOnFail: { count: 100, age: 24 * 3_600 },
  stackTraceLimit: 0,
} as const satisfies JobsOptions;

/** Where BullMQ keeps the request that came for a subject while its job ran (`keepLastIfActive`). */
export function followUpKey(queue: Pick<Queue | Worker, "toKey">, subject: string): string {
  return queue.toKey(`dn:${subject}`);
}
