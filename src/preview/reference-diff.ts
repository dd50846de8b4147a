/**
 * The diff of a commit other than the merge, reduced to what the merge's changes are compared with. It is kept in memory
 * and shared by all pull requests into a branch, so it is small. Pure.
 */
import { hash } from "node:crypto";
import { parseJson } from "../kit/json.ts";
import { inputsOf } from "../model/project-inputs.ts";
import { type CommandResult, type FieldChange, refId, type ResultError, type ResultObject } from "../model.ts";
import { isSecret } from "../redact/secrets-of.ts";

export interface ReferenceDiff {
  /** Objects by id, see {@link refId}. */
  readonly objects: ReadonlyMap<string, ReferenceObject>;
  /** Each with its object and message. */
  readonly errors: ReadonlySet<string>;
  /** Of all rendered objects, see CommandResult. */
  readonly objectsHash: string;
  /** Whether masks may be part of what was rendered: the hash is then another one than that of a deploy. */
  readonly isMasked: boolean;
  /** Approximate size in characters. */
  readonly size: number;
}

export interface ReferenceObject extends Pick<ResultObject, "ref" | "changes" | "new" | "orphan" | "deleted" | "hook"> {
  /** Digest of the rendered object; `undefined`: it is not rendered, or could differ from run to run. */
  readonly rendered: string | undefined;
  /** The version of the live object that was compared. */
  readonly live: string;
  /** What the API server would make of a changed object. Not kept for Secrets, whose values are not comparable. */
  readonly applied: string | undefined;
}

export function toReferenceDiff(result: CommandResult): ReferenceDiff {
  const { objects, errors, objectsHash } = result;
  const kept = objects.map((object) => [refId(object.ref), toReferenceObject(object)] as const);
  const said = errors.map(errorId);
  const size =
    kept.reduce((sum, [id, object]) => sum + id.length + sizeOf(object), 0) +
    said.reduce((sum, { length }) => sum + length, 0);
  return { objects: new Map(kept), errors: new Set(said), objectsHash, isMasked: mayBeMasked(result), size };
}

/** A template may change a mask beyond recognition, but only where variables come from Secrets. */
function mayBeMasked({ objects, maskedValues = [], document }: CommandResult): boolean {
  if (objects.some(({ rendered }) => isMasked(rendered))) return true;
  return maskedValues.length > 0 && inputsOf(document).reason !== undefined;
}

function toReferenceObject(object: ResultObject): ReferenceObject {
  const { ref, changes, new: isNew, orphan, deleted, hook, rendered, applied } = object;
  const isKept = changes.length > 0 && !isSecret(ref) && !isMasked(applied);
  return {
    ref,
    // kluctl adds a text diff, which is larger than the values.
    changes: changes.map(({ unifiedDiff: _, ...change }): FieldChange => change),
    new: isNew,
    orphan,
    deleted,
    hook,
    rendered: digestOf(rendered),
    live: liveOf(object),
    applied: isKept ? applied : undefined,
  };
}

function sizeOf({ changes, applied = "" }: ReferenceObject): number {
  return 200 + applied.length + (changes.length > 0 ? JSON.stringify(changes).length : 0);
}

/** `undefined` if the object contains masks, which are different in each run for the same value. */
export function digestOf(rendered: string | undefined): string | undefined {
  return rendered === undefined || isMasked(rendered) ? undefined : hash("sha256", rendered);
}

/** Whether a text contains what previews see instead of the values of Secrets. */
export function isMasked(text: string | undefined): boolean {
  return text !== undefined && /masked-[0-9a-f]{44}/.test(text);
}

export function errorId({ ref, message }: ResultError): string {
  return JSON.stringify([refId(ref), message]);
}

/** Whether a merge does anything to the object. */
export function isTouched({
  changes,
  new: isNew,
  orphan,
  deleted,
}: Pick<ResultObject, "changes" | "new" | "orphan" | "deleted">): boolean {
  return changes.length > 0 || isNew || orphan || deleted;
}

/** Whether the live objects that either of them touches are still those that the reference was compared with. */
export function isCurrent({ objects }: ReferenceDiff, merged: readonly ResultObject[]): boolean {
  return merged.every((object) => {
    const known = objects.get(refId(object.ref));
    if (!isTouched(object) && (known === undefined || !isTouched(known))) return true;
    // An object that the reference neither renders nor finds is new in the merge, or in the cluster.
    return known === undefined ? !object.orphan && !object.deleted : known.live === liveOf(object);
  });
}

/** Identifies the live object with its status: if only that differs, the reference is compared once more, which does no harm. */
export function liveOf({ ref, remote }: ResultObject): string {
  if (remote === undefined) return "absent";
  if (!isSecret(ref)) return hash("sha256", remote);
  const { metadata } = (parseJson(remote) ?? {}) as { metadata?: { resourceVersion?: unknown } };
  return typeof metadata?.resourceVersion === "string" ? metadata.resourceVersion : hash("sha256", remote);
}
