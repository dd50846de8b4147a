/** When a deployment has to be looked at again. Pure functions of what is written down, so that a restart neither forgets nor floods. */
import { annotation, isMalformed, type Cause, type Deployment, type MalformedDeployment } from "../model.ts";
import { isReconciling, readyCondition } from "./conditions.ts";
import { retryAfterMs, validateEveryMs } from "./decide.ts";
import { hashToConfirm } from "./pruning.ts";
import { asksAnew, givenUpAt, isAnnotated, isAsked } from "./requests.ts";
import { timeOf } from "./time.ts";

/** What a process has seen of a deployment, and the status alone does not say. Epoch milliseconds. */
export interface Seen {
  /** When a loop of it was last seen to end: one that failed to render leaves no time behind. */
  readonly lastLoopAt?: number | undefined;
  /** When what failed is to be tried again, see retries.ts. */
  readonly retryAt?: number | undefined;
  /** When the reconciliation that is in progress last wrote into the status. */
  readonly progressAt?: number | undefined;
}

/**
 * A reconciliation in progress that writes nothing for so long is due: its server may have died, or could not write how it
 * ended. One that only takes long is not disturbed: its job, or its Lease, makes the request a no-op.
 */
const unendedMs = 60_000;

/** Epoch milliseconds; `Infinity` when nothing but a change can make it due. */
export function dueAt(deployment: Deployment | MalformedDeployment, seen: Seen, now: number): number {
  const { status, generation } = deployment;
  if (isAnnotated(deployment) || deployment.deletionTimestamp !== undefined) return now;
  if (isMalformed(deployment)) return malformedUnreported(deployment) ? now : Infinity;
  const { spec } = deployment;
  if (status.observedGeneration !== generation || (givenUpAt(deployment) ?? Infinity) <= now) return now;
  const unendedAt = isReconciling(status) && seen.progressAt !== undefined ? seen.progressAt + unendedMs : Infinity;
  return Math.min(unendedAt, spec.suspend ? Infinity : nextCheckAt(deployment, seen, now));
}

function nextCheckAt(deployment: Deployment, { lastLoopAt, retryAt }: Seen, now: number): number {
  const { spec, status } = deployment;
  if (isPruneConfirmed(deployment)) return now;
  const looked = lastLook(deployment, lastLoopAt, now);
  if (looked === undefined) return retryAt ?? now;
  const ready = readyCondition(status)?.status === "True";
  const times = [looked + (ready ? spec.intervalMs : Math.min(retryAfterMs(spec), spec.intervalMs))];
  if (retryAt !== undefined) times.push(retryAt);
  if (spec.deployIntervalMs !== undefined && status.lastDeployResult !== undefined) {
    times.push(Math.max(timeOf(status.lastDeployResult.endTime) + spec.deployIntervalMs, looked));
  }
  if (spec.validate && status.lastValidateResult !== undefined) {
    times.push(Math.max(timeOf(status.lastValidateResult.endTime) + validateEveryMs(spec), looked));
  }
  return Math.min(...times);
}

/** Whether the very prune that waits has been confirmed: perhaps while no server watched, or Redis took no request. */
function isPruneConfirmed({ annotations, status }: Deployment): boolean {
  const hash = hashToConfirm(readyCondition(status)?.message ?? "");
  return hash !== undefined && annotations[annotation.confirmPrune] === hash;
}

/** Whether a change of the resource is worth a look at once, and why. */
export function wakes(
  change: "added" | "changed" | "removed",
  deployment: Deployment | MalformedDeployment,
  previous: Deployment | MalformedDeployment | undefined,
): Cause | undefined {
  if (change === "removed") return undefined;
  // A request without an answer is seen at the start only: later it is one that somebody is at.
  if (asksAnew(deployment, previous) || (previous === undefined && isAsked(deployment))) return "manual";
  const unseen = isMalformed(deployment)
    ? malformedUnreported(deployment)
    : deployment.status.observedGeneration !== deployment.generation;
  const confirmed = deployment.annotations[annotation.confirmPrune];
  if (previous && confirmed && confirmed !== previous.annotations[annotation.confirmPrune]) return "change";
  const news =
    previous === undefined ||
    previous.uid !== deployment.uid ||
    previous.generation !== deployment.generation ||
    previous.deletionTimestamp !== deployment.deletionTimestamp;
  if (news && (unseen || deployment.deletionTimestamp !== undefined)) return "change";
  if (previous && followsAnother(deployment, previous)) return "sweep";
  return previous === undefined && brokenOff(deployment) ? "interval" : undefined;
}

/** One of the older API follows what its GitRepository says, and that changes without a new generation. */
function followsAnother(
  deployment: Deployment | MalformedDeployment,
  previous: Deployment | MalformedDeployment,
): boolean {
  if (isMalformed(deployment)) return false;
  return isMalformed(previous) || JSON.stringify(deployment.spec.source) !== JSON.stringify(previous.spec.source);
}

/**
 * A loop that nobody ended: its server may have died, and Redis lost the job. What it had written down already, such as
 * the new commit, looks as if there were nothing to do. Seen at the start only: later it is a loop that is at work.
 */
function brokenOff({ status }: Deployment | MalformedDeployment): boolean {
  return isReconciling(status);
}

function malformedUnreported({ status, problem }: MalformedDeployment): boolean {
  return status.lastPrepareError !== problem || isReconciling(status);
}

/** By this server, or by another, whose clock may be ahead. */
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
