/** One object that differs between the base and the merge: what Flux would do to it in the live cluster. */
import { field, type JsonObject } from "../../kit/json.ts";
import type { ObjectRef, ResultError, ResultObject } from "../../model.ts";
import type { DryRun, PreviewCluster, RefusedApply } from "../../ports/preview-cluster.ts";
import { changesBetween } from "../render-diff.ts";
import { refusesChange } from "../risks/refused.ts";
import { toApply, withoutServerFields } from "./manifests.ts";

/** The controller of Flux that applies the objects. */
export interface Applier {
  /** The name under which it writes objects. */
  readonly fieldManager: string;
  /** Whether it does not apply the object, so that it stays as it is. */
  readonly leavesAlone: (desired: JsonObject, live: JsonObject | undefined) => boolean;
  /** Whether it deletes an object that cannot be changed, and creates it again. */
  readonly replaces: (desired: JsonObject, live: JsonObject | undefined) => boolean;
  /** Whether it deletes the live object when it is no longer rendered. */
  readonly deletes: (live: JsonObject) => boolean;
}

export interface ObjectPair {
  readonly ref: ObjectRef;
  /** As the base renders it. */
  readonly base?: JsonObject | undefined;
  /** As the merge renders it. */
  readonly merged: JsonObject;
}

export interface ObjectSurroundings {
  readonly cluster: Pick<PreviewCluster, "find" | "dryRun">;
  readonly applier: Applier;
  /** `group/kind` of the definitions, and the namespaces, that the merge renders. */
  readonly defined: ReadonlySet<string>;
  readonly namespaces: ReadonlySet<string>;
  /** What may be shown of a rendered object. */
  readonly shown: (object: JsonObject) => JsonObject;
  /**
   * Whether the live object may contain values that nobody here knows to be secret: nothing of it is shown then, and the
   * renders are compared with each other.
   */
  readonly isLiveHidden: (pair: ObjectPair, live: JsonObject | undefined) => boolean;
  /** Why nothing of this live object is shown, if that is not so for the same reason as of all others. */
  readonly whyLiveHidden?: ((object: JsonObject, live: JsonObject | undefined) => string | undefined) | undefined;
  /** Whether the object cannot be sent to the API server as it is rendered. */
  readonly isIncomplete: (object: JsonObject) => boolean;
  readonly signal: AbortSignal;
}

export interface ComparedObject {
  /** Absent if Flux leaves the object alone. */
  readonly merged?: ResultObject | undefined;
  readonly base?: ResultObject | undefined;
  readonly errors: readonly ResultError[];
  readonly baseErrors: readonly ResultError[];
  /** Why the API server was not asked about it. */
  readonly unvalidated?: "incomplete" | "defined by the merge" | undefined;
  /** The live object is not shown: the renders are compared with each other. */
  readonly isBaseOnly?: boolean | undefined;
  readonly whyBaseOnly?: string | undefined;
  readonly isReplaced?: boolean | undefined;
}

const none = { errors: [], baseErrors: [] } as const;
const untouched = { changes: [], new: false, orphan: false, deleted: false, hook: false } as const;

/** Throws ApiError. */
export async function compareObject(pair: ObjectPair, around: ObjectSurroundings): Promise<ComparedObject> {
  const { ref, base, merged } = pair;
  const { cluster, applier, shown, signal } = around;
  const found = await cluster.find(merged, signal);
  if ("problem" in found) {
    if (found.problem === "unserved" && around.defined.has(`${ref.group ?? ""}/${ref.kind}`)) return asNew(pair, shown);
    const message = {
      unserved: `no matches for kind "${ref.kind}" in version "${String(merged["apiVersion"])}"`,
      unplaced: "namespace not specified",
      unnamed: "the name or the namespace is not valid: it cannot be part of a path of the Kubernetes API",
    }[found.problem];
    const isSame = base !== undefined && base["apiVersion"] === merged["apiVersion"];
    return { errors: [{ ref, message }], baseErrors: isSame ? [{ ref, message }] : [] };
  }
  const { live } = found;
  if (applier.leavesAlone(merged, live)) return none;
  if (around.isLiveHidden(pair, live)) return compareRenders(pair, live, around);
  const [after, before] = await Promise.all([
    cluster.dryRun(toApply(merged), applier.fieldManager, signal),
    base === undefined ? undefined : cluster.dryRun(toApply(base), applier.fieldManager, signal),
  ]);
  if ("refusal" in after && isInNewNamespace(pair, after.refusal, around)) return asNew(pair, shown);
  const baseResult = before && base && toResult(ref, base, live, before);
  return {
    ...describe(pair, live, after, around),
    ...(baseResult && { base: baseResult }),
    baseErrors: before && "refusal" in before ? [toError(ref, before.refusal)] : [],
  };
}

