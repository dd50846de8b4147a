/** The commit statuses of a pull request's report. Pure. */
import { type CommitStatus, type FluxDeployment, type Key, keyText } from "../model.ts";
import { describePreview, describeReport } from "../preview/summary.ts";
import { isForeign, isOpen, type Preview, type Report } from "../model/report.ts";

/** The status that summarizes all deployments; it always reaches a final state, so that hosts can require it. */
export const aggregateContext = "towline";

/**
 * With more deployments than this only the summary and the failures are written: hosts accept about 80 writes a minute from
 * one login (GitHub's secondary limit), and so many statuses are unreadable.
 */
const mostLines = 5;

export function contextOf(deployment: Key): string {
  return `${aggregateContext}/${keyText(deployment)}`;
}

/** Of what Flux applies; deployments have two names, so that no name of a status is used twice. */
export function fluxContextOf({ kind, key }: Pick<FluxDeployment, "kind" | "key">): string {
  return `${aggregateContext}/${kind.toLowerCase()}/${keyText(key)}`;
}

function previewContextOf({ kind, deployment }: Preview): string {
  return kind === undefined ? contextOf(deployment) : fluxContextOf({ kind, key: deployment });
}

/** Whether it is the name of a status of what Flux applies: a name of a deployment has one part less. */
export function isFluxContext(context: string): boolean {
  return context.split("/").length === 4;
}

/** Whether it is the name of a deployment's status. */
export function isDeploymentContext(context: string): boolean {
  return context.split("/").length === 3;
}

const severity: Readonly<Record<CommitStatus["state"], number>> = { failure: 3, pending: 2, canceled: 1, success: 0 };

/**
 * Several open pull requests can propose one commit, into several branches or from a fork, and share its statuses: the worst
 * state of each status counts, also those that a merge queue waits for (`groups`). Otherwise anyone who can open a pull request could make the check of another one pass.
 */
export function sharedStatuses(reports: readonly Report[], groups: Iterable<CommitStatus> = []): CommitStatus[] {
  const worst = new Map<string, CommitStatus>();
  // Among equals the first counts, in the same order for every writer: compared reports first, then the older ones.
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

/**
 * Whether the status says what merging would change. Those of pushed commits are marked if they have a URL; those of pull
 * requests need no mark, which earlier versions did not write.
 */
export function isPreviewLine({ url, proposed = url !== undefined }: CommitStatus): boolean {
  return proposed;
}

/** The deployment that a status is about, as `namespace/name`; empty for all deployments together. */
export function deploymentIn(context: string): string {
  return context.startsWith(`${aggregateContext}/`) ? context.slice(aggregateContext.length + 1) : "";
}

/** The statuses of a pushed commit with the address of its page, if it has one. */
export function linkedTo(url: string | undefined, statuses: readonly CommitStatus[]): readonly CommitStatus[] {
  return url === undefined ? statuses : statuses.map((status) => ({ ...status, url, proposed: false }));
}

/** The opposite of `linkedTo`: what the status says. */
export function withoutLink({ url: _, proposed: __, ...said }: CommitStatus): CommitStatus {
  return said;
}

/** `url`: links to the full report. */
export function statusesOf(report: Report, url: string): CommitStatus[] {
  const over = !isOpen(report);
  const lines = report.previews.map((preview) => ({
    context: previewContextOf(preview),
    state: over && preview.state === "working" ? "canceled" : stateOf(preview),
    description: describePreview(preview),
    url,
  }));
  const sum = {
    context: aggregateContext,
    state: sumOf(report, over),
    description: describeReport(report),
    url,
    ...(isForeign(report) && { neutral: true }),
  };
  return [...fewEnough(lines), sum];
}

/** With many statuses, keeps only failures and those already written (`written`), which must stay correct. */
export function fewEnough(
  lines: readonly CommitStatus[],
  written: { has(context: string): boolean } = new Set(),
): readonly CommitStatus[] {
  if (!areMany(lines)) return lines;
  const isWritten = ({ context }: CommitStatus) => written.has(context);
  const failures = lines.filter(({ state }) => state === "failure");
  // As many in all, however often more of them are found.
  const room = Math.max(0, mostLines - failures.filter(isWritten).length);
  return [...lines.filter(isWritten), ...failures.filter((line) => !isWritten(line)).slice(0, room)];
}

/** Whether there are too many for one status each. */
export function areMany({ length }: readonly unknown[]): boolean {
  return length > mostLines;
}

/**
 * A fork does not fail because it needs the cluster, and no pull request because of what is wrong with a deployment that
 * only includes its repository, or of which nobody knows that it reads what changes.
 */
function stateOf({ state, counts, isolated, includes, unsure, failed }: Preview): CommitStatus["state"] {
  if (state === "working") return "pending";
  if ((isolated || includes || unsure) && failed === "run") return "success";
  return state === "failed" || counts.errors > 0 ? "failure" : "success";
}

/**
 * A pull request from a fork, or whose commit is on no branch, is not rendered and still succeeds: a failed check
 * would block contributors whom the repository's own rules allow. The description says that nothing was compared.
 */
export function sumOf(report: Pick<Report, "state" | "obstacle" | "previews">, over: boolean): CommitStatus["state"] {
  const { state, obstacle, previews } = report;
  if (state === "working") return "pending";
  if (obstacle !== undefined && !isForeign(report)) return "failure";
  const states = previews.map(stateOf);
  if (states.includes("failure")) return "failure";
  return states.includes("pending") && over ? "canceled" : "success";
}
