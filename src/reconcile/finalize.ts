/**
 * Finalizes a deployment: deletes its objects if the spec requires it, and removes the finalizer. Never blocks forever:
 * see `patienceMs`.
 */
import {
  type Change,
  type Deployment,
  finalizer,
  type Held,
  isMalformed,
  type MalformedDeployment,
  noCredentials,
  type Outcome,
  type ReconcileRequest,
  type ResultError,
} from "../model.ts";
import { countChanged, deletion } from "./auditing.ts";
import { eventReason, firstErrors } from "./status/conditions.ts";
import { loopTimeoutMs } from "./decide.ts";
import { findSharing, sharingNote } from "../guards/discriminators.ts";
import { type Failure, retryOf, toFailure } from "./failures.ts";
import { maskSafely } from "../redact/mask-result.ts";
import { toDeployOptions } from "./run.ts";
import type { LoopDeps } from "./work.ts";

export interface Finalizing {
  readonly deployment: Deployment | MalformedDeployment;
  readonly request: ReconcileRequest;
  readonly held: Held;
  readonly signal: AbortSignal;
}

/**
 * How long after the deletion the objects may fail to be deleted before the finalizer is removed and they stay: long
 * enough for a cluster that is being upgraded, and for a user who gives back a permission. kluctl's own controller does not
 * try again. Until then the sweep repeats the request, because a resource that is being deleted is always due.
 */
const patienceMs: Record<Failure["retry"], number> = { soon: 3_600_000, person: 300_000 };

export async function finalize(finalizing: Finalizing, deps: LoopDeps): Promise<Outcome> {
  const { deployment, signal } = finalizing;
  const { deployments } = deps;
  // Whether another deployment shares its objects is only known once the watch has synced; the finalizer stays until
  // then.
  if (!isMalformed(deployment) && deletesObjects(deployment)) await deployments.whenSynced(signal);
  const failure = isMalformed(deployment) ? undefined : await failureOfDelete(deployment, finalizing, deps);
  if (failure !== undefined) {
    const deletedAt = Date.parse(deployment.deletionTimestamp ?? "");
    // A time that cannot be read, or that is in the future by this server's clock, does not end the attempts.
    if (signal.aborted || !(deps.clock.now() - deletedAt >= patienceMs[failure.retry])) {
      return { kind: "failed", ...failure };
    }
    deps.log.warn({ ...deployment.key, error: failure.message }, "finalized although objects may be left");
  }
  await deployments.setFinalizer(deployment, finalizer, false);
  deps.log.info({ ...deployment.key }, "finalized");
  return { kind: "skipped", why: "deleted" };
}

/** Why the objects could not be deleted, if so. */
async function failureOfDelete(
  deployment: Deployment,
  finalizing: Finalizing,
  deps: LoopDeps,
): Promise<Pick<Failure, "message" | "retry"> | undefined> {
  try {
    const errors = await deleteObjects(deployment, finalizing, deps);
    if (errors.length === 0) return undefined;
    return { retry: retryOf(errors), message: `delete failed with ${errors.length} errors.` };
  } catch (error) {
    const { message, retry } = toFailure(error);
    if (finalizing.signal.aborted) return { retry: "soon", message };
    deps.log.warn({ ...deployment.key, error: message }, "could not delete the deployment's objects");
    deps.deployments.event(deployment, "Warning", eventReason.deleteFailed, message);
    return { retry, message };
  }
}

function deletesObjects({ spec, status }: Deployment): boolean {
  return spec.delete && !spec.suspend && status.targetKey?.discriminator !== undefined;
}

/**
 * Returns the errors. Does nothing unless the spec sets `delete` and something was deployed under a
 * discriminator.
 */
async function deleteObjects(
  deployment: Deployment,
  { request, held, signal }: Finalizing,
  deps: LoopDeps,
): Promise<readonly ResultError[]> {
  const { key, spec, status } = deployment;
  const { targetName, discriminator } = status.targetKey ?? {};
  if (!deletesObjects(deployment) || discriminator === undefined) return [];
  const others = findSharing(deployment, status.targetKey, deps.deployments.all());
  if (others.length > 0) {
    const message = sharingNote(discriminator, others);
    deps.log.warn({ ...key, discriminator }, "objects kept: another deployment has them too");
    deps.deployments.event(deployment, "Warning", eventReason.sharedDiscriminator, message);
    return [];
  }
  const { settings } = deps;
  const identity = await deps.readIdentity(deployment, { decrypts: false });
  const { dryRun } = toDeployOptions(deployment, settings.dryRun);
  const startedAt = deps.clock.now();
  const reconcileID = deps.newId();
  const run = { dryRun, reconcileID };
  const record = (came: Pick<Change, "result" | "objects">) =>
    deps.audit?.(deletion({ deployment, request }, { ...run, ...came, ms: deps.clock.now() - startedAt }));
  const deleting = deps.kluctl.delete(
    {
      ...identity,
      deployment: key,
      reconcileId: reconcileID,
      targetNameOverride: targetName,
      images: [],
      includeTags: spec.includeTags,
      excludeTags: spec.excludeTags,
      includeDeploymentDirs: spec.includeDeploymentDirs,
      excludeDeploymentDirs: spec.excludeDeploymentDirs,
      context: spec.context,
      credentials: noCredentials,
      timeoutMs: loopTimeoutMs(spec),
      held,
    },
    { discriminator, dryRun },
    signal,
  );
  const result = await deleting.catch((error: unknown) => {
    record({ result: "interrupted" });
    throw error;
  });
  record({ result: result.errors.length > 0 ? "errors" : "ok", objects: countChanged(result) });
  const { objects, errors, warnings } = await maskSafely(result, { known: identity.secrets, signal, log: deps.log });
  const deleted = objects.filter((object) => object.deleted).length;
  const counts = { deleted, errors: errors.length, warnings: warnings.length };
  deps.log.info({ ...key, ...counts }, "deployment's objects deleted");
  if (errors.length + warnings.length > 0) {
    const words = `${deleted} objects deleted, but some may be left: ${firstErrors([...errors, ...warnings])}`;
    deps.deployments.event(deployment, "Warning", eventReason.deleteFailed, words);
  }
  return errors;
}
