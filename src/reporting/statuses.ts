/** What a pull request's report says beside its commit. Pure. */
import { type CommitStatus, type Key, keyText } from "../model.ts";
import { describePreview, describeReport } from "../preview/summary.ts";
import { isForeign, isOpen, type Preview, type Report } from "../report.ts";

/** The line that sums up all deployments; it comes to an end in every case, so that hosts can require it. */
export const aggregateContext = "towline";

/**
 * With more deployments than this only the sum and the failures are written: hosts take about 80 writes a minute from
 * one login (GitHub's secondary limit), and nobody reads so many lines.
 */
const mostLines = 10;

export function contextOf(deployment: Key): string {
  return `${aggregateContext}/${keyText(deployment)}`;
}

const severity: Readonly<Record<CommitStatus["state"], number>> = { failure: 3, pending: 2, canceled: 1, success: 0 };

/**
 * Several open pull requests may propose one commit, into several branches or from a fork, and its statuses are for all
 * of them: of each line the worst counts, and so it does if a merge queue waits for it (`groups`). Else whoever may open a pull request could have somebody else's check pass.
 */
export function sharedStatuses(reports: readonly Report[], groups: Iterable<CommitStatus> = []): CommitStatus[] {
  const worst = new Map<string, CommitStatus>();
  // Of equals the first counts, for every writer the same: what was compared before what was not, then the older.
  const inOrder = reports.toSorted(
    (one, other) =>
      Number(isForeign(one)) - Number(isForeign(other)) || one.pullRequest.number - other.pullRequest.number,
  );
  const lines = inOrder.flatMap((report) => statusesOf(report, report.url));
  for (const line of [...groups, ...lines]) {
    const known = worst.get(line.context);
    if (known === undefined || severity[line.state] > severity[known.state]) worst.set(line.context, line);
  }
  return [...worst.values()];
}

/** Statuses of pull requests lead somewhere, those of pushed commits do not: that tells them apart, or else what they say of themselves. */
export function isPreviewLine({ url, proposed = false }: CommitStatus): boolean {
  return url !== undefined || proposed;
}

/** `url`: where the whole is shown. */
export function statusesOf(report: Report, url: string): CommitStatus[] {
  const over = !isOpen(report);
  const lines = report.previews.map((preview) => ({
    context: contextOf(preview.deployment),
    state: over && preview.state === "working" ? "canceled" : stateOf(preview),
    description: describePreview(preview),
    url,
  }));
  const sum = { context: aggregateContext, state: sumOf(report, over), description: describeReport(report), url };
  return [...fewEnough(lines), sum];
}

/** Of many lines the failures alone, and those that are there already (`written`): what they say has to stay true. */
export function fewEnough(
  lines: readonly CommitStatus[],
  written: { has(context: string): boolean } = new Set(),
): readonly CommitStatus[] {
  if (!areMany(lines)) return lines;
  const isWritten = ({ context }: CommitStatus) => written.has(context);
  const failures = lines.filter((line) => line.state === "failure" && !isWritten(line));
  return [...lines.filter(isWritten), ...failures.slice(0, mostLines)];
}

/** Whether not each of them gets a line of its own. */
export function areMany({ length }: readonly unknown[]): boolean {
  return length > mostLines;
}

/** What only the cluster is missing for is no fault of a fork. */
function stateOf({ state, counts, isolated, failed }: Preview): CommitStatus["state"] {
  if (state === "working") return "pending";
  if (isolated && failed === "run") return "success";
  return state === "failed" || counts.errors > 0 ? "failure" : "success";
}

/**
 * A pull request from a fork, or of a commit on no branch, is not rendered, and that is no fault of it: a check that failed
 * then would keep people out whom the repository's own rules let in. The description says that nothing was compared.
 */
export function sumOf(report: Pick<Report, "state" | "obstacle" | "previews">, over: boolean): CommitStatus["state"] {
  const { state, obstacle, previews } = report;
  if (state === "working") return "pending";
  if (obstacle !== undefined && !isForeign(report)) return "failure";
  const states = previews.map(stateOf);
  if (states.includes("failure")) return "failure";
  return states.includes("pending") && over ? "canceled" : "success";
}
