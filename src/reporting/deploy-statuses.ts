/** What became of a pushed commit in the cluster, as lines beside it on its forge. Pure. */
import type { CommandSummary, CommitStatus, GitDeployment } from "../model.ts";
import { isReconciling, readyCondition } from "../reconcile/conditions.ts";
import { changeWaits } from "../reconcile/decide.ts";
import { inOneLine, withFirstErrorOnly } from "../reconcile/first-error.ts";
import { aggregateContext, areMany, contextOf, fewEnough } from "./statuses.ts";

/** A deployment that follows what was pushed to, and the commit that is there now. */
export interface Follower {
  readonly deployment: GitDeployment;
  /** `undefined`: could not be read. */
  readonly head: string | undefined;
}

type Line = Pick<CommitStatus, "state" | "description">;

const queued: Line = { state: "pending", description: "queued" };
const beingDeployed: Line = { state: "pending", description: "being deployed" };
const beingLookedAt: Line = { state: "pending", description: "being checked" };
const deployed = "deployed: ";
/** Before what a deploy has left. */
const waiting = "; ";

/**
 * The lines of all that look at the commit, have looked at it, or were expected to (`written`: the lines that are there
 * already). Empty if none of them does.
 */
export function deployStatuses(
  commit: string,
  followers: readonly Follower[],
  written: readonly CommitStatus[],
): CommitStatus[] {
  const known = new Map(written.map((status) => [status.context, status]));
  const lines = followers.flatMap(({ deployment, head }) => {
    const context = contextOf(deployment.key);
    const before = known.get(context);
    const line = keepFirst(before, lineOf(commit, deployment, head)) ?? superseded(before);
    return line === undefined ? [] : [{ context, ...line }];
  });
  // Of many deployments no line was written besides the sum; it ends like a line of its own.
  const sum = lines.length > 0 ? sumOf(lines) : superseded(known.get(aggregateContext));
  return sum === undefined ? [] : [...fewEnough(lines, known), { context: aggregateContext, ...sum }];
}

function lineOf(commit: string, { spec, status }: GitDeployment, head: string | undefined): Line | undefined {
  if (status.observedCommit !== commit) {
    if (head !== commit) return undefined;
    return spec.suspend ? { state: "success", description: "suspended: nothing is deployed" } : queued;
  }
  if (isReconciling(status)) return beingDeployed;
  if (status.lastPrepareError !== undefined) {
    return { state: "failure", description: `cannot be rendered: ${inOneLine(status.lastPrepareError)}` };
  }
  const { lastDeployResult: last } = status;
  const hasFailed = last !== undefined && last.errors > 0 && deployedCommit(last) === commit;
  if (changeWaits(spec, status) && !hasFailed) return { state: "pending", description: "waiting for approval" };
  const ready = readyCondition(status);
  if (ready?.status === "False") return { state: "failure", description: withFirstErrorOnly(ready.message, status) };
  if (last !== undefined && deployedCommit(last) === commit) {
    return { state: "success", description: describe(last, spec.prune) };
  }
  if (ready?.status === "True") return { state: "success", description: "nothing to do" };
  return beingLookedAt;
}

/**
 * What the first deploy of a commit changed is what the commit brought. Later ones of it mend drift, or change nothing, and
 * say only what they leave waiting.
 */
function keepFirst(known: CommitStatus | undefined, line: Line | undefined): Line | undefined {
  if (known?.state !== "success" || !known.description.startsWith(deployed)) return line;
  if (line?.description === beingDeployed.description) return known;
  if (line?.state !== "success" || !line.description.startsWith(deployed)) return line;
  const [first] = known.description.split(waiting, 1);
  const rest = line.description.indexOf(waiting);
  return { ...line, description: `${first}${rest === -1 ? "" : line.description.slice(rest)}` };
}

/** Something newer took the place of what somebody was told to wait for. */
function superseded(known: CommitStatus | undefined): Line | undefined {
  if (known === undefined) return undefined;
  const { state, description } = known;
  return state === "pending"
    ? { state: "canceled", description: "superseded by a newer commit" }
    : { state, description };
}

function deployedCommit({ document }: CommandSummary): unknown {
  return (document["gitInfo"] as { commit?: unknown } | undefined)?.commit;
}

function describe(last: CommandSummary, prune: boolean): string {
  const counts: [number, string][] = [
    [last.changedObjects, "changed"],
    [last.newObjects, "new"],
    [last.deletedObjects, "deleted"],
  ];
  const words = counts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  const dryRun = (last.document["commandInfo"] as { dryRun?: unknown } | undefined)?.dryRun === true;
  const what = `${dryRun ? "dry run: " : deployed}${words.join(", ") || "no objects changed"}`;
  // What a prune would have deleted, and is still there, waits for somebody: the condition says for what.
  return prune && !dryRun && last.orphanObjects > 0
    ? `${what}${waiting}${last.orphanObjects} orphan, not pruned`
    : what;
}

function sumOf(lines: readonly Line[]): Line {
  const counts = (["failure", "pending", "success", "canceled"] as const).map((state) => {
    const count = lines.filter((line) => line.state === state).length;
    return { state, count };
  });
  const state = counts.find(({ count }) => count > 0)?.state ?? "success";
  const [only] = lines;
  if (lines.length === 1 && only !== undefined) return { state: only.state, description: only.description };
  const words = { failure: "failed", pending: "pending", success: "up to date", canceled: "superseded" };
  const shown = areMany(lines) && areManyMoving(lines) ? counts.filter((one) => one.state === "failure") : counts;
  const parts = shown.filter(({ count }) => count > 0).map((one) => `${one.count} ${words[one.state]}`);
  if (shown !== counts) parts.push(`${parts.length > 0 ? "the rest " : ""}in progress`);
  return { state, description: `${lines.length} deployments: ${parts.join(", ")}` };
}

/** More than this change by themselves in a moment: how many of many have done so is not worth a write each. */
const mostMoving = 2;

function areManyMoving(lines: readonly Line[]): boolean {
  const moving = [queued, beingDeployed, beingLookedAt].map(({ description }) => description);
  return lines.filter(({ description }) => moving.includes(description)).length > mostMoving;
}
