/**
 * Requests outlive their causes: a delivery is sent twice, every replica sees the same change, a job runs again because
 * its end was not recorded. Finds out what there is nothing left to do for, without a lease and without kluctl.
 */
import { RemoteBusyError } from "../errors.ts";
import { wasDryRun } from "../model/last-deploy.ts";
import { annotation, followsGit, isMalformed } from "../model.ts";
import type { Clock, Secrets, Sources } from "../ports.ts";
import type { DependencyGate } from "../guards/depends-on-gate.ts";
import { isAsked } from "../requests/requests.ts";
import { dueAt } from "./due.ts";
import { findHead } from "./head.ts";
import type { Fulfilled, RequestedCheck } from "./parts.ts";
import { isAwaitingHealth, isReconciling, readyCondition } from "./status/conditions.ts";
import type { LoopDeps } from "./work.ts";

export interface FulfilledDeps extends Pick<LoopDeps, "retryAt" | "settings"> {
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
  readonly dependencies: DependencyGate;
  readonly clock: Clock;
}

/** `why` is set if there is nothing to do. */
export async function findFulfilled(check: RequestedCheck, deps: FulfilledDeps): Promise<Fulfilled> {
  const { cause, deployment, freshness, signal } = check;
  const { status, generation } = deployment;
  if (deployment.deletionTimestamp !== undefined || isAsked(deployment)) return {};
  if (isMalformed(deployment) || cause === "drift" || isReconciling(status) || isAwaitingHealth(status)) return {};
  if (cause === "interval") {
    const now = deps.clock.now();
    // The request may have been queued before the previous reconciliation ended.
    return dueAt(deployment, { retryAt: deps.retryAt?.(deployment) }, now) > now ? { why: "no longer due" } : {};
  }
  if (status.observedGeneration !== generation) return {};
  if (deployment.spec.suspend) return cause === "sweep" ? {} : { why: "suspended" };
  if (deployment.annotations[annotation.confirmPrune] !== undefined) return {};
  // Its own commit says nothing about what it includes.
  if (cause === "include") return {};
  if (cause === "manual") return { why: "the request was already answered" };
  // The job that would have retried a failure may be gone: its worker died, or this job replaced it.
  if (readyCondition(status)?.status !== "True") return {};
  // Nothing was applied, and now it would be.
  if (wasDryRun(status.lastDeployResult) && !deployment.spec.dryRun && !deps.settings.dryRun) return {};
  if (cause === "change" && deps.dependencies.whyBlockedForever(deployment) !== undefined) return {};
  // The status does not show which health checks it was found to pass.
  if (cause === "change" && deployment.annotations[annotation.healthChecks] !== undefined) return {};
  if (cause === "change") return { why: "this change was already handled" };
  if (!followsGit(deployment)) return {};
  try {
    const at = deps.clock.now();
    const commit = await findHead(deployment, freshness, deps, signal);
    if (commit === undefined) return {};
    return commit === status.observedCommit ? { why: `already at ${commit}` } : { head: { commit, at } };
  } catch (error) {
    if (error instanceof RemoteBusyError) throw error;
    return {}; // the reconciliation meets the same error and reports it
  }
}
