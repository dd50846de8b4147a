/** Says that what is shown is not the newest, why, and what follows. */
import { isOpen, type LatestResult, type Report } from "../model/report.ts";
import { shortHash, time } from "./frame.ts";
import type { Markup } from "./text.ts";

/** `undefined` if the report is the newest. Comes before everything else: readers must not take it for the newest. */
export function describeStaleness(report: Report, markup: Markup): string | undefined {
  const { state, latest, staleUntil, waiting } = report;
  if (waiting !== undefined) return describeQueued(report, waiting, markup);
  if (state === "working" && latest !== undefined) return describeComparing(report, latest, markup);
  if (!isOpen(report) || staleUntil === undefined) return undefined;
  return (
    `⏳ ${markup.strong("Outdated")}: the base branch or the cluster has changed since this comparison. They change so often that the ` +
    `next comparison follows at ${time(staleUntil)}.`
  );
}

function describeQueued(report: Report, waiting: NonNullable<Report["waiting"]>, { code, strong }: Markup): string {
  const why =
    waiting.head === report.head
      ? `it is into ${code(waiting.baseBranch)} now`
      : `there is a newer commit ${code(shortHash(waiting.head))}`;
  const result = `this is the result for ${code(shortHash(report.head))}`;
  return `⏳ ${strong("Outdated")}: ${why}. Its comparison waits for those of other pull requests. Until it is done, ${result}.`;
}

function describeComparing(report: Report, latest: LatestResult, markup: Markup): string {
  const { code, strong } = markup;
  const why = whyAgain(report, latest, code);
  const result = `Until that is done, this is the result for ${code(shortHash(latest.head))}.`;
  return `⏳ ${strong("Comparing again")}${why === undefined ? "" : `, because ${why}`}. ${result}`;
}

/** What the pull request itself shows comes before the cause of the request: one request may have several causes. */
function whyAgain(report: Report, latest: LatestResult, code: Markup["code"]): string | undefined {
  const { head, base, baseBranch } = report;
  if (head !== latest.head) return `there is a newer commit ${code(shortHash(head))}`;
  if (baseBranch !== latest.baseBranch) return `it is into ${code(baseBranch)} now`;
  const isMoved = base !== undefined && latest.base !== undefined && base !== latest.base;
  if (isMoved || latest.why === "base") return `${code(baseBranch)} has changed`;
  if (latest.why === "library") return "a repository that is included has changed";
  return latest.why === "cluster" ? "the cluster has changed" : undefined;
}
