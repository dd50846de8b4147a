/**
 * The wait of a deployed deployment until it is healthy. It is a state, not a process: it occupies no worker and holds no
 * lease. Each look at the health is a job of its own, and any request that is newer than the deploy comes before it, so
 * that a fix never waits until what it fixes has timed out.
 */
import { PrepareError } from "../errors.ts";
import { type Deployment, followsGit, type Health, type Identity, type Outcome } from "../model.ts";
import { awaited } from "./auditing.ts";
import { isAwaitingHealth, readyCondition, reason, verdictOf, withHealth, withNotesOf } from "./status/conditions.ts";
import { createStatusWriter } from "./status/status-writer.ts";
import { checkHealth } from "./steps/check-health.ts";
import type { Loop, LoopDeps, Work } from "./work.ts";

/**
 * Looks at the health of a deployment that waits for it, if nothing newer was requested. `undefined`: there is no wait,
 * or it ends because there is something to reconcile.
 */
export async function settleAwaiting(loop: Loop, deps: LoopDeps): Promise<Outcome | undefined> {
  const { deployment, request, signal } = loop;
  const { spec, status, generation } = deployment;
  if (!isAwaitingHealth(status)) return undefined;
  // A suspended deployment starts nothing new, but what it had deployed becomes healthy or does not.
  const isDisturbed =
    request.cause !== "interval" || request.also !== undefined || status.observedGeneration !== generation;
  if (isDisturbed && !spec.suspend) return undefined;
  const health = await lookAtHealth(loop, deps);
  if (health === "unknown") return undefined;
  if (signal.aborted) return { kind: "failed", retry: "soon", message: "the health check was interrupted" };

  const before = readyCondition(status);
  const ready = withHealth(withNotesOf(status, verdictOf(spec, status)), health);
  if (ready.status !== before?.status || ready.message !== before.message) {
    await createStatusWriter(deps.deployments, deployment, deps.clock, deps.log, signal).finish(ready);
  }
  announceHealth(deployment, health, deps);
  if (ready.status !== "Unknown") deps.log.info({ ...deployment.key, ready: ready.status }, "health check ended");
  if (request.receivedAt !== undefined && ready.status === "True") {
    deps.observe?.pushToLive?.((deps.clock.now() - request.receivedAt) / 1_000);
  }
  return outcomeOf(health) ?? { kind: "done" };
}

/** `undefined`: it has no health checks. `unknown`: the reconciliation reports what is wrong with the deployment's identity. */
export async function lookAtHealth(
  { deployment, signal }: Loop,
  deps: LoopDeps,
): Promise<Health | undefined | "unknown"> {
  let identity: Identity;
  try {
    identity = await deps.readIdentity(deployment, { decrypts: false });
  } catch (error) {
    if (error instanceof PrepareError) return "unknown";
    throw error;
  }
  return checkHealth({ deployment, deps, signal, status: deployment.status, identity });
}

/** What becomes of the job; `undefined`: the health is no reason to do anything. */
export function outcomeOf(health: Health | undefined): Outcome | undefined {
  if (health === undefined || health.kind === "healthy") return undefined;
  if (health.kind === "waiting") return { kind: "recheck", afterMs: health.againMs };
  return { kind: "failed", retry: "person", message: health.message };
}

/** Emits an event when a wait ends, or when a healthy deployment has become unhealthy. */
export function announceHealth(
  deployment: Deployment,
  health: Health | undefined,
  { deployments }: Pick<LoopDeps, "deployments">,
): void {
  const before = readyCondition(deployment.status);
  if (health === undefined || health.kind === "waiting") return;
  if (health.kind === "healthy") {
    const wasUnhealthy = isAwaitingHealth(deployment.status) || before?.reason === reason.healthFailed;
    if (wasUnhealthy) deployments.event(deployment, "Normal", reason.succeeded, "Health check passed.");
    return;
  }
  if (before?.status === "False" && before.message.includes(health.message)) return;
  const why = health.kind === "invalid" ? reason.healthInvalid : reason.healthFailed;
  deployments.event(deployment, "Warning", why, health.message);
}

/** Records that a newer commit ends the wait for the health of an older one. */
export function announceOvertaken({ deployment, deps, log, ...work }: Work, commit: string): void {
  const { status } = deployment;
  if (!isAwaitingHealth(status) || !followsGit(deployment) || commit === status.observedCommit) return;
  const { observedCommit = "" } = status;
  log.info({ from: observedCommit, to: commit }, "wait for health superseded by a newer commit");
  deps.audit?.(awaited({ deployment, deps, ...work }, { from: observedCommit, to: commit }));
}
