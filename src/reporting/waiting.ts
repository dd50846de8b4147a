/** Whether a comment says that its pull request has changed and that the next preview waits for those of others. Pure. */
import type { PullRequest } from "../model.ts";
import { type Report, toShown } from "../model/report.ts";

/** Most previews start sooner, and need no comment that says that they wait. */
export const longWaitMs = 10_000;
/** The clocks of servers differ a little. */
const leastWaitMs = 0.8 * longWaitMs;

/**
 * The report, marked as that of an earlier head or base branch; `undefined` if its comment shows no result, or if the next
 * preview does not wait for long. `waitedMs`: for how long that has waited; absent if none waits.
 */
export function markWaiting(
  report: Report,
  { state, head, baseBranch }: Pick<PullRequest, "state" | "head" | "baseBranch">,
  waitedMs: number | undefined,
): Report | undefined {
  if (waitedMs === undefined || waitedMs < leastWaitMs || state !== "open") return undefined;
  const shown = toShown(report);
  if (shown.state !== "done" || (shown.head === head && shown.baseBranch === baseBranch)) return undefined;
  return { ...shown, waiting: { head, baseBranch } };
}
