/** The status of `flux.kluctl.io/v1alpha1` as that of the newer API, and back. Pure. */
import { parse, stringify } from "yaml";
import { z } from "zod";
import type { GitRef } from "../../model.ts";
import type { Fields } from "./resource.ts";

const record = z.record(z.string(), z.unknown());
const optionalText = z.string().optional().catch(undefined);

/** What the last deploy, prune or validation came to; `rawResult` is YAML. */
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

/** To be parsed as any status of the newer API. */
export function toNewerStatus(status: LegacyStatus): Fields {
  const { conditions, lastDeployResult: deploy, lastValidateResult: validate, discriminator } = status;
  const ready = conditions.map((condition) => Ready.safeParse(condition).data).find((found) => found !== undefined);
  const deployed = deploy && toSummary(deploy);
  return {
    observedGeneration: status.observedGeneration,
    conditions,
    observedCommit: commitOf(status.lastAttemptedRevision),
    lastObjectsHash: deploy?.objectsHash,
    lastPrepareError: ready?.reason === "PrepareFailed" ? ready.message : undefined,
    targetKey: discriminator && (deployed?.["targetKey"] ?? { clusterId: "", discriminator }),
    lastDeployResult: deployed && {
      ...deployed,
      commandInfo: { command: "deploy", ...record.safeParse(deployed["commandInfo"]).data, endTime: deploy.time },
      gitInfo: { ...record.safeParse(deployed["gitInfo"]).data, commit: commitOf(deploy.revision) },
    },
    lastValidateResult: validate && { ...toSummary(validate), endTime: validate.time },
  };
}

/** Ours is a summary of the newer API; the older controller's has at least its errors in common with that. */
function toSummary({ time, rawResult, error, objectsHash }: NonNullable<LegacyStatus["lastDeployResult"]>): Fields {
  const raw = readYaml(rawResult);
  const listed = Array.isArray(raw["errors"]) ? raw["errors"].length : Number(raw["errors"] ?? 0);
  const failed = listed === 0 && (Boolean(error) || raw["ready"] === false);
  return { id: `${time} ${objectsHash ?? ""}`, ...raw, ...(failed && { errors: 1 }) };
}

function readYaml(text: string | undefined): Fields {
  if (text === undefined) return {};
  try {
    return record.safeParse(parse(text)).data ?? {};
  } catch {
    return {}; // what somebody else wrote and we cannot read counts as absent, as everything in a status
  }
}

/** The end of `refs/heads/main/<commit>`, and of what Flux writes: `main/<commit>`, `main@sha1:<commit>`. */
function commitOf(revision: string | undefined): string | undefined {
  return /(?:^|[/:])([0-9a-f]{40}|[0-9a-f]{64})$/.exec(revision ?? "")?.[1];
}

/** What of the spec the older status repeats. */
export interface StatusContext {
  readonly ref: GitRef;
  readonly target?: string | undefined;
  readonly targetNameOverride?: string | undefined;
  readonly prune: boolean;
  readonly validate: boolean;
}

/**
 * A merge patch of the older status that says what one of the newer status says.
 *
 * @param after the newer status with that patch applied: what the patch leaves out may matter to what it names.
 */
export function toLegacyPatch(patch: Fields, after: Fields, context: StatusContext): Fields {
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

function toDeployResults(patch: Fields, after: Fields, context: StatusContext): Fields {
  const result = after["lastDeployResult"];
  if (result === undefined) return { lastDeployResult: null, lastPruneResult: null };
  const document = recordOf(result);
  // The hash of what was deployed last: without one, nobody knows what that is, and it is deployed again.
  const objectsHash = after["lastObjectsHash"] === undefined ? null : textOf(document["renderedObjectsHash"]);
  if (!("lastDeployResult" in patch)) return objectsHash === undefined ? {} : { lastDeployResult: { objectsHash } };
  const commit = textOf(recordOf(document["gitInfo"])["commit"]);
  const base = resultBase(textOf(recordOf(document["commandInfo"])["endTime"]), commit, objectsHash, context);
  return {
    lastDeployResult: { ...base, rawResult: stringify(document), error: errorOf("deploy", document) },
    // Deploying and pruning are one command now.
    lastPruneResult: context.prune ? { ...base, rawResult: null, error: null } : null,
  };
}

function toValidateResult(after: Fields, context: StatusContext): unknown {
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
): Fields {
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

/** Ready in the older words: `deploy: ok, prune: ok, validate: ok`; and what failed to be prepared, in full. */
function toLegacyConditions(after: Fields, context: StatusContext): unknown {
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

function resultWords(after: Fields, { prune, validate }: StatusContext): string {
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

function errorOf(command: string, document: Fields): string {
  const errors = errorCount(document);
  return errors === 0 ? "" : `${command} failed with ${errors} errors`;
}

function errorCount({ errors }: Fields): number {
  return Array.isArray(errors) ? errors.length : Number(errors ?? 0);
}

function shorten(text: string): string {
  return text.length <= 20_000 ? text : `${text.slice(0, 20_000)}...`;
}

function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function recordOf(value: unknown): Fields {
  return isRecord(value) ? value : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
