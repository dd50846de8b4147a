/** Translates the status of `flux.kluctl.io/v1alpha1` to that of the current API, and back. Pure. */
import { isRecord, type JsonObject } from "../../kit/json.ts";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { commitOfRevision, type GitRef } from "../../model.ts";

const record = z.record(z.string(), z.unknown());
const optionalText = z.string().optional().catch(undefined);

/** The result of the last deploy, prune or validation; `rawResult` is YAML. */
const Result = z
  .object({
    time: z.string(),
    revision: optionalText,
    objectsHash: optionalText,
    rawResult: optionalText,
    error: optionalText,
  })
  .optional()
  .catch(undefined);

const Status = z.object({
  observedGeneration: z.number().optional().catch(undefined),
  conditions: z.array(z.unknown()).catch([]),
  lastAttemptedRevision: optionalText,
  lastDeployResult: Result,
  lastValidateResult: Result,
  discriminator: optionalText,
  lastHandledReconcileAt: optionalText,
  lastHandledDeployAt: optionalText,
  readyForMigration: z.boolean().optional().catch(undefined),
});

export type LegacyStatus = z.output<typeof Status>;

const Ready = z.object({ type: z.literal("Ready"), reason: z.string(), message: z.string() });

export function parseLegacyStatus(status: unknown): LegacyStatus {
  return Status.safeParse(status).data ?? Status.parse({});
}

/** The result can be parsed like any status of the current API. */
export function toNewerStatus(status: LegacyStatus): JsonObject {
  const { conditions, lastDeployResult: deploy, lastValidateResult: validate, discriminator } = status;
  const ready = conditions.map((condition) => Ready.safeParse(condition).data).find((found) => found !== undefined);
  const deployed = deploy && toSummary(deploy);
  return {
    observedGeneration: status.observedGeneration,
    conditions,
    observedCommit: commitOfRevision(status.lastAttemptedRevision),
    lastObjectsHash: deploy?.objectsHash,
    lastPrepareError: ready?.reason === "PrepareFailed" ? ready.message : undefined,
    targetKey: discriminator && (deployed?.["targetKey"] ?? { clusterId: "", discriminator }),
    lastDeployResult: deployed && {
      ...deployed,
      commandInfo: { command: "deploy", ...record.safeParse(deployed["commandInfo"]).data, endTime: deploy.time },
      gitInfo: { ...record.safeParse(deployed["gitInfo"]).data, commit: commitOfRevision(deploy.revision) },
    },
    lastValidateResult: validate && { ...toSummary(validate), endTime: validate.time },
  };
}

/** Our summary is the current API's; the legacy controller's summary has at least its errors in common with it. */
function toSummary({ time, rawResult, error, objectsHash }: NonNullable<LegacyStatus["lastDeployResult"]>): JsonObject {
  const raw = readYaml(rawResult);
  const listed = Array.isArray(raw["errors"]) ? raw["errors"].length : Number(raw["errors"] ?? 0);
  const failed = listed === 0 && (Boolean(error) || raw["ready"] === false);
  return { id: `${time} ${objectsHash ?? ""}`, ...raw, ...(failed && { errors: 1 }) };
}

function readYaml(text: string | undefined): JsonObject {
  if (text === undefined) return {};
  try {
    return record.safeParse(parse(text)).data ?? {};
  } catch {
    return {}; // what another program wrote and we cannot parse counts as absent, as everywhere in a status
  }
}

/** The parts of the spec that the legacy status repeats. */
export interface StatusContext {
  readonly ref: GitRef;
  readonly target?: string | undefined;
  readonly targetNameOverride?: string | undefined;
  readonly prune: boolean;
  readonly validate: boolean;
}

/**
 * Converts a patch of the current API's status to a merge patch of the legacy status.
 *
 * @param after the current API's status with that patch applied: fields that the patch omits may affect those it
 * contains.
 */
export function toLegacyPatch(patch: JsonObject, after: JsonObject, context: StatusContext): JsonObject {
  const touches = (...fields: string[]) => fields.some((field) => field in patch);
  const commit = textOf(after["observedCommit"]);
  const discriminator = textOf(recordOf(after["targetKey"])["discriminator"]);
  return {
    ...(touches("observedGeneration") && { observedGeneration: after["observedGeneration"] ?? null }),
    ...(touches("observedCommit") && { lastAttemptedRevision: revisionOf(context.ref, commit) ?? null }),
    ...(touches("targetKey") && { discriminator: discriminator ?? null }),
    ...(touches("conditions") && { conditions: toLegacyConditions(after, context) }),
    ...(touches("lastDeployResult", "lastObjectsHash") && toDeployResults(patch, after, context)),
    ...(touches("lastValidateResult") && { lastValidateResult: toValidateResult(after, context) }),
  };
}

