/**
 * How often a pull request is previewed again although it has not changed itself: because of its base branch, a library, or
 * deployments and their objects, some of which change all the time. Six times in a row, then every ten minutes, which is at most
 * twelve times in an hour. Each is recorded when it starts (Reports.addRemake), whether or not it ends: one that is aborted or
 * whose server dies costs as much, and all replicas share the record. Pure.
 */
import type { PreviewCause, PullRequest } from "../model.ts";
import { isForeign, isOpen, type Report, toShown } from "../model/report.ts";

const hourMs = 3_600_000;
const mostAtOnce = 6;
const thenEveryMs = 10 * 60_000;

export interface Remaking {
  readonly cause?: PreviewCause | undefined;
  readonly pullRequest: Pick<PullRequest, "head" | "baseBranch">;
  readonly previous: Report | undefined;
}

/**
 * Whether this head has been previewed before, or that was begun. What users cause is not counted, and a preview that rendered
 * nothing costs nothing.
 */
export function isRemade({ cause, pullRequest, previous }: Remaking): boolean {
  if (cause === "pull-request" || previous === undefined || isForeign(previous)) return false;
  return isOpen(previous) && isOf(pullRequest, previous);
}

/** Whether it may have to wait: its comment shows this head already. One that shows nothing of it never waits. */
export function isLimited(remaking: Remaking): boolean {
  const { pullRequest, previous } = remaking;
  if (previous === undefined || !isRemade(remaking)) return false;
  const shown = toShown(previous);
  return shown.state === "done" && isOf(pullRequest, shown);
}

/**
 * When the pull request may be previewed, in epoch milliseconds; in the past if it may be now. `remakes`: when it was previewed
 * again lately, oldest first.
 */
export function mayRemakeAt(remakes: readonly number[], now: number): number {
  // Those in the future were written by a clock that is ahead of ours.
  const lately = remakes.filter((at) => at > now - hourMs && at <= now);
  const last = lately.at(-1);
  return last === undefined || lately.length < mostAtOnce ? now : last + thenEveryMs;
}

function isOf({ head, baseBranch }: Remaking["pullRequest"], report: Report): boolean {
  return report.head === head && report.baseBranch === baseBranch;
}
