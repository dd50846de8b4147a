/**
 * Step 10 of a push: deploys the project, and prunes what it no longer contains. It begins only when the status says
 * that what is applied is unknown, and ends with the result in it. Next: src/kluctl/kluctl.ts.
 */
import { annotation, type CommandResult } from "../../model.ts";
import { findDoomed, noDiscriminator, withPruned } from "../../guards/pruning.ts";
import type { MaskedResult } from "../../redact/mask-result.ts";
import { notApproved } from "../decide.ts";
import { targetOf } from "../keys.ts";
import { inStage } from "../stage-error.ts";
import { reason } from "../status/conditions.ts";
import { withErrors } from "../status/results.ts";
import type { StepContext } from "./context.ts";
import { mutate } from "./mutate.ts";
import { findObstacle } from "./obstacles.ts";
import { counts, report } from "./record.ts";

export interface Deploying {
  readonly why: string;
  /** The comparison before it, if there was one. */
  readonly compared?: CommandResult | undefined;
  /** A deploy without an effect equals a comparison: it is only logged. By default, each counts. */
  readonly hasEffect?: (result: CommandResult) => boolean;
}

export async function deploy(context: StepContext, { why, compared, hasEffect }: Deploying): Promise<MaskedResult> {
  const { work, options, secrets, isWanted, kluctl, run } = context;
  const { deployment, deps, status, log, signal, request } = work;
  const { spec } = deployment;
  const { clock } = deps;
  const { dryRun } = options;
  // Before anything is applied: whether its orphans belong to another deployment is only known once the watch has
  // synced.
  if (spec.prune) await deps.deployments.whenSynced(signal);
  return inStage("deploy", secrets, async () => {
    const pokes = spec.deployMode === "poke-images";
    const message = `Performing ${isWanted ? "" : "kluctl "}${spec.deployMode}`;
    const startedAt = clock.now();
    const whole = await mutate(context, message, { action: pokes ? "poke-images" : "deploy", why }, async () =>
      pokes
        ? asApproved(context, await kluctl.pokeImages(run(), { dryRun }, signal))
        : pruneAfter(context, asApproved(context, await kluctl.deploy(run(), options, signal))),
    );
    const result = await context.masked(whole);
    const appliedAt = clock.now();
    const ms = appliedAt - startedAt;
    if (hasEffect?.(result) === false) {
      log.info({ ...counts(result), ms }, "compared");
      return result;
    }
    log.info({ why, commit: context.checkout.commit, dryRun, ...counts(result), ms }, "deployed");
    if (!spec.manual && compared && compared.objectsHash !== result.objectsHash) {
      log.warn(
        { compared: compared.objectsHash, deployed: result.objectsHash },
        "the project rendered differently when it was deployed",
      );
    }
    if (request.receivedAt !== undefined && request.cause !== "interval" && result.errors.length === 0) {
      deps.observe?.pushToApplied((appliedAt - request.receivedAt) / 1_000);
    }
    const name = isWanted ? "deploy" : spec.deployMode;
    const lastDeployResult = report(context, { whole, result, name, failed: reason.deployFailed });
    if (!context.isTrial) status.set({ lastDeployResult });
    return result;
  });
}

/** A deploy renders again: if an input outside git has changed, the result may not be what was approved. */
function asApproved({ work, isWanted }: StepContext, deployed: CommandResult): CommandResult {
  const { spec } = work.deployment;
  const approved = spec.manualObjectsHash;
  if (!spec.manual || isWanted || approved === undefined || deployed.objectsHash === approved) return deployed;
  return withErrors(deployed, [notApproved(approved, deployed.objectsHash)]);
}

/**
 * Prunes after a successful deploy. Only the orphans found by that deploy are pruned, so no other object can be
 * affected.
 */
async function pruneAfter(context: StepContext, deployed: CommandResult): Promise<CommandResult> {
  const { work, run } = context;
  const { deployment, deps, signal, log } = work;
  const { clock } = deps;
  const { dryRun } = context.options;
  if (!deployment.spec.prune || deployed.errors.length > 0) return deployed;
  if (targetOf(deployed.document).discriminator === undefined)
    return withPruned(deployed, [], [noDiscriminator], clock.now());
  const doomed = findDoomed(deployed);
  if (doomed.length === 0 || findObstacle(context, deployed, { isAsked: isPruneAsked(context) })) return deployed;
  const startedAt = clock.now();
  const errors = await deps.objects.delete(doomed, run(), { dryRun }, signal);
  deps.observe?.pruned?.(deployment.key, (clock.now() - startedAt) / 1_000);
  log.info({ dryRun, pruned: doomed.length - errors.length, errors: errors.length }, "pruned");
  const confirmed = deployment.annotations[annotation.confirmPrune];
  if (confirmed !== undefined && !dryRun) {
    await deps.deployments.removeAnnotation(deployment, annotation.confirmPrune, confirmed); // used up
  }
  return withPruned(deployed, doomed, errors, clock.now());
}

/** The user requested this prune, so it needs no confirmation. */
function isPruneAsked({ isWanted, work }: StepContext): boolean {
  const spec = work.asked?.overridesPatch?.["spec"] as { prune?: unknown } | undefined;
  return isWanted || spec?.prune === true;
}
