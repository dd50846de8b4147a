/** The state of a deployment at a glance, for lists. Pure. */
import { describeRef } from "../model/git-ref.ts";
import { deployedCommitOf, wasDryRun } from "../model/last-deploy.ts";
import { type Deployment, isMalformed, type MalformedDeployment } from "../model.ts";
import { isReconciling, pendingCommitOf, readyCondition } from "../reconcile/status/conditions.ts";
import { hashToApprove } from "../reconcile/decide.ts";
import { dueAt } from "../reconcile/due.ts";
import { inOneLine, withFirstError } from "../reconcile/status/first-error.ts";

export interface DeploymentState {
  readonly namespace: string;
  readonly name: string;
  readonly ready: "True" | "False" | "Unknown" | undefined;
  /** The newest commit that was reconciled. */
  readonly commit: string | undefined;
  /** The commit that was deployed last. */
  readonly deployedCommit: string | undefined;
  /** Epoch milliseconds. */
  readonly deployedAt: number | undefined;
  /** `none`, or the differences, such as `2 chg`; `undefined` if not compared yet. */
  readonly drift: string | undefined;
  /** The next check by interval; `undefined`: only after a change, or unknown to this process. */
  readonly nextCheckAt: number | undefined;
  /** What it is waiting for, or what is wrong; `undefined` if it is healthy. */
  readonly why: string | undefined;
  readonly suspended: boolean;
  readonly target: string | undefined;
  /** The followed ref. */
  readonly source: string | undefined;
  readonly ref: string | undefined;
  readonly path: string | undefined;
}

/** `retryAt`: the next retry after a failure, which only a server knows. */
export function stateOf(deployment: Deployment | MalformedDeployment, now: number, retryAt?: number): DeploymentState {
  const { key, status } = deployment;
  const spec = isMalformed(deployment) ? undefined : deployment.spec;
  const { lastDeployResult: deployed } = status;
  const ready = readyCondition(status)?.status;
  // A deployment that cannot be rendered has no time of its last check in its status, so it is not overdue.
  const next = dueAt(deployment, { retryAt: retryAt ?? (ready === "False" ? Infinity : undefined) }, now);
  return {
    ...key,
    ready,
    commit: status.observedCommit,
    deployedCommit: deployedCommitOf(deployed),
    deployedAt: timeOf(deployed?.endTime),
    drift: driftOf(status),
    nextCheckAt: Number.isFinite(next) ? Math.max(next, now) : undefined,
    why: whyOf(deployment),
    suspended: spec?.suspend ?? false,
    target: spec?.target,
    source: spec?.source.url,
    ref: spec && refOf(spec.source),
    path: spec?.source.path,
  };
}

/** kluctl reports "no drift" for rejected objects too, although the cluster differs from git there. */
function driftOf({
  lastDriftDetectionResultMessage: message,
  lastDriftDetectionResult: last,
}: Deployment["status"]): string | undefined {
  if (message !== "no drift") return message;
  const errors = last?.document["errors"];
  return Array.isArray(errors) && errors.length > 0 ? `${errors.length} err` : "none";
}

/** The first reason that applies: problems that need a change come before those that resolve by themselves. */
function whyOf(deployment: Deployment | MalformedDeployment): string | undefined {
  const { status } = deployment;
  if (deployment.deletionTimestamp !== undefined) return "is being deleted";
  if (isMalformed(deployment)) return inOneLine(deployment.problem);
  const { spec, generation } = deployment;
  if (spec.suspend) {
    const pending = pendingCommitOf({ spec, status });
    return pending === undefined ? "suspended" : `suspended: ${pending.slice(0, 7)} is not deployed`;
  }
  const ready = readyCondition(status);
  if (isReconciling(status)) {
    const step = status.conditions.find(({ type }) => type === "Reconciling")?.message ?? "";
    return `in progress: ${inOneLine(step) || "reconciling"}`;
  }
  const pending = hashToApprove(spec, status);
  if (pending !== undefined) {
    return `waiting for approval of ${pending.slice(0, 8)} (on the page, by kluctl gitops deploy, or in spec.manualObjectsHash)`;
  }
  if (status.observedGeneration !== generation) return "waiting for reconciliation: the spec changed";
  if (ready?.status === "True") return wasDryRun(status.lastDeployResult) ? "dry run: nothing is applied" : undefined;
  if (status.lastPrepareError) return inOneLine(status.lastPrepareError);
  return withFirstError(inOneLine(ready?.message ?? ""), status) || "not reconciled yet";
}

function refOf(source: Deployment["spec"]["source"]): string {
  if (source.kind === "git") return describeRef(source.ref);
  const { digest, tag = "latest" } = source.ref;
  return digest ?? `tag ${tag}`;
}

function timeOf(text: string | undefined): number | undefined {
  const ms = Date.parse(text ?? "");
  return Number.isNaN(ms) ? undefined : ms;
}
