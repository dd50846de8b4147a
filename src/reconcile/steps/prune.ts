/** A requested prune: deletes the objects that the project no longer contains. */
import { findSharing, sharingNote } from "../../guards/discriminators.ts";
import { findDoomed, withPruned } from "../../guards/pruning.ts";
import type { MaskedResult } from "../../redact/mask-result.ts";
import { inStage } from "../stage-error.ts";
import { inProgress, reason } from "../status/conditions.ts";
import { withDryRun } from "../status/results.ts";
import type { StepContext } from "./context.ts";
import { mutate } from "./mutate.ts";
import { counts, report } from "./record.ts";

export async function prune(context: StepContext): Promise<MaskedResult> {
  const { work, secrets, run, kluctl } = context;
  const { deployment, deps, status, log, signal } = work;
  const { clock, deployments } = deps;
  const { dryRun } = context.options;
  await deployments.whenSynced(signal);
  return inStage("prune", secrets, async () => {
    status.progress("Performing prune", inProgress);
    const startedAt = clock.now();
    const found = withDryRun(await kluctl.prune(run(), signal), dryRun);
    const key = context.targetKeyOf(found);
    const others = dryRun ? [] : findSharing(deployment, key, deployments.all());
    const doomed = found.errors.length > 0 || others.length > 0 ? [] : findDoomed(found);
    const whole = await mutate(context, "Performing prune", { action: "prune", why: "requested" }, async () => {
      const errors =
        others.length > 0
          ? [{ ref: { kind: "", name: "" }, message: sharingNote(key.discriminator ?? "", others) }]
          : await deps.objects.delete(doomed, run(), { dryRun }, signal);
      return withPruned(found, doomed, errors, clock.now());
    });
    const result = await context.masked(whole);
    log.info({ dryRun, ...counts(result), ms: clock.now() - startedAt }, "pruned");
    const lastDeployResult = report(context, { whole, result, name: "prune", failed: reason.pruneFailed });
    if (!context.isTrial) status.set({ lastDeployResult });
    return result;
  });
}
