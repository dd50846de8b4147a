/**
 * Decides what the deployment needs, from its spec, its last results and what was rendered. Pure: this decision table
 * must agree with kluctl's own controller, so that either controller can replace the other without a redeploy.
 */
import type { Deployment, DeploymentSpec, DeploymentStatus, ResultError } from "../model.ts";
import { timeOf } from "../kit/time.ts";
import { wasDryRun } from "../model/last-deploy.ts";

export interface DecisionInput {
  readonly spec: DeploymentSpec;
  readonly status: DeploymentStatus;
  readonly generation: number;
  /** Epoch milliseconds. */
  readonly now: number;
  /** A failed deploy is retried now, before its interval. */
  readonly retrying: boolean;
  /** When the failed step is to be retried, in epoch milliseconds; see retries.ts. */
  readonly retryAt?: number | undefined;
  /** A deploy was requested whether or not anything changed. */
  readonly requested?: boolean | undefined;
  /** A deploy applies nothing. */
  readonly dryRun?: boolean | undefined;
  /** The user confirmed pruning exactly the current orphans. */
  readonly pruneConfirmed?: boolean | undefined;
}

export type DeployReason =
  | "never-deployed"
  | "objects-changed"
  | "requested"
  | "approval-changed"
  | "spec-changed"
  | "after-dry-run"
  | "interval"
  | "retry"
  | "prune-confirmed";

export interface Decision {
  /** Why to deploy; `undefined`: do not deploy. */
  readonly deploy: DeployReason | undefined;
  /** There is something to deploy, and this exact change is not approved. */
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
 * The reason for a deploy that is needed whatever the objects are, so that no comparison is needed first: this saves a
 * render. Never with manual approval, because approvals are for a hash.
 */
export function deployRegardless(input: DecisionInput): DeployReason | undefined {
  // Assume that no object changed: a reason found under this assumption holds for any hash.
  return input.spec.manual ? undefined : deployReason(input, input.status.lastObjectsHash ?? "");
}

function deployReason(
  { spec, status, generation, now, retrying, retryAt, requested, dryRun, pruneConfirmed }: DecisionInput,
  objectsHash: string,
): DeployReason | undefined {
  const last = status.lastDeployResult;
  if (last === undefined) return "never-deployed";
  const { lastObjectsHash: before } = status;
  // Without a hash, a deploy was interrupted and what it applied is unknown.
  const counts = spec.deployOnChanges !== false || before === undefined;
  if (before !== objectsHash && counts) return "objects-changed";
  if (requested) return "requested";
  if (spec.manual && status.lastManualObjectsHash !== spec.manualObjectsHash) return "approval-changed";
  if (status.observedGeneration !== generation) return "spec-changed";
  if (spec.suspend) return undefined;
  if (wasDryRun(last) && !dryRun) return "after-dry-run";
  const deployedAt = timeOf(last.endTime);
  if (spec.deployIntervalMs !== undefined && deployedAt + spec.deployIntervalMs <= now) return "interval";
  if (last.errors > 0 && (retrying || (retryAt ?? deployedAt + retryAfterMs(spec)) <= now)) return "retry";
  if (spec.prune && pruneConfirmed) return "prune-confirmed";
  return undefined;
}

/**
 * Whether a validation is due: there is none since the last deploy, as the one that followed it did not end, or it is older than its
 * interval. A failed one is retried like a deploy, because right after a deploy hardly anything is ready.
 */
function validateDue({ spec, status, now, retryAt }: DecisionInput): boolean {
  const last = status.lastValidateResult;
  if (last === undefined) return true;
  if (spec.suspend) return false;
  const validatedAt = timeOf(last.endTime);
  const deployed = wasDryRun(status.lastDeployResult) ? undefined : status.lastDeployResult;
  if (deployed !== undefined && validatedAt < timeOf(deployed.endTime)) return true;
  if (last.errors > 0 && (retryAt ?? validatedAt + retryAfterMs(spec)) <= now) return true;
  return validatedAt + validateEveryMs(spec) <= now;
}

export function validateEveryMs(spec: DeploymentSpec): number {
  return spec.validateIntervalMs ?? spec.intervalMs;
}

export function retryAfterMs(spec: DeploymentSpec): number {
  return spec.retryIntervalMs ?? spec.intervalMs;
}

/** Whether a deploy started whose end was not recorded: what is applied is unknown until the next deploy. */
export function isInterrupted({ lastDeployResult, lastObjectsHash }: DeploymentStatus): boolean {
  return lastDeployResult !== undefined && lastObjectsHash === undefined;
}

/**
 * The change of the status with which a reconciliation that could not prepare observes the generation: what the spec has changed
 * is still to be deployed, even if it renders the same. With manual approval, only what is approved.
 */
export function keptDue({ spec, status, generation }: Deployment): Partial<DeploymentStatus> {
  if (status.lastDeployResult === undefined || status.observedGeneration === generation) return {};
  return spec.manual ? { lastManualObjectsHash: undefined } : { lastObjectsHash: undefined };
}

/**
 * Returned as an error of the deploy, so that the deployment is not ready and is retried until the approved objects are
 * applied.
 */
export function notApproved(approved: string, rendered: string): ResultError {
  const message =
    `the deploy rendered and applied ${rendered} instead of the approved ${approved}: ` +
    "an input outside git changed in between; check what was applied, and approve the current change";
  return { ref: { kind: "", name: "" }, message };
}

/** The hash of the last rendered objects. */
export function renderedHash({ lastObjectsHash, lastDriftDetectionResult }: DeploymentStatus): string | undefined {
  const compared = lastDriftDetectionResult?.document["renderedObjectsHash"];
  return lastObjectsHash ?? (typeof compared === "string" ? compared : undefined);
}

/**
 * The hash of a change that waits for approval, as far as the status shows: the last rendered hash is neither the
 * approved one nor, as far as known, the applied one.
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

/** The timeout of one reconciliation. kluctl's rule: the user's timeout, else an interval, but at least 30 s. */
export function loopTimeoutMs(spec: DeploymentSpec): number {
  return Math.max(spec.timeoutMs ?? spec.deployIntervalMs ?? spec.intervalMs, 30_000);
}
