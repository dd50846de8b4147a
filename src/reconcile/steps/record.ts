/** Records what a command of kluctl did: in the status, as a stored result, and as an event. */
import { isSameTarget } from "../../guards/discriminators.ts";
import { wasDryRun } from "../../model/last-deploy.ts";
import type { CommandResult, CommandSummary, ResultError } from "../../model.ts";
import type { MaskedResult } from "../../redact/mask-result.ts";
import { isInterrupted } from "../decide.ts";
import { firstErrors, reason, resultMessage } from "../status/conditions.ts";
import { differs, toCommandSummary, toDrift, toStoredDocument } from "../status/results.ts";
import type { StepContext } from "./context.ts";

/**
 * Stores the result of a command and emits its event; returns the summary for the status. `whole`: the result with its
 * secrets, which are removed as it is stored.
 */
export function report(
  context: StepContext,
  { whole, result, name, failed }: { whole: CommandResult; result: MaskedResult; name: string; failed: string },
): CommandSummary {
  const { work, secrets, isWanted } = context;
  const { deployment, deps } = work;
  const made = context.resultContext(result.objectsHash, context.targetKeyOf(result));
  const summary = toCommandSummary(result, made);
  if (isWanted || isWorthStoring(result)) {
    const stored = { ...result, document: toStoredDocument(whole, made) };
    context.store(made.id, () => deps.results.storeCommand(stored, summary.document, secrets));
  }
  const words = resultMessage(summary, name);
  if (result.errors.length > 0) {
    deps.deployments.event(deployment, "Warning", failed, `${words} ${firstErrors(errorsOf(summary.document))}`);
  } else deps.deployments.event(deployment, "Normal", reason.succeeded, words);
  return summary;
}

/**
 * Records what was rendered, for which target, and how it differs from the cluster. After an interrupted deploy, the
 * hash stays unknown until the next real deploy; a dry run of a deployment that is one needs none. With one-off overrides, only
 * what they have applied in place of the deployment's own objects counts.
 */
export function recordState(
  context: StepContext,
  rendered: CommandResult,
  drift: MaskedResult,
  { deployed }: { deployed: boolean },
): void {
  const { deployment, status, asked } = context.work;
  const { lastObjectsHash, lastManualObjectsHash, targetKey: before } = deployment.status;
  const targetKey = context.targetKeyOf(rendered);
  const isApplied = deployed && !context.options.dryRun;
  const { summary, message } = toDrift(drift, context.resultContext(rendered.objectsHash, targetKey));
  status.set({ lastDriftDetectionResult: summary, lastDriftDetectionResultMessage: message });
  if (asked?.overridesPatch !== undefined) {
    const isOwn = before === undefined || isSameTarget(before, targetKey);
    status.set({
      targetKey: before ?? (isApplied ? targetKey : undefined),
      lastObjectsHash: isApplied && isOwn ? rendered.objectsHash : lastObjectsHash,
      lastManualObjectsHash,
    });
    return;
  }
  const isTried = context.options.dryRun && wasDryRun(deployment.status.lastDeployResult);
  const isKnown = isApplied || isTried || !isInterrupted(deployment.status);
  status.set({
    targetKey,
    lastObjectsHash: isKnown ? rendered.objectsHash : undefined,
    lastManualObjectsHash: deployment.spec.manualObjectsHash,
  });
}

export function errorsOf(document: Readonly<Record<string, unknown>>): readonly ResultError[] {
  return (document["errors"] ?? []) as readonly ResultError[];
}

/** The numbers of a result, for the log. */
export function counts({ objects, errors, warnings }: CommandResult) {
  return {
    objects: objects.length,
    new: objects.filter((o) => o.new).length,
    changed: objects.filter((o) => o.changes.length > 0).length,
    orphan: objects.filter((o) => o.orphan).length,
    deleted: objects.filter((o) => o.deleted).length,
    errors: errors.length,
    warnings: warnings.length,
  };
}

function isWorthStoring(result: CommandResult): boolean {
  return differs(result) || result.errors.length > 0 || result.warnings.length > 0;
}
