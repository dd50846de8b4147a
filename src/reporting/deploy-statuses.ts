/** The commit statuses of a pushed commit: its progress in each deployment. Pure. */
import { deployedCommitOf, wasDryRun } from "../model/last-deploy.ts";
import { compareText } from "../kit/compare-text.ts";
import type { RolloutRest } from "../model/report.ts";
import { annotation, type CommandSummary, type CommitStatus, type GitDeployment } from "../model.ts";
import { isAwaitingHealth, isReconciling, readyCondition } from "../reconcile/status/conditions.ts";
import { changeWaits } from "../reconcile/decide.ts";
import { inOneLine, withFirstErrorOnly } from "../reconcile/status/first-error.ts";
import { aggregateContext, areMany, contextOf, deploymentIn, fewEnough, isDeploymentContext } from "./statuses.ts";

/** A deployment that follows the pushed branch, and that branch's current head. */
export interface Follower {
  readonly deployment: GitDeployment;
  /** `undefined` if it could not be read. */
  readonly head: string | undefined;
  /** Full name of the branch or tag; `undefined` if it is the default branch and could not be read. */
  readonly ref?: string | undefined;
}

export type StatusLine = Pick<CommitStatus, "state" | "description" | "neutral">;

export const queued: StatusLine = { state: "pending", description: "queued" };
const suspended: StatusLine = { state: "success", description: "suspended: nothing is deployed", neutral: true };
const beingDeployed: StatusLine = { state: "pending", description: "being deployed" };
export const beingApplied: StatusLine = { state: "pending", description: "being applied by Flux" };
const awaitingHealth: StatusLine = { state: "pending", description: "deployed, waiting for health checks" };
const beingLookedAt: StatusLine = { state: "pending", description: "being checked" };
const deployed = "deployed: ";
/** Separates what a deploy changed from what it left. */
const waiting = "; ";

const leftText = "no longer deployed from this repository";

/**
 * Returns the statuses of all deployments that follow the commit, have reconciled it, or were expected to (`written`: the
 * existing statuses). Empty if there are none. `followers`: all that follow the repository. `applied`: the statuses of what
 * Flux applies.
 */
export function deployStatuses(
  commit: string,
  followers: readonly Follower[],
  written: readonly CommitStatus[],
  applied: readonly CommitStatus[] = [],
): CommitStatus[] {
  const known = new Map(written.map((status) => [status.context, status]));
  const lines = linesOf(commit, followers, known, applied);
  const left = leftBy(written, followers);
  const sum = lines.length > 0 ? sumOf(lines) : sumWithout(known.get(aggregateContext), followers, left);
  return sum === undefined ? left : [...fewEnough(lines, known), ...left, { context: aggregateContext, ...sum }];
}

/** The most urgent ones that have room in the record of a rollout. */
const mostRest = 12;

/**
 * What failed or waits among deployments that are too many for a status each. `statuses`: those of the commit by now, see
 * deployStatuses. As long as many are moving, only those that wait for a person or have failed are among it.
 */
export function restOfStatuses(
  commit: string,
  followers: readonly Follower[],
  statuses: readonly CommitStatus[],
  applied: readonly CommitStatus[] = [],
): RolloutRest | undefined {
  const known = new Map(statuses.map((status) => [status.context, status]));
  const lines = linesOf(commit, followers, known, applied);
  const areMoving = areManyMoving(lines);
  const rest = lines.flatMap(({ context, state, description: text }) => {
    const isShown = state === "failure" || (state === "pending" && !(areMoving && isMoving(text)));
    return known.has(context) || !isShown ? [] : [{ deployment: deploymentIn(context), state, text }];
  });
  const sorted = rest.toSorted(
    (a, b) => compareText(a.state, b.state) || compareText(a.deployment, b.deployment), // failures first
  );
  if (sorted.length === 0) return undefined;
  return { lines: sorted.slice(0, mostRest), more: Math.max(0, sorted.length - mostRest) };
}

function linesOf(
  commit: string,
  followers: readonly Follower[],
  known: ReadonlyMap<string, CommitStatus>,
  applied: readonly CommitStatus[],
): CommitStatus[] {
  const own = followers.flatMap(({ deployment, head }) => {
    const context = contextOf(deployment.key);
    const before = known.get(context);
    const line = keepResult(before, lineOf(commit, deployment, head)) ?? endOf(before, head);
    return line === undefined ? [] : [{ context, ...line }];
  });
  return [...own, ...applied];
}

/** The status of a commit that the deployment has left, or has not reached: whether it is still to do so, only git knows. */
function endOf(known: CommitStatus | undefined, head: string | undefined): StatusLine | undefined {
  return head === undefined ? known && lineIn(known) : superseded(known);
}

/** The pending statuses of deployments that were deleted, or follow something else now. */
function leftBy(written: readonly CommitStatus[], followers: readonly Follower[]): CommitStatus[] {
  const there = new Set(followers.map(({ deployment }) => contextOf(deployment.key)));
  return written
    .filter(({ context, state }) => state === "pending" && isDeploymentContext(context) && !there.has(context))
    .map(({ context }) => ({ context, state: "canceled", description: leftText }));
}

