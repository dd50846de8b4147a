/**
 * Computes when a deployment's next check is due. Pure functions of recorded state, so that a restart neither forgets a
 * check nor starts all of them at once.
 */
import {
  annotation,
  isMalformed,
  type Cause,
  type Deployment,
  type DeploymentStatus,
  type MalformedDeployment,
} from "../model.ts";
import { isAwaitingHealth, isReconciling, readyCondition } from "./status/conditions.ts";
import { retryAfterMs, validateEveryMs } from "./decide.ts";
import { isWaiting } from "../guards/depends-on.ts";
import { hashToConfirm } from "../guards/pruning.ts";
import { asksAnew, givenUpAt, isAnnotated, isAsked } from "../requests/requests.ts";
import { timeOf } from "../kit/time.ts";

/** What this process knows about a deployment beyond its status. Epoch milliseconds. */
export interface Seen {
  /** When a reconciliation was last seen to end: one that failed to render leaves no time in the status. */
  readonly lastLoopAt?: number | undefined;
  /** When the failed step is to be retried, see retries.ts. */
  readonly retryAt?: number | undefined;
  /** When the reconciliation in progress last wrote to the status. */
  readonly progressAt?: number | undefined;
}

/**
 * A reconciliation in progress that writes nothing for this long is due: its server may have died or failed to record
 * the end. One that is merely slow is not disturbed: its job or its Lease makes the request a no-op.
 */
const unendedMs = 60_000;

/**
 * How often a deployment that waits for a dependency is checked, whatever its interval. The dependency wakes it when it
 * becomes ready; this is for a dependency that did so between the check of it and the record of that check. What can
 * never become ready has to be changed, and needs no such check.
 */
export const heldBackMs = 60_000;

/** In epoch milliseconds; `Infinity` if only a change can make it due. */
export function dueAt(deployment: Deployment | MalformedDeployment, seen: Seen, now: number): number {
  const { status, generation } = deployment;
  if (isAnnotated(deployment) || deployment.deletionTimestamp !== undefined) return now;
  if (isMalformed(deployment)) return malformedUnreported(deployment) ? now : Infinity;
  const { spec } = deployment;
  if (status.observedGeneration !== generation || (givenUpAt(deployment) ?? Infinity) <= now) return now;
  const unendedAt = isReconciling(status) && seen.progressAt !== undefined ? seen.progressAt + unendedMs : Infinity;
  if (isAwaitingHealth(status)) return Math.min(unendedAt, awaitedAt(deployment, seen, now));
  return Math.min(unendedAt, spec.suspend ? Infinity : nextCheckAt(deployment, seen, now));
}

/** Its next look at the health has a job; this is for a job that Redis has lost. */
function awaitedAt({ status }: Deployment, { lastLoopAt }: Seen, now: number): number {
  return Math.max(lastLoopAt ?? 0, turnedAt(status, now)) + unendedMs;
}

/** When `Ready` got its present value, by a clock that may be ahead. */
function turnedAt(status: DeploymentStatus, now: number): number {
  const at = Date.parse(readyCondition(status)?.lastTransitionTime ?? "");
  return Number.isNaN(at) ? 0 : Math.min(at, now);
}

function nextCheckAt(deployment: Deployment, { lastLoopAt, retryAt }: Seen, now: number): number {
  const { spec, status } = deployment;
  if (isPruneConfirmed(deployment)) return now;
  const looked = lastLook(deployment, lastLoopAt, now);
  if (looked === undefined) return retryAt ?? now;
  const ready = readyCondition(status)?.status === "True";
  const times = [looked + (ready ? spec.intervalMs : Math.min(retryAfterMs(spec), spec.intervalMs))];
  if (retryAt !== undefined) times.push(retryAt);
  if (isWaiting(deployment)) times.push(Math.max(looked, turnedAt(status, now)) + heldBackMs);
  if (spec.deployIntervalMs !== undefined && status.lastDeployResult !== undefined) {
    times.push(Math.max(timeOf(status.lastDeployResult.endTime) + spec.deployIntervalMs, looked));
  }
  if (spec.validate && status.lastValidateResult !== undefined) {
    times.push(Math.max(timeOf(status.lastValidateResult.endTime) + validateEveryMs(spec), looked));
  }
  return Math.min(...times);
}

