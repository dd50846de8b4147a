/** Pushes that no webhook reported, as the sweep found them. */
import { z } from "zod";

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

export type MissedPushes = Readonly<z.infer<typeof MissedPushes>>;

/** A commit that the sweep found before any webhook did. */
export interface FoundPush {
  readonly repo: string;
  /** Of the repository. */
  readonly url: string;
  readonly ref: string;
  readonly commit: string | undefined;
}