function toDeployResults(patch: JsonObject, after: JsonObject, context: StatusContext): JsonObject {
  const result = after["lastDeployResult"];
  if (result === undefined) return { lastDeployResult: null, lastPruneResult: null };
  const document = recordOf(result);
  // The hash of what was deployed last. Without it that is unknown, and the deployment is deployed again.
  const objectsHash = after["lastObjectsHash"] === undefined ? null : textOf(document["renderedObjectsHash"]);
  if (!("lastDeployResult" in patch)) return objectsHash === undefined ? {} : { lastDeployResult: { objectsHash } };
  const commit = textOf(recordOf(document["gitInfo"])["commit"]);
  const base = resultBase(textOf(recordOf(document["commandInfo"])["endTime"]), commit, objectsHash, context);
  return {
    lastDeployResult: { ...base, rawResult: stringify(document), error: errorOf("deploy", document) },
    // Deploy and prune are one command now.
    lastPruneResult: context.prune ? { ...base, rawResult: null, error: null } : null,
  };
}

function toValidateResult(after: JsonObject, context: StatusContext): unknown {
  if (after["lastValidateResult"] === undefined) return null;
  const document = recordOf(after["lastValidateResult"]);
  const hash = textOf(document["renderedObjectsHash"]);
  const base = resultBase(textOf(document["endTime"]), textOf(after["observedCommit"]), hash, context);
  return { ...base, rawResult: stringify(document), error: errorOf("validate", document) };
}

function resultBase(
  endTime: string | undefined,
  commit: string | undefined,
  objectsHash: string | null | undefined,
  { ref, target, targetNameOverride }: StatusContext,
): JsonObject {
  const time = new Date(endTime ?? NaN);
  return {
    time: Number.isNaN(time.getTime()) ? null : time.toISOString().replace(/\.\d+Z$/, "Z"),
    revision: revisionOf(ref, commit) ?? null,
    objectsHash: objectsHash ?? null,
    target: target ?? null,
    targetNameOverride: targetNameOverride ?? null,
  };
}

/** `refs/heads/main/<commit>` */
function revisionOf({ branch, tag }: GitRef, commit: string | undefined): string | undefined {
  if (commit === undefined) return undefined;
  const name = tag !== undefined ? `refs/tags/${tag}` : branch !== undefined ? `refs/heads/${branch}` : "HEAD";
  return `${name}/${commit}`;
}

/** Ready in legacy terms: `deploy: ok, prune: ok, validate: ok`; errors of the preparation are included in full. */
function toLegacyConditions(after: JsonObject, context: StatusContext): unknown {
  const conditions = Array.isArray(after["conditions"]) ? (after["conditions"] as unknown[]) : [];
  return conditions.map((condition) => {
    const { data: ready } = Ready.safeParse(condition);
    if (ready === undefined) return condition;
    const prepareError = textOf(after["lastPrepareError"]);
    if (ready.reason === "PrepareFailed" && prepareError !== undefined) {
      return { ...recordOf(condition), message: shorten(prepareError) };
    }
    const summed = /^deploy (succeeded|failed with)\b/.test(ready.message);
    return summed ? { ...recordOf(condition), message: resultWords(after, context) } : condition;
  });
}

function resultWords(after: JsonObject, { prune, validate }: StatusContext): string {
  const [deployed, validated] = [after["lastDeployResult"], after["lastValidateResult"]].map(
    (result) => result && (errorCount(recordOf(result)) > 0 ? "failed" : "ok"),
  );
  return [
    deployed && `deploy: ${deployed}`,
    prune && deployed && `prune: ${deployed}`,
    validate && validated && `validate: ${validated}`,
  ]
    .filter(Boolean)
    .join(", ");
}

function errorOf(command: string, document: JsonObject): string {
  const errors = errorCount(document);
  return errors === 0 ? "" : `${command} failed with ${errors} errors`;
}

function errorCount({ errors }: JsonObject): number {
  return Array.isArray(errors) ? errors.length : Number(errors ?? 0);
}

function shorten(text: string): string {
  return text.length <= 20_000 ? text : `${text.slice(0, 20_000)}...`;
}

function recordOf(value: unknown): JsonObject {
  return isRecord(value) ? value : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
