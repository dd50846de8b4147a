/** Compares the project with the cluster: `kluctl diff`. */
import type { MaskedResult } from "../../redact/mask-result.ts";
import { inStage } from "../stage-error.ts";
import { reason } from "../status/conditions.ts";
import { afterDeploy, withDryRun } from "../status/results.ts";
import type { StepContext } from "./context.ts";
import { counts, report } from "./record.ts";

/** Rendering is part of the preparation: as long as it fails, nothing is known about the project. */
export function compare(context: StepContext): Promise<MaskedResult> {
  const { work, secrets } = context;
  return inStage("prepare", secrets, async () => {
    const startedAt = work.deps.clock.now();
    const result = await context.masked(await context.kluctl.diff(context.run(), context.options, work.signal));
    work.log.info({ ...counts(result), ms: work.deps.clock.now() - startedAt }, "compared");
    return result;
  });
}

/** A requested diff. Keeps the Ready condition as it is: a diff is read-only. */
export function diff(context: StepContext): Promise<MaskedResult> {
  const { work, secrets, options } = context;
  const { status, log, signal } = work;
  const { clock } = work.deps;
  return inStage("diff", secrets, async () => {
    status.progress("Performing diff");
    const startedAt = clock.now();
    const whole = withDryRun(await context.kluctl.diff(context.run(), options, signal), options.dryRun);
    const result = await context.masked(whole);
    log.info({ ...counts(result), ms: clock.now() - startedAt }, "compared");
    status.set({ lastDiffResult: report(context, { whole, result, name: "diff", failed: reason.diffFailed }) });
    return result;
  });
}

/** The drift after a full deploy follows from its own result; after poke-images a comparison is needed. */
export function driftAfter(context: StepContext, deployed: MaskedResult): Promise<MaskedResult> {
  const { work, secrets, options } = context;
  return inStage("deploy", secrets, async () => {
    if (work.deployment.spec.deployMode === "full-deploy") return afterDeploy(deployed, options.dryRun);
    return context.masked(await context.kluctl.diff(context.run(), options, work.signal));
  });
}