/** Whether the pending prune was confirmed, perhaps while no server was watching or Redis rejected the request. */
function isPruneConfirmed({ annotations, status }: Deployment): boolean {
  const hash = hashToConfirm(readyCondition(status)?.message ?? "");
  return hash !== undefined && annotations[annotation.confirmPrune] === hash;
}

/** Why a change of the resource requires an immediate reconciliation; `undefined` if it does not. */
export function wakes(
  change: "added" | "changed" | "removed",
  deployment: Deployment | MalformedDeployment,
  previous: Deployment | MalformedDeployment | undefined,
): Cause | undefined {
  if (change === "removed") return undefined;
  // A request without an answer counts only at the start: later, a worker is already processing it.
  if (asksAnew(deployment, previous) || (previous === undefined && isAsked(deployment))) return "manual";
  const unseen = isMalformed(deployment)
    ? malformedUnreported(deployment)
    : deployment.status.observedGeneration !== deployment.generation;
  const confirmed = deployment.annotations[annotation.confirmPrune];
  if (previous && confirmed && confirmed !== previous.annotations[annotation.confirmPrune]) return "change";
  if (previous && healthAnnotationsOf(previous) !== healthAnnotationsOf(deployment)) return "change";
  const news =
    previous === undefined ||
    previous.uid !== deployment.uid ||
    previous.generation !== deployment.generation ||
    previous.deletionTimestamp !== deployment.deletionTimestamp;
  if (news && (unseen || deployment.deletionTimestamp !== undefined)) return "change";
  if (previous && followsAnother(deployment, previous)) return "sweep";
  return previous === undefined && brokenOff(deployment) ? "interval" : undefined;
}

/** They are no part of the generation. */
function healthAnnotationsOf({ annotations }: Deployment | MalformedDeployment): string {
  return JSON.stringify([annotations[annotation.healthChecks], annotations[annotation.healthTimeout]]);
}

/** A deployment of the legacy API follows its GitRepository, which changes without a new generation. */
function followsAnother(
  deployment: Deployment | MalformedDeployment,
  previous: Deployment | MalformedDeployment,
): boolean {
  if (isMalformed(deployment)) return false;
  return isMalformed(previous) || JSON.stringify(deployment.spec.source) !== JSON.stringify(previous.spec.source);
}

/**
 * A reconciliation without an end: its server may have died while Redis lost the job. Fields it had already written,
 * such as the new commit, make it look as if there were nothing to do. Checked only at the start: later, it is a
 * reconciliation in progress.
 */
function brokenOff({ status }: Deployment | MalformedDeployment): boolean {
  return isReconciling(status) || isAwaitingHealth(status);
}

function malformedUnreported({ status, problem }: MalformedDeployment): boolean {
  return status.lastPrepareError !== problem || isReconciling(status);
}

/** The last check, by this server or by another, whose clock may be ahead. */
function lastLook(deployment: Deployment, lastLoopAt: number | undefined, now: number): number | undefined {
  const recorded = lastRecorded(deployment);
  if (lastLoopAt === undefined || recorded === undefined) return lastLoopAt ?? recorded;
  return Math.max(lastLoopAt, Math.min(recorded, now));
}

function lastRecorded({ status }: Deployment): number | undefined {
  const times = [status.lastDriftDetectionResult, status.lastDeployResult, status.lastValidateResult]
    .map((result) => (result ? Date.parse(result.endTime) : NaN))
    .filter((time) => !Number.isNaN(time));
  return times.length > 0 ? Math.max(...times) : undefined;
}
