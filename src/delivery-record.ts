/**
 * What is remembered of a delivery, for whoever wonders what became of it: names and reasons, nothing of the payload and
 * nothing that proves anything. A schema, because it comes back from Redis.
 */
import { z } from "zod";

const count = z.int().nonnegative();

export const DeliveryRecord = z.object({
  v: z.literal(1),
  /** Id of the configured forge. */
  forge: z.string(),
  /** The host's own id; absent if nothing was read. */
  delivery: z.string().optional(),
  /** Epoch milliseconds. */
  at: z.number(),
  /** What was answered; 499: the sender was gone. */
  status: z.int(),
  ms: z.number(),
  event: z.enum(["push", "pull-request", "merge-group", "ping", "irrelevant", "none"]),
  repoName: z.string().optional(),
  ref: z.string().optional(),
  commit: z.string().optional(),
  /** What a push brought besides `commit`, as far as the host lists it. */
  others: z.array(z.string()).optional(),
  pullRequest: count.optional(),
  /** Why it was not genuine. */
  refused: z.string().optional(),
  /** Why nothing was done, unless `ignored` says it. */
  reason: z.string().optional(),
  /** How many deployments it concerned; the first of them by name. */
  matched: count,
  deployments: z.array(z.string()),
  previews: count.optional(),
  /** New jobs. */
  queued: count,
  ignored: z.array(z.object({ deployment: z.string(), reason: z.string() })),
  /** How many further ones were ignored. */
  ignoredMore: count,
  /** Whether it can be taken anew. */
  replayable: z.boolean().optional(),
});

export type DeliveryRecord = z.infer<typeof DeliveryRecord>;
