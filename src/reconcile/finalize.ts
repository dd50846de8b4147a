/**
 * Finalizes a deployment: deletes its objects if the spec requires it, and removes the finalizer. Never blocks forever.
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
} from "../model.ts";
import { countChanged, deletion } from "./auditing.ts";
import { eventReason, firstErrors } from "./status/conditions.ts";
import { loopTimeoutMs } from "./decide.ts";
import { findSharing, sharingNote } from "../guards/discriminators.ts";
import { toFailure } from "./failures.ts";
import { maskSafely } from "../redact/mask-result.ts";
import { toDeployOptions } from "./run.ts";
import type { LoopDeps } from "./work.ts";

export interface Finalizing {
  readonly deployment: Deployment | MalformedDeployment;
  readonly request: ReconcileRequest;
  readonly held: Held;
  /** There are no more attempts: the finalizer is removed even if its objects could not be deleted. */
  readonly lastAttempt: boolean;
  readonly signal: AbortSignal;
}

export async function finalize(finalizing: Finalizing, deps: LoopDeps): Promise<Outcome> {
  const { deployment, lastAttempt, signal } = finalizing;
  const { deployments } = deps;
  // Whether another deployment shares its objects is only known once the watch has synced; the finalizer stays until
  // then.
  if (!isMalformed(deployment) && deletesObjects(deployment)) await deployments.whenSynced(signal);
  try {
    const errors = isMalformed(deployment) ? 0 : await deleteObjects(deployment, finalizing, deps);
    if (errors > 0 && !lastAttempt)
      return { kind: "failed", retry: "soon", message: `delete failed with ${errors} errors.` };
  } catch (error) {
    const { message, retry } = toFailure(error);
    if (signal.aborted) return { kind: "failed", retry: "soon", message };
    deps.log.warn({ ...deployment.key, error: message }, "could not delete the deployment's objects");
    deployments.event(deployment, "Warning", eventReason.deleteFailed, message);
    if (retry === "soon" && !lastAttempt) return { kind: "failed", retry, message };
  }
  await deployments.setFinalizer(deployment, finalizer, false);
  deps.log.info({ ...deployment.key }, "finalized");
  return { kind: "skipped", why: "deleted" };
}

function deletesObjects({ spec, status }: Deployment): boolean {
  return spec.delete && !spec.suspend && status.targetKey?.discriminator !== undefined;
}

/**
 * Returns the number of errors. Does nothing unless the spec sets `delete` and something was deployed under a
 * discriminator.
 */
async function deleteObjects(
  deployment: Deployment,
  { request, held, signal }: Finalizing,
  deps: LoopDeps,
): Promise<number> {
  const { key, spec, status } = deployment;
  const { targetName, discriminator } = status.targetKey ?? {};
  if (!deletesObjects(deployment) || discriminator === undefined) return 0;
  const others = findSharing(deployment, status.targetKey, deps.deployments.all());
  if (others.length > 0) {
    const message = sharingNote(discriminator, others);
    deps.log.warn({ ...key, discriminator }, "objects kept: another deployment has them too");
    deps.deployments.event(deployment, "Warning", eventReason.sharedDiscriminator, message);
    return 0;
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
  return errors.length;
}
