/** Validates what is deployed: `kluctl validate`. */
import type { CommandResult, ValidateResult } from "../../model.ts";
import { inStage } from "../stage-error.ts";
import { baseMessage, firstErrors, inProgress, reason } from "../status/conditions.ts";
import { toValidateAnnotation, toValidateSummary } from "../status/results.ts";
import type { StepContext } from "./context.ts";
import { errorsOf } from "./record.ts";

export interface Validating {
  /** The hash of the rendered objects, if it is known without rendering. */
  readonly objectsHash: string | undefined;
  /** What this reconciliation has compared or deployed just before. */
  readonly after?: Validated | undefined;
  /** What a validation finds, if that is known without one. */
  readonly known?: ValidateResult | undefined;
}

export interface Validated {
  readonly rendered: CommandResult;
  readonly deployed: boolean;
}

export function validate(context: StepContext, { objectsHash, known }: Validating): Promise<ValidateResult> {
  const { work, secrets, isWanted } = context;
  const { deployment, deps, status, log, signal } = work;
  const { clock } = deps;
  return inStage("validate", secrets, async () => {
    if (!known) status.progress(`Performing ${isWanted ? "" : "kluctl "}validate`, inProgress);
    const startedAt = clock.now();
    const result = known ?? (await context.kluctl.validate(context.run(), signal));
    const { ready, errors, warnings } = result;
    const found = { ready, errors: errors.length, warnings: warnings.length, ms: clock.now() - startedAt };
    log.info(found, known ? "validated, without asking kluctl" : "validated");
    const targetKey = isWanted
      ? context.targetKeyOf(result)
      : (status.current.targetKey ?? { clusterId: context.clusterId });
    const summary = toValidateSummary(result, context.resultContext(objectsHash, targetKey));
    // Of what the overrides render, not of the deployment.
    const isOther = isWanted && work.asked?.overridesPatch !== undefined;
    if (!isOther) status.set({ lastValidateResult: summary });
    const { document } = summary;
    context.store(summary.id, () => deps.results.storeValidate(document, toValidateAnnotation(document)));
    if (errors.length > 0) {
      const words = `${baseMessage(summary, "validate")} ${firstErrors(errorsOf(document))}`;
      deps.deployments.event(deployment, "Warning", reason.validateFailed, words);
    }
    return result;
  });
}
