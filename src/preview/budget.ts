/**
 * How often a pull request is previewed again although it has not changed itself: because of its base branch, a library, or
 * deployments and their objects, some of which change all the time. Six times in a row, then every ten minutes, which is at most
 * twelve times in an hour. The times are part of the report, so that all replicas share them. Pure.
 */
import type { PreviewCause, PullRequest } from "../model.ts";
import { isForeign, type Report } from "../model/report.ts";

const hourMs = 3_600_000;
const mostAtOnce = 6;
const thenEveryMs = 10 * 60_000;

export interface Remaking {
  readonly cause?: PreviewCause | undefined;
  readonly pullRequest: Pick<PullRequest, "head" | "baseBranch">;
  readonly previous: Report | undefined;
}

/**
 * Whether the comment shows this head already. What users cause is never limited, and a preview that rendered nothing costs
 * nothing.
 */
export function isRemade({ cause, pullRequest: { head, baseBranch }, previous }: Remaking): boolean {
  if (cause === "pull-request" || previous?.state !== "done" || isForeign(previous)) return false;
  return previous.head === head && previous.baseBranch === baseBranch;
}

/** When the pull request may be previewed, in epoch milliseconds; in the past if it may be now. */
export function mayRemakeAt(previous: Pick<Report, "remade"> | undefined, now: number): number {
  const lately = remadeLately(previous, now);
  const last = lately.at(-1);
  return last === undefined || lately.length < mostAtOnce ? now : last + thenEveryMs;
}

/** The times to store with the report of this preview, oldest first; `undefined` if there are none. */
export function remadeTimes(remaking: Remaking, startedAt: number): number[] | undefined {
  const lately = remadeLately(remaking.previous, startedAt);
  const all = isRemade(remaking) ? [...lately, startedAt] : lately;
  return all.length > 0 ? all : undefined;
}

/** Those in the future were written by a clock that is ahead of ours. */
function remadeLately(report: Pick<Report, "remade"> | undefined, now: number): number[] {
  return (report?.remade ?? []).filter((at) => at > now - hourMs && at <= now);
}