/** The summary if there is nothing to sum up; with many deployments, only the summary was written. */
function sumWithout(
  known: CommitStatus | undefined,
  followers: readonly Follower[],
  left: readonly CommitStatus[],
): StatusLine | undefined {
  if (followers.some(({ head }) => head === undefined)) return endOf(known, undefined);
  return superseded(known, left.length > 0 ? leftText : undefined);
}

function lineOf(commit: string, deployment: GitDeployment, head: string | undefined): StatusLine | undefined {
  if (deployment.status.observedCommit === commit) return describeProgress(deployment);
  return head === commit ? describeWaiting(deployment) : undefined;
}

/** The status of what a deployment has not taken up yet. */
export function describeWaiting({ spec }: Pick<GitDeployment, "spec">): StatusLine {
  return spec.suspend ? suspended : queued;
}

/** The status of what the deployment reconciled last. */
export function describeProgress({ spec, status, annotations }: GitDeployment): StatusLine {
  const commit = status.observedCommit;
  if (isReconciling(status)) return beingDeployed;
  if (status.lastPrepareError !== undefined) {
    return { state: "failure", description: `cannot be rendered: ${inOneLine(status.lastPrepareError)}` };
  }
  const { lastDeployResult: last } = status;
  const hasFailed = last !== undefined && last.errors > 0 && deployedCommitOf(last) === commit;
  if (changeWaits(spec, status) && !hasFailed) return { state: "pending", description: "waiting for approval" };
  if (isAwaitingHealth(status)) return awaitingHealth;
  const ready = readyCondition(status);
  if (ready?.status === "False") return { state: "failure", description: withFirstErrorOnly(ready.message, status) };
  if (last !== undefined && deployedCommitOf(last) === commit) {
    const isChecked = annotations[annotation.healthChecks] !== undefined && ready?.status === "True";
    return { state: "success", description: describe(last, spec.prune, isChecked && !wasDryRun(last)) };
  }
  if (ready?.status === "True") return { state: "success", description: "nothing to do" };
  return beingLookedAt;
}

/**
 * Keeps a commit's result until there is another: a reconciliation of it that is in progress may be about to take up the next
 * commit. And keeps the description of its first deploy, which has the commit's changes. Later deploys of it only correct drift
 * or change nothing; from these only the part about pending orphans is added.
 */
function keepResult(known: CommitStatus | undefined, line: StatusLine | undefined): StatusLine | undefined {
  if (known?.state !== "success" || known.neutral) return line;
  if (line?.description === beingDeployed.description) return lineIn(known);
  if (!known.description.startsWith(deployed)) return line;
  if (line?.state !== "success" || !line.description.startsWith(deployed)) return line;
  const [first] = known.description.split(waiting, 1);
  const rest = line.description.indexOf(waiting);
  return { ...line, description: `${first}${rest === -1 ? "" : line.description.slice(rest)}` };
}

/** A pending status ends when a newer commit supersedes its commit. */
export function superseded(
  known: CommitStatus | undefined,
  why = "superseded by a newer commit",
): StatusLine | undefined {
  if (known === undefined) return undefined;
  return known.state === "pending" ? { state: "canceled", description: why } : lineIn(known);
}

/** What a written status says. */
export function lineIn({ state, description, neutral }: CommitStatus): StatusLine {
  return { state, description, ...(neutral && { neutral }) };
}

function describe(last: CommandSummary, prune: boolean, isHealthy: boolean): string {
  const counts: [number, string][] = [
    [last.changedObjects, "changed"],
    [last.newObjects, "new"],
    [last.deletedObjects, "deleted"],
  ];
  const words = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  const what = `${wasDryRun(last) ? "dry run: " : deployed}${words.join(", ") || "no objects changed"}${isHealthy ? ", healthy" : ""}`;
  // Orphans that a prune has not deleted need confirmation; the Ready condition has the details.
  return prune && !wasDryRun(last) && last.orphanObjects > 0
    ? `${what}${waiting}${last.orphanObjects} orphan, not pruned`
    : what;
}

/** One status for several. */
export function sumOf(lines: readonly StatusLine[]): StatusLine {
  const counts = (["failure", "pending", "success", "canceled"] as const).map((state) => {
    const count = lines.filter((line) => line.state === state).length;
    return { state, count };
  });
  const state = counts.find(({ count }) => count > 0)?.state ?? "success";
  const [only] = lines;
  if (lines.length === 1 && only !== undefined) {
    return { state: only.state, description: only.description, ...(only.neutral && { neutral: true }) };
  }
  const words = { failure: "failed", pending: "pending", success: "up to date", canceled: "superseded" };
  const shown = areMany(lines) && areManyMoving(lines) ? counts.filter((one) => one.state === "failure") : counts;
  const parts = shown.filter(({ count }) => count > 0).map((one) => `${one.count} ${words[one.state]}`);
  if (shown !== counts) parts.push(`${parts.length > 0 ? "the rest " : ""}in progress`);
  return { state, description: `${lines.length} deployments: ${parts.join(", ")}` };
}

/** With more changing deployments than this, the summary is not rewritten for each of them. */
const mostMoving = 2;

function areManyMoving(lines: readonly StatusLine[]): boolean {
  return lines.filter(({ description }) => isMoving(description)).length > mostMoving;
}

function isMoving(text: string): boolean {
  return [queued, beingDeployed, beingApplied, awaitingHealth, beingLookedAt].some((line) => line.description === text);
}