function describe(
  { ref, merged }: ObjectPair,
  live: JsonObject | undefined,
  after: DryRun,
  { applier }: ObjectSurroundings,
): Pick<ComparedObject, "merged" | "errors" | "isReplaced"> {
  const result = toResult(ref, merged, live, after);
  if ("applied" in after) return { merged: result, errors: [] };
  const error = toError(ref, after.refusal);
  if (applier.replaces(merged, live) && isImmutable(after.refusal))
    return { merged: { ...result, deleted: true }, errors: [], isReplaced: true };
  return { merged: result, errors: [error] };
}

function toResult(ref: ObjectRef, rendered: JsonObject, live: JsonObject | undefined, dryRun: DryRun): ResultObject {
  const applied = "applied" in dryRun ? dryRun.applied : undefined;
  const changes =
    live === undefined || applied === undefined
      ? []
      : changesBetween(withoutServerFields(live), withoutServerFields(applied));
  return {
    ...untouched,
    ...{ ref, changes, new: live === undefined, rendered: JSON.stringify(rendered) },
    ...(live && { remote: JSON.stringify(live) }),
    ...(applied && { applied: JSON.stringify(applied) }),
  };
}

/** The API server may be asked whether it takes the merge's object, and nothing of its answer is shown but a refusal. */
async function compareRenders(
  { ref, base, merged }: ObjectPair,
  live: JsonObject | undefined,
  { cluster, applier, shown, isIncomplete, whyLiveHidden, signal }: ObjectSurroundings,
): Promise<ComparedObject> {
  const [before, after] = [base && shown(base), shown(merged)];
  const reference = before ?? nameOnly(merged);
  const of = (rendered: JsonObject): ResultObject => ({
    ...untouched,
    ...{ ref, changes: live === undefined ? [] : changesBetween(reference, rendered), new: live === undefined },
    ...{ rendered: JSON.stringify(rendered), remote: JSON.stringify(reference), applied: JSON.stringify(rendered) },
  });
  const why = { isBaseOnly: true, whyBaseOnly: whyLiveHidden?.(merged, live) };
  const result = { merged: of(after), ...(before && { base: of(before) }), baseErrors: [], ...why };
  if (isIncomplete(merged)) return { ...result, errors: [], unvalidated: "incomplete" };
  const dryRun = await cluster.dryRun(toApply(merged), applier.fieldManager, signal);
  // The message may quote the live object.
  const refused = "refusal" in dryRun ? [{ ref, message: hiddenMessage(dryRun.refusal) }] : [];
  return { ...result, errors: refused };
}

function nameOnly({ apiVersion, kind, metadata }: JsonObject): JsonObject {
  return { apiVersion, kind, metadata: { name: field(metadata, "name"), namespace: field(metadata, "namespace") } };
}

function asNew({ ref, merged }: ObjectPair, shown: ObjectSurroundings["shown"]): ComparedObject {
  const rendered = JSON.stringify(shown(merged));
  return { ...none, merged: { ...untouched, ref, new: true, rendered }, unvalidated: "defined by the merge" };
}

function isInNewNamespace(
  { ref, merged }: ObjectPair,
  { status, message }: RefusedApply,
  { namespaces }: ObjectSurroundings,
) {
  const namespace = ref.namespace ?? "";
  return (
    status === 404 && message.includes(`namespaces "${namespace}" not found`) && namespaces.has(namespace) && merged
  );
}

function isImmutable({ status, message }: RefusedApply): boolean {
  return status === 422 && (/immutable/i.test(message) || refusesChange({ ref: { kind: "", name: "" }, message }));
}

const reasons: Readonly<Record<number, string>> = { 403: "Forbidden", 409: "Conflict", 422: "Invalid" };

function toError(ref: ObjectRef, { status, message }: RefusedApply): ResultError {
  return { ref, message: `dry-run failed (${reasons[status] ?? status}): ${message}` };
}

function hiddenMessage({ status }: RefusedApply): string {
  return `dry-run failed (${reasons[status] ?? status}); the message is not shown, because it may quote a secret value`;
}
