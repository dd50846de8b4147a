/**
 * Converts kluctl's results to the formats that other kluctl tools read. They parse strictly: no field may be added.
 * Pure.
 */
import {
  type CommandResult,
  type CommandSummary,
  describeObject,
  type DriftSummary,
  type DeploymentSpec,
  type GitRef,
  type GitSource,
  type Key,
  type ProjectKey,
  type ResultError,
  type ResultObject,
  type TargetKey,
  type ValidateResult,
  type ValidateSummary,
} from "../../model.ts";
import type { MaskedResult } from "../../redact/mask-result.ts";

/** What the controller knows about a result but kluctl's command line does not. */
export interface ResultContext {
  readonly id: string;
  readonly reconcileId: string;
  readonly deployment: Key;
  /** UID of kube-system in the cluster where the KluctlDeployment lives. */
  readonly clusterId: string;
  readonly projectKey: ProjectKey;
  readonly targetKey: TargetKey;
  /** Unknown if the rendered objects are not known. */
  readonly objectsHash: string | undefined;
  readonly source: DeploymentSpec["source"];
  /** The ref that the artifact says it was built from. */
  readonly madeFrom?: GitRef | undefined;
  /** The source came from a user's own machine, so there is no known commit. */
  readonly workingCopy?: boolean | undefined;
  readonly overridesPatch?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * A status that exceeds etcd's 1.5 MB could not be written, and the work would be repeated endlessly. A larger drift
 * first loses the text of its changes, then objects; a list of errors is truncated.
 */
const maxDriftBytes = 400_000;
const maxErrorsBytes = 50_000;
const maxErrorLength = 2_000;

/** The complete stored document: kluctl's own, completed as its controller would. */
export function toStoredDocument(result: CommandResult, context: ResultContext): Record<string, unknown> {
  const { document } = result;
  return {
    ...document,
    ...identityOf(context),
    ...(context.overridesPatch && { overridesPatch: context.overridesPatch }),
    command: { ...commandOf(document), initiator: "KluctlDeployment" },
    gitInfo: gitInfoOf(context, document),
  };
}

/**
 * Sets whether a result was a dry run. Diffs and searches for orphans always run as dry runs; the result has to say
 * whether the deployment itself is one.
 */
export function withDryRun<Result extends CommandResult>(result: Result, dryRun: boolean): Result {
  const { dryRun: _, ...command } = record(result.document["command"]);
  return { ...result, document: { ...result.document, command: { ...command, ...(dryRun && { dryRun }) } } };
}

/** Adds errors of ours to kluctl's result. */
export function withErrors(result: CommandResult, more: readonly ResultError[]): CommandResult {
  const errors = [...result.errors, ...more];
  return { ...result, errors, document: { ...result.document, errors } };
}

/** The part of a result that is kept in the status. */
export function toCommandSummary(result: MaskedResult, context: ResultContext): CommandSummary {
  const stored = toStoredDocument(result, context);
  const { objects, errors, warnings } = result;
  const count = (is: (object: ResultObject) => boolean) => objects.filter(is).length;
  const counts = {
    renderedObjects: count((o) => o.rendered !== undefined),
    remoteObjects: count((o) => o.remote !== undefined),
    appliedObjects: count((o) => o.applied !== undefined),
    appliedHookObjects: count((o) => o.hook),
    newObjects: count((o) => o.new),
    changedObjects: count((o) => o.changes.length > 0),
    orphanObjects: count((o) => o.orphan),
    deletedObjects: count((o) => o.deleted),
  };
  const document = {
    ...identityOf(context),
    target: stored["target"] ?? {},
    commandInfo: stored["command"],
    gitInfo: stored["gitInfo"],
    clusterInfo: stored["clusterInfo"] ?? { clusterId: context.targetKey.clusterId },
    ...counts,
    errors: fitErrors(errors),
    warnings: fitErrors(warnings),
    totalChanges: objects.reduce((sum, { changes }) => sum + changes.length, 0),
  };
  const endTime = endTimeOf(stored["command"]);
  return { document, id: context.id, endTime, errors: errors.length, warnings: warnings.length, ...counts };
}

/** The differences between git and the cluster. */
export function toDrift(result: MaskedResult, context: ResultContext): { summary: DriftSummary; message: string } {
  const { objects, errors, warnings } = result;
  const command = record(result.document["command"]);
  const drifted = objects.filter(isOther);
  const document = {
    ...identityOf(context),
    startTime: command["startTime"],
    endTime: command["endTime"],
    ...(warnings.length > 0 && { warnings: fitErrors(warnings) }),
    ...(errors.length > 0 && { errors: fitErrors(errors) }),
    ...(drifted.length > 0 && { objects: fit(drifted.map(toDriftedObject)) }),
  };
  return {
    summary: { document, endTime: endTimeOf(command) },
    message: driftMessage(drifted, errors.length, warnings.length),
  };
}

/** Whether kluctl found or made any difference between the project and the cluster. */
export function differs({ objects }: Pick<CommandResult, "objects">): boolean {
  return objects.some(isOther);
}

function isOther(object: ResultObject): boolean {
  return object.new || object.orphan || object.deleted || object.changes.length > 0;
}

/**
 * What still differs right after a deploy: applied objects now match git, so only orphans that were not pruned and
 * failed objects remain. A dry run changed nothing, so everything remains.
 */
export function afterDeploy(result: MaskedResult, dryRun: boolean): MaskedResult {
  if (dryRun) return result;
  const failed = new Set(result.errors.map(({ ref }) => refText(ref)));
  const remaining = result.objects.filter(
    (object) => (object.orphan && !object.deleted) || failed.has(refText(object.ref)),
  );
  return { ...result, objects: remaining };
}

/** `no drift`, or counts such as `1 new/2 chg/1 orp`. */
function driftMessage(objects: readonly ResultObject[], errors: number, warnings: number): string {
  if (objects.length === 0) return "no drift";
  const counts: [string, number][] = [
    ["new", objects.filter((o) => o.new).length],
    ["chg", objects.filter((o) => o.changes.length > 0).length],
    ["orp", objects.filter((o) => o.orphan).length],
    ["del", objects.filter((o) => o.deleted).length],
    ["err", errors],
    ["wrn", warnings],
  ];
  const parts = counts.filter(([, count]) => count > 0).map(([what, count]) => `${count} ${what}`);
  return parts.join("/");
}

/** A validation, as stored and as kept in the status: the same document. */
export function toValidateSummary(result: ValidateResult, context: ResultContext): ValidateSummary {
  const { errors, warnings } = result;
  const document = {
    ...result.document,
    ...(errors.length > 0 && { errors: fitErrors(errors) }),
    ...(warnings.length > 0 && { warnings: fitErrors(warnings) }),
    ...identityOf(context),
    ...(context.overridesPatch && { overridesPatch: context.overridesPatch }),
  };
  return {
    document,
    id: context.id,
    endTime: String(result.document["endTime"] ?? ""),
    errors: errors.length,
    warnings: warnings.length,
  };
}

/** The annotation of a stored validation: the document with counts instead of lists. */
export function toValidateAnnotation(document: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { overridesPatch: _, warnings, errors, results, ...rest } = document;
  return { ...rest, warnings: lengthOf(warnings), errors: lengthOf(errors), results: lengthOf(results) };
}

function identityOf(context: ResultContext) {
  return {
    id: context.id,
    reconcileId: context.reconcileId,
    projectKey: context.projectKey,
    targetKey: context.targetKey,
    kluctlDeployment: { ...context.deployment, clusterId: context.clusterId },
    ...(context.objectsHash && { renderedObjectsHash: context.objectsHash }),
  };
}

function toDriftedObject(object: ResultObject) {
  return { ...describeObject(object), lastResourceVersion: resourceVersionOf(object.applied ?? object.remote) };
}

function fit(objects: readonly { readonly changes?: unknown }[]): readonly unknown[] {
  if (bytesOf(objects) <= maxDriftBytes) return objects;
  const short = objects.map((object) =>
    object.changes === undefined
      ? object
      : { ...object, changes: [{ type: "update", jsonPath: "(too many changes to list here)" }] },
  );
  return short.slice(0, countThatFits(short, maxDriftBytes));
}

function fitErrors(errors: readonly ResultError[]): readonly ResultError[] {
  const short = errors.map(({ ref, message }) => ({
    ref,
    message: message.length > maxErrorLength ? `${message.slice(0, maxErrorLength)}…` : message,
  }));
  const count = countThatFits(short, maxErrorsBytes);
  if (count === short.length) return short;
  return [...short.slice(0, count), { ref: { kind: "", name: "" }, message: `and ${short.length - count} more` }];
}

function countThatFits(items: readonly unknown[], maxBytes: number): number {
  let bytes = 0;
  const tooMany = items.findIndex((item) => (bytes += bytesOf(item) + 1) > maxBytes);
  return tooMany === -1 ? items.length : tooMany;
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

function resourceVersionOf(json: string | undefined): string {
  if (json === undefined) return "";
  const { metadata } = JSON.parse(json) as { metadata?: { resourceVersion?: string } };
  return metadata?.resourceVersion ?? "";
}

/**
 * The directory around an unpacked artifact is no repository, even if kluctl takes it for one; its controller reports
 * the same.
 */
function gitInfoOf(
  { source, madeFrom, workingCopy }: ResultContext,
  document: Readonly<Record<string, unknown>>,
): unknown {
  if (source.kind === "oci" || workingCopy)
    return { url: null, ref: madeFrom ?? null, subDir: "", commit: "", dirty: false };
  return { ...record(document["gitInfo"]), ref: refOf(source, document) };
}

/** The command line runs on a detached HEAD and cannot know which ref is followed. */
function refOf(source: GitSource, document: Readonly<Record<string, unknown>>): unknown {
  const { branch, tag, commit } = source.ref;
  if (branch !== undefined) return { branch };
  if (tag !== undefined) return { tag };
  if (commit !== undefined) return { commit };
  return record(document["gitInfo"])["ref"] ?? null;
}

function refText(ref: ResultObject["ref"]): string {
  return [ref.group ?? "", ref.kind, ref.namespace ?? "", ref.name].join("/");
}

function endTimeOf(command: unknown): string {
  return String(record(command)["endTime"] ?? "");
}

/** The command line writes empty arguments; kluctl's controller omits them. */
function commandOf({ command }: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { args, ...rest } = record(command);
  return Object.keys(record(args)).length === 0 ? rest : { args, ...rest };
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function lengthOf(list: unknown): number {
  return Array.isArray(list) ? list.length : 0;
}
