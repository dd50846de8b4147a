/** Ends a reconciliation that does not take place: the resource is invalid, suspended or held back. */
import { RemoteBusyError } from "../errors.ts";
import {
  annotation,
  type Deployment,
  finalizer,
  followsGit,
  type Health,
  isMalformed,
  keyText,
  type MalformedDeployment,
  type Outcome,
  type ReconcileRequest,
} from "../model.ts";
import type { DependencyGate } from "../guards/depends-on-gate.ts";
import { isHeldBack } from "../guards/depends-on.ts";
import { wasDryRun } from "../model/last-deploy.ts";
import { refuseRequests } from "../requests/manual.ts";
import { isAsked } from "../requests/requests.ts";
import { announceHealth, lookAtHealth, outcomeOf } from "./awaiting.ts";
import { findHead, type HeadDeps } from "./head.ts";
import { projectKey } from "./keys.ts";
import type { RequestedCheck } from "./parts.ts";
import {
  isAwaitingHealth,
  isReconciling,
  pendingCommitOf,
  readyCondition,
  type Verdict,
  verdictIn,
  verdictOf,
  withHealth,
  withPendingCommit,
} from "./status/conditions.ts";
import { createStatusWriter } from "./status/status-writer.ts";
import { describePrepareError } from "./status/prepare-error.ts";
import type { Loop, LoopDeps } from "./work.ts";

export async function settleMalformed(
  deployment: MalformedDeployment,
  deps: LoopDeps,
  signal: AbortSignal,
): Promise<Outcome> {
  const { deployments, clock, log } = deps;
  const { problem, status: before } = deployment;
  if (isAsked(deployment)) await refuseRequests(deployment, problem, deps);
  const isReported = before.lastPrepareError === problem && readyCondition(before)?.status === "False";
  if (!isReported || isReconciling(before)) {
    const status = createStatusWriter(deployments, deployment, clock, log, signal);
    status.set({ lastPrepareError: problem, observedGeneration: deployment.generation });
    const { ready } = await describePrepareError({ message: problem }, deps.kluctl);
    await status.finish(ready);
    log.warn({ ...deployment.key, error: problem }, "the resource is invalid");
    deployments.event(deployment, "Warning", ready.reason, problem);
  }
  return { kind: "failed", retry: "person", message: `${keyText(deployment.key)}: ${problem}` };
}

/**
 * A suspended deployment is not reconciled, but its generation is observed and its status names the commit that is not
 * deployed. What a user's request has deployed is to become healthy as in other deployments.
 */
export async function settleSuspended(loop: Loop, deps: LoopDeps & HeadDeps): Promise<Outcome> {
  const { deployment, signal } = loop;
  const { spec, status, generation } = deployment;
  const pending = await findPendingCommit(loop, deps);
  const ready = verdictIn(status);
  const isKnown = ready !== undefined && (ready.status !== "Unknown" || isAwaitingHealth(status));
  const found = isKnown || wasDryRun(status.lastDeployResult) ? undefined : await lookAtHealth(loop, deps);
  if (!isKnown && signal.aborted) return { kind: "failed", retry: "soon", message: "the health check was interrupted" };
  const seen = found === "unknown" ? unreadable(deployment) : found;
  const verdict = isKnown ? ready : withHealth(verdictOf(spec, status), seen);
  const message = withPendingCommit(verdict.message, pending);
  if (status.observedGeneration !== generation || isReconciling(status) || message !== ready?.message) {
    const writer = createStatusWriter(deps.deployments, deployment, deps.clock, deps.log, signal);
    writer.set({ observedGeneration: generation, projectKey: projectKey(spec.source) });
    await writer.finish({ ...verdict, message });
  }
  if (verdict.health === undefined || isKnown) return { kind: "skipped", why: "suspended" };
  announceHealth(deployment, seen, deps);
  return outcomeOf(seen) ?? { kind: "done" };
}

/** No reconciliation follows that could say what is wrong with the identity, so that it must not count as healthy. */
function unreadable({ annotations }: Deployment): Health | undefined {
  if (annotations[annotation.healthChecks] === undefined) return undefined;
  const message =
    "Its objects cannot be read: the deployment's credentials, kubeconfig or service account are not usable.";
  return { kind: "unhealthy", message };
}

/** The commit that a suspended deployment would deploy, if it is a newer one: the sweep saw the ref move. */
async function findPendingCommit(
  { deployment, request, freshness, signal }: Loop,
  deps: LoopDeps & HeadDeps,
): Promise<string | undefined> {
  if (request.cause !== "sweep" || !followsGit(deployment)) return pendingCommitOf(deployment);
  try {
    const commit = await findHead(deployment, freshness, deps, signal);
    return commit === deployment.status.observedCommit ? undefined : commit;
  } catch (error) {
    if (error instanceof RemoteBusyError) throw error;
    deps.log.debug({ ...deployment.key, error: String(error) }, "newer commit unknown"); // the sweep reports remote errors
    return pendingCommitOf(deployment);
  }
}

/** Reports what the deployment waits for. Its generation stays unobserved, because the change is yet to be handled. */
export async function settleBlocked(
  { deployment, request, signal }: Loop,
  verdict: Verdict,
  { deployments, clock, log }: LoopDeps,
): Promise<Outcome> {
  const { cause } = request;
  const { status, generation } = deployment;
  const { status: ready, reason, message } = readyCondition(status) ?? {};
  const waits = verdict.status === "Unknown";
  const isReported = reason === verdict.reason && message === verdict.message;
  // Nothing about it changed: that it cannot be checked right now does not make it unready.
  const staysReady =
    waits &&
    (cause === "interval" || cause === "drift") &&
    ready === "True" &&
    status.observedGeneration === generation;
  if ((!isReported && !staysReady) || isReconciling(status)) {
    await createStatusWriter(deployments, deployment, clock, log, signal).finish(staysReady ? undefined : verdict);
  }
  if (!isReported && !staysReady) {
    deployments.event(deployment, waits ? "Normal" : "Warning", verdict.reason, verdict.message);
  }
  log.info({ ...deployment.key, cause, why: verdict.message }, "blocked by a dependency");
  return waits
    ? { kind: "skipped", why: verdict.message }
    : { kind: "failed", retry: "person", message: `${keyText(deployment.key)}: ${verdict.message}` };
}

/**
 * For a request by the interval: what a blocked deployment still waits for, if its status says so already. Then the check needs no
 * lease and leaves no trace. `undefined`: there may be more to do.
 */
export async function whyStillBlocked(
  { also = [] }: ReconcileRequest,
  { deployment, freshness, signal }: Omit<RequestedCheck, "cause">,
  dependencies: Pick<DependencyGate, "whyBlocked">,
): Promise<string | undefined> {
  const { status, deletionTimestamp, finalizers } = deployment;
  if (isMalformed(deployment) || deployment.spec.suspend || deletionTimestamp !== undefined) return undefined;
  if (also.length > 0 || !isHeldBack(deployment)) return undefined;
  if (isAsked(deployment) || isReconciling(status) || !finalizers.includes(finalizer)) return undefined;
  const verdict = await dependencies.whyBlocked(deployment, freshness, signal);
  const { reason, message } = readyCondition(status) ?? {};
  return verdict?.reason === reason && verdict?.message === message ? message : undefined;
}
