/** How much a pull request needs somebody, for lists that show first what does. Pure. */
import { isForeign, type Preview, type Report } from "../model/report.ts";
import { isChanged } from "./summary.ts";

/** The most urgent one first. */
export const attentions = ["failing", "risky", "working", "changing", "quiet"] as const;

/**
 * `failing`: merging would fail, or is not possible. `risky`: it deletes something, has a risk, or waits for somebody.
 * `quiet`: it changes nothing.
 */
export type Attention = (typeof attentions)[number];

export function attentionOf(report: Pick<Report, "state" | "obstacle" | "previews">): Attention {
  const { state, obstacle, previews } = report;
  if (isForeign(report)) return "risky";
  if (obstacle !== undefined || previews.some(fails)) return "failing";
  if (previews.some(isRisky)) return "risky";
  if (state === "working" || previews.some((preview) => preview.state === "working")) return "working";
  return previews.some(isChanged) ? "changing" : "quiet";
}

function fails({ state, counts }: Preview): boolean {
  return state === "failed" || counts.errors > 0;
}

function isRisky({ state, counts, objects, approval, pruneWaits }: Preview): boolean {
  const waits = approval === "pending" || pruneWaits !== undefined;
  return state === "done" && (waits || counts.deleted > 0 || objects.some(({ risks }) => risks.length > 0));
}
