/** What became of the commit of one deployment, as its status tells it at this moment. Pure. */
import { timeOf } from "../../kit/time.ts";
import { deployedCommitOf, wasDryRun } from "../../model/last-deploy.ts";
import { type AnyDeployment, type CommandSummary, type Condition, isMalformed, keyText } from "../../model.ts";
import { changeWaits } from "../../reconcile/decide.ts";
import { isAwaitingHealth, isReconciling, readyCondition, reason } from "../../reconcile/status/conditions.ts";
import { inOneLine, withFirstErrorOnly } from "../../reconcile/status/first-error.ts";

/**
 * `healthy`: it is ready, and this commit changed nothing in it. `unknown`: it is being checked, was never deployed, or is
 * suspended.
 */
export type MemberState = "failed" | "waiting" | "progress" | "succeeded" | "healthy" | "unknown";

export interface Member {
  readonly deployment: AnyDeployment;
  readonly name: string;
  readonly state: MemberState;
  readonly text: string;
  /** When Ready came to its state, in epoch milliseconds; 0: unknown. */
  readonly at: number;
  /** Identifies its last deploy; empty if there was none. */
  readonly deploy: string;
  /** When that ended, in epoch milliseconds; 0: unknown. */
  readonly deployedAt: number;
  /** When its state may be another without any change, in epoch milliseconds. */
  readonly until?: number | undefined;
}

/** Right after a deploy hardly anything is ready, and the validation is repeated after half a minute. */
const graceMs = 3 * 60_000;

export function memberOf(deployment: AnyDeployment, now: number): Member {
  const { status } = deployment;
  const last = status.lastDeployResult;
  const deployedAt = timeOf(last?.endTime ?? "");
  const own = {
    deployment,
    name: keyText(deployment.key),
    at: timeOf(readyCondition(status)?.lastTransitionTime ?? ""),
    deploy: last?.id ?? "",
    deployedAt,
  };
  const [state, text] = describe(deployment);
  const until = deployedAt + graceMs;
  const isYoung = readyCondition(status)?.reason === reason.validateFailed && last?.errors === 0 && now < until;
  return state === "failed" && isYoung
    ? { ...own, state: "progress", text: "is not ready yet", until }
    : { ...own, state, text };
}

function describe(deployment: AnyDeployment): [MemberState, string] {
  const { status } = deployment;
  if (deployment.deletionTimestamp !== undefined) return ["unknown", ""];
  if (isMalformed(deployment)) return ["failed", inOneLine(deployment.problem)];
  const { spec } = deployment;
  const ready = readyCondition(status);
  // A check reports progress too, but only what may change the cluster changes Ready. Until its end, the rest of the
  // status is that of an earlier commit.
  if (isReconciling(status))
    return ready?.status === "Unknown" && ready.reason === reason.progressing ? ["progress", ""] : ["unknown", ""];
  if (spec.suspend) return ["unknown", ""];
  if (status.lastPrepareError !== undefined)
    return ["failed", `cannot be rendered: ${inOneLine(status.lastPrepareError)}`];
  const { lastDeployResult: last, observedCommit: commit } = status;
  if (last === undefined)
    return ready && isFailure(ready) ? ["failed", withFirstErrorOnly(ready.message, status)] : ["unknown", ""];
  const hasFailed = last.errors > 0 && deployedCommitOf(last) === commit;
  if (changeWaits(spec, status) && !hasFailed) return ["waiting", ""];
  if (ready?.status === "False") return ["failed", withFirstErrorOnly(ready.message, status)];
  if (isAwaitingHealth(status)) return ["progress", "is not healthy yet"];
  if (ready?.status !== "True") return ["unknown", ""];
  const changes = deployedCommitOf(last) !== commit || wasDryRun(last) ? "" : changesOf(last);
  return changes === "" ? ["healthy", ""] : ["succeeded", changes];
}

const failures: readonly string[] = [
  reason.deployFailed,
  reason.diffFailed,
  reason.reconcileFailed,
  reason.prepareFailed,
  reason.pruneFailed,
  reason.validateFailed,
];

/** Before the first deploy; kluctl's controller then says that the status is unknown. */
function isFailure({ status, reason: why, message }: Condition): boolean {
  return status === "False" && failures.includes(why) && !message.startsWith("deployment status unknown");
}

function changesOf(last: CommandSummary): string {
  const counts: [number, string][] = [
    [last.newObjects, "new"],
    [last.changedObjects, "changed"],
    [last.deletedObjects, "deleted"],
    [last.appliedHookObjects, "hooks run"],
  ];
  return counts
    .filter(([count]) => count > 0)
    .map(([count, what]) => `${count} ${what}`)
    .join(", ");
}
