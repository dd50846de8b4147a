/** Pushes that no webhook reported, as the sweep found them. */
import { z } from "zod";

/** Why webhooks of a repository do not arrive, as far as its git host shows it. */
export const MissReason = z.object({
  kind: z.enum([
    "missing", // no webhook has the forge's path
    "address", // one has a similar path
    "disabled",
    "events", // it does not send pushes
    "refused", // the host tried, and counts it as failed
    "unsent", // everything is right, and the host has not tried
    "elsewhere", // the host counts it as delivered
    "unlisted", // everything is right, and the host does not list deliveries
    "unreadable", // the host does not show the webhooks
  ]),
  /** The host in the webhook's address. */
  host: z.string().optional(),
  /** Of the last failed delivery; absent: there was no response. */
  code: z.int().optional(),
  /** Deliveries that failed. */
  count: z.int().positive().optional(),
  /** Why the webhooks cannot be read. */
  detail: z.string().optional(),
});

export type MissReason = Readonly<z.infer<typeof MissReason>>;

/** Of one repository, since its last webhook. Times in epoch milliseconds. */
export const MissedPushes = z.object({
  v: z.literal(1),
  repo: z.string(),
  since: z.number(),
  lastAt: z.number(),
  count: z.int().positive(),
  /** The last one. */
  commit: z.string().optional(),
  ref: z.string(),
});

/** `reason`: absent while it is not known yet. */
export type MissedPushes = Readonly<z.infer<typeof MissedPushes>> & { readonly reason?: MissReason | undefined };

/** A commit that the sweep found before any webhook did. */
export interface FoundPush {
  readonly repo: string;
  /** Of the repository. */
  readonly url: string;
  readonly ref: string;
  readonly commit: string | undefined;
}
