/**
 * The stored record of a delivery and its outcome: names and reasons, without the payload and without credentials. A schema,
 * because it is read back from Redis.
 */
import { z } from "zod";

const count = z.int().nonnegative();

export const DeliveryRecord = z.object({
  v: z.literal(1),
  /** Id of the configured forge. */
  forge: z.string(),
  /** The host's id of the delivery; absent if the delivery was not parsed. */
  delivery: z.string().optional(),
  /** Epoch milliseconds. */
  at: z.number(),
  /** The response status; 499: the sender disconnected. */
  status: z.int(),
  ms: z.number(),
  event: z.enum(["push", "pull-request", "merge-group", "rerun", "ping", "irrelevant", "none"]),
  repoName: z.string().optional(),
  ref: z.string().optional(),
  commit: z.string().optional(),
  /** Other commits of the push, as far as the host lists them. */
  others: z.array(z.string()).optional(),
  pullRequest: count.optional(),
  /** Why verification failed. */
  refused: z.string().optional(),
  /** Why nothing was queued, unless `ignored` has the reasons. */
  reason: z.string().optional(),
  /** The number of affected deployments; the first of them by name. */
  matched: count,
  deployments: z.array(z.string()),
  /** Of a push that affected more: its repository, by each of its URLs. */
  repos: z.array(z.string()).optional(),
  /** Those among `deployments` that only include the repository. */
  including: z.array(z.string()).optional(),
  /** Flux's GitRepositories that Flux was made to fetch; the first of them by name. */
  fluxSources: z.array(z.string()).optional(),
  previews: count.optional(),
  /** New jobs. */
  queued: count,
  ignored: z.array(z.object({ deployment: z.string(), reason: z.string() })),
  /** The number of further ignored deployments. */
  ignoredMore: count,
  /** Whether it can be replayed. */
  replayable: z.boolean().optional(),
});

export type DeliveryRecord = z.infer<typeof DeliveryRecord>;
