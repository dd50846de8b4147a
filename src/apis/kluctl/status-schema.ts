/**
 * The status of a KluctlDeployment. Other programs wrote it, perhaps long ago: what cannot be parsed counts as absent.
 */
import { z } from "zod";
import type { DeploymentStatus } from "../../model.ts";

const optionalText = z.string().optional().catch(undefined);
const document = z.record(z.string(), z.unknown());
const count = z.number().catch(0);
/** Summaries contain either the errors or their number. */
const countOrList = z.union([z.number(), z.array(z.unknown()).transform((list) => list.length)]).catch(0);

const Condition = z.object({
  type: z.string(),
  status: z.enum(["True", "False", "Unknown"]),
  reason: z.string().catch(""),
  message: z.string().catch(""),
  lastTransitionTime: z.string().catch(""),
  observedGeneration: z.number().optional().catch(undefined),
});

const CommandSummaryFields = z.object({
  id: z.string(),
  commandInfo: z.object({ endTime: z.string() }),
  errors: countOrList,
  warnings: countOrList,
  newObjects: count,
  changedObjects: count,
  appliedHookObjects: count,
  deletedObjects: count,
  orphanObjects: count,
});
const CommandSummary = document.transform((whole, context) => {
  const { data } = CommandSummaryFields.safeParse(whole);
  if (data === undefined) return fail(context);
  const { commandInfo, ...summary } = data;
  return { document: whole, endTime: commandInfo.endTime, ...summary };
});

const ValidateSummaryFields = z.object({
  id: z.string(),
  endTime: z.string(),
  errors: countOrList,
  warnings: countOrList,
});
const ValidateSummary = document.transform((whole, context) => {
  const { data } = ValidateSummaryFields.safeParse(whole);
  return data === undefined ? fail(context) : { document: whole, ...data };
});

const DriftSummaryFields = z.object({ endTime: z.string() });
const DriftSummary = document.transform((whole, context) => {
  const { data } = DriftSummaryFields.safeParse(whole);
  return data === undefined ? fail(context) : { document: whole, ...data };
});

const ManualResult = z
  .object({
    request: z.object({ requestValue: z.string(), overridesPatch: document.optional().catch(undefined) }),
    startTime: z.string().catch(""),
    endTime: optionalText,
    reconcileId: z.string().catch(""),
    resultId: optionalText,
    commandError: optionalText,
  })
  .optional()
  .catch(undefined);

const Status = z.object({
  observedGeneration: z.number().optional().catch(undefined),
  observedCommit: optionalText,
  conditions: z
    .array(z.unknown())
    .transform((list) => list.flatMap((item) => Condition.safeParse(item).data ?? []))
    .catch([]),
  projectKey: z.object({ repoKey: optionalText, subDir: optionalText }).optional().catch(undefined),
  targetKey: z
    .object({ targetName: optionalText, clusterId: z.string(), discriminator: optionalText })
    .optional()
    .catch(undefined),
  lastObjectsHash: optionalText,
  lastManualObjectsHash: optionalText,
  lastPrepareError: optionalText,
  lastDeployResult: CommandSummary.optional().catch(undefined),
  lastDiffResult: CommandSummary.optional().catch(undefined),
  lastValidateResult: ValidateSummary.optional().catch(undefined),
  lastDriftDetectionResult: DriftSummary.optional().catch(undefined),
  lastDriftDetectionResultMessage: optionalText,
  reconcileRequestResult: ManualResult,
  diffRequestResult: ManualResult,
  deployRequestResult: ManualResult,
  pruneRequestResult: ManualResult,
  validateRequestResult: ManualResult,
});

export function parseStatus(status: unknown): DeploymentStatus {
  return Status.safeParse(status).data ?? { conditions: [] };
}

function fail(context: z.RefinementCtx): never {
  context.addIssue("cannot be read");
  return z.NEVER;
}
