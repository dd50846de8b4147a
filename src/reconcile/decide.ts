/**
 * What a deployment needs, decided from what it says and what was done last. Pure: this is the table that has to
 * agree with kluctl's own controller, so that the two can be exchanged without a redeploy.
 */
import type { DeploymentSpec, DeploymentStatus, ResultError } from "../model.ts";
import { timeOf } from "./time.ts";

export interface DecisionInput {
  readonly spec: DeploymentSpec;
  readonly status: DeploymentStatus;
  readonly generation: number;
  /** Epoch milliseconds. */
  readonly now: number;
  /** A failed deploy is tried again now, before its interval says so. */
  readonly retrying: boolean;
  /** When what failed is to be tried again, epoch milliseconds; see retries.ts. */
  readonly retryAt?: number | undefined;
  /** Somebody wants it deployed whether or not anything changed. */
  readonly asked?: boolean | undefined;
  /** Somebody confirmed that exactly what is an orphan now is to be pruned. */
  readonly pruneConfirmed?: boolean | undefined;
}

export type DeployReason =
  | "never-deployed"
  | "objects-changed"
  | "asked"
  | "approval-changed"
  | "spec-changed"
  | "interval"
  | "retry"
  | "prune-confirmed";

export interface Decision {
  /** Why to deploy; `undefined`: leave the cluster as it is. */
  readonly deploy: DeployReason | undefined;
  /** There is something to deploy, and nobody has approved exactly this. */
  readonly waitsForApproval: boolean;
  readonly validate: boolean;
}

/** The decision, once the hash of the rendered objects is known. */
export function decide(input: DecisionInput, objectsHash: string): Decision {
  const { spec } = input;
  const reason = deployReason(input, objectsHash);
  const approved = !spec.manual || spec.manualObjectsHash === objectsHash;
  const deploy = approved ? reason : undefined;
  return {
    deploy,
    waitsForApproval: reason !== undefined && !approved,
    validate: spec.validate && (deploy !== undefined || validateDue(input)),
  };
}

/**
 * A deploy that is needed whatever the objects are, so that nobody has to compare first: this saves a render.
 * Never with manual approval, which is given for a hash.
 */
export function deployRegardless(input: DecisionInput): DeployReason | undefined {
  // Assuming that no object changed: a reason that is found even so holds for any hash.
  return input.spec.manual ? undefined : deployReason(input, input.status.lastObjectsHash ?? "");
}

function deployReason(
  { spec, status, generation, now, retrying, retryAt, asked, pruneConfirmed }: DecisionInput,
  objectsHash: string,
): DeployReason | undefined {
  const last = status.lastDeployResult;
  if (last === undefined) return "never-deployed";
  const { lastObjectsHash: before } = status;
  // Without a hash a deploy was interrupted, and nobody knows what it applied.
  const counts = spec.deployOnChanges !== false || before === undefined;
  if (before !== objectsHash && counts) return "objects-changed";
  if (asked) return "asked";
  if (spec.manual && status.lastManualObjectsHash !== spec.manualObjectsHash) return "approval-changed";
  if (status.observedGeneration !== generation) return "spec-changed";
  if (spec.suspend) return undefined;
  const deployedAt = timeOf(last.endTime);
  if (spec.deployIntervalMs !== undefined && deployedAt + spec.deployIntervalMs <= now) return "interval";
  if (last.errors > 0 && (retrying || (retryAt ?? deployedAt + retryAfterMs(spec)) <= now)) return "retry";
  if (spec.prune && pruneConfirmed) return "prune-confirmed";
  return undefined;
}

/**
 * A validation is due: none is known, or the last one is older than its interval. One that failed is repeated as a
 * deploy would be: right after a deploy hardly anything is ready.
 */
function validateDue({ spec, status, now, retryAt }: DecisionInput): boolean {
  const last = status.lastValidateResult;
  if (last === undefined) return true;
  if (spec.suspend) return false;
  const validatedAt = timeOf(last.endTime);
  if (last.errors > 0 && (retryAt ?? validatedAt + retryAfterMs(spec)) <= now) return true;
  return validatedAt + validateEveryMs(spec) <= now;
}

export function validateEveryMs(spec: DeploymentSpec): number {
  return spec.validateIntervalMs ?? spec.intervalMs;
}

export function retryAfterMs(spec: DeploymentSpec): number {
  return spec.retryIntervalMs ?? spec.intervalMs;
}

/** Whether a deploy began whose end nobody recorded: what is applied is unknown until the next one. */
export function isInterrupted({ lastDeployResult, lastObjectsHash }: DeploymentStatus): boolean {
  return lastDeployResult !== undefined && lastObjectsHash === undefined;
}

/** An error of a deploy, so that it is not ready, and not over, until what was approved is what is applied. */
export function notApproved(approved: string, rendered: string): ResultError {
  const message =
    `the deploy rendered and applied ${rendered} instead of the approved ${approved}: ` +
    "an input outside git changed in between; check what was applied, and approve the current change";
  return { ref: { kind: "", name: "" }, message };
}

/** The hash of what was rendered last. */
export function renderedHash({ lastObjectsHash, lastDriftDetectionResult }: DeploymentStatus): string | undefined {
  const compared = lastDriftDetectionResult?.document["renderedObjectsHash"];
  return lastObjectsHash ?? (typeof compared === "string" ? compared : undefined);
}

/**
 * The hash of a change that waits for approval, as far as the status shows: what was rendered last is neither what was
 * approved nor, as far as that is known, what is applied.
 */
export function hashToApprove(spec: DeploymentSpec, status: DeploymentStatus): string | undefined {
  const rendered = renderedHash(status);
  if (!spec.manual || rendered === spec.manualObjectsHash) return undefined;
  const isUnsure = isInterrupted(status) || (status.lastDeployResult?.errors ?? 0) > 0;
  const applied = isUnsure ? undefined : status.lastDeployResult?.document["renderedObjectsHash"];
  return rendered === applied ? undefined : rendered;
}

export function changeWaits(spec: DeploymentSpec, status: DeploymentStatus): boolean {
  return hashToApprove(spec, status) !== undefined;
}

/** How long one loop may take. Upstream's rule: what the user says, else an interval, but never under 30 s. */
export function loopTimeoutMs(spec: DeploymentSpec): number {
  return Math.max(spec.timeoutMs ?? spec.deployIntervalMs ?? spec.intervalMs, 30_000);
}
