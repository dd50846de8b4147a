/** How often the sweep asks for the refs of a repository, as it is recorded for display. */
import { z } from "zod";

export const paces = ["often", "usual", "rarely"] as const;

/**
 * `often`: a webhook was missed. `rarely`: webhooks are proven to work. `usual`: neither, or it does not depend on
 * webhooks.
 */
export type Pace = (typeof paces)[number];

export const SweepPace = z.object({
  v: z.literal(1),
  repo: z.string(),
  pace: z.enum(paces),
  everyMs: z.number().positive(),
  /** When it was recorded, epoch milliseconds. */
  at: z.number(),
});

export type SweepPace = Readonly<z.infer<typeof SweepPace>>;
