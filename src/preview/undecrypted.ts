/**
 * What a merge changes if nothing was decrypted. Placeholders differ from everything in the cluster, so the merge is
 * compared with the render of the base, with the same placeholders. What is equal in both is not a change.
 * Where both differ from the cluster, the cluster's value is never shown, because it may have been decrypted. Pure.
 */
import { type FieldChange, type CommandResult, refId, type ResultObject } from "../model.ts";
import { isSecret } from "../redact/secrets-of.ts";
import { mask } from "../redact/shapes.ts";

export interface Undecrypted {
  /** The diff of the base; `undefined` if it could not be compared. */
  readonly reference: CommandResult | undefined;
}

/** Shorter values would match everywhere. */
const shortestValue = 6;

export function withoutEncrypted(objects: readonly ResultObject[], { reference }: Undecrypted): ResultObject[] {
  const base = new Map(reference?.objects.map((object) => [refId(object.ref), object]));
  return objects.map((object) => compareWith(object, base.get(refId(object.ref))));
}

/**
 * The values in the cluster that may have been decrypted, to be hidden everywhere. Those of Secrets are known anyway.
 */
export function valuesToHide({ reference }: Undecrypted): string[] {
  const changes = reference?.objects.filter(({ ref }) => !isSecret(ref)).flatMap((object) => object.changes) ?? [];
  return changes.flatMap(({ oldValue }) => textsIn(oldValue)).filter((text) => text.length >= shortestValue);
}

function compareWith(object: ResultObject, base: ResultObject | undefined): ResultObject {
  if (base !== undefined && isSameEnd(object, base)) return { ...object, new: false, orphan: false, deleted: false };
  if (object.changes.length === 0) return object;
  if (base?.rendered === undefined || object.rendered === undefined) {
    const changes = object.changes.map(hideOld);
    return isSecret(object.ref)
      ? { ...object, changes }
      : { ...object, changes, remote: undefined, applied: undefined };
  }
  if (base.rendered === object.rendered) return { ...object, changes: [] };
  // Changed keys of a Secret and risks are found by comparing the whole contents.
  const compared = { ...object, remote: base.rendered, applied: object.rendered };
  if (isSecret(object.ref)) return compared;
  return { ...compared, changes: object.changes.flatMap((change) => compareChange(change, base.changes)) };
}

/** Whether a deploy of the base would create the same object, or delete it as well. */
function isSameEnd(object: ResultObject, base: ResultObject): boolean {
  if (object.new) return base.new && object.rendered !== undefined && object.rendered === base.rendered;
  const isGone = object.orphan || object.deleted;
  return isGone && object.rendered === undefined && object.orphan === base.orphan && object.deleted === base.deleted;
}

function compareChange(change: FieldChange, base: readonly FieldChange[]): FieldChange[] {
  const same = base.find(({ jsonPath }) => jsonPath === change.jsonPath);
  if (same !== undefined) return compareValues(change, same);
  const touched = base.some(({ jsonPath }) => isBelow(jsonPath, change.jsonPath) || isBelow(change.jsonPath, jsonPath));
  // If untouched, the cluster's value equals what the base renders without decryption.
  return [touched ? hideOld(change) : change];
}

/** Describes the change from the base's value to the merge's, without the cluster's value. */
function compareValues({ jsonPath, type, newValue }: FieldChange, base: FieldChange): FieldChange[] {
  if (type === "delete" && base.type === "delete") return [];
  if (base.type === "delete") return [{ type: "insert", jsonPath, newValue }];
  if (type === "delete") return [{ type, jsonPath, oldValue: base.newValue }];
  const isEqual = JSON.stringify(newValue) === JSON.stringify(base.newValue);
  return isEqual ? [] : [{ type: "update", jsonPath, oldValue: base.newValue, newValue }];
}

function hideOld({ type, jsonPath, newValue }: FieldChange): FieldChange {
  return { type, jsonPath, ...(type !== "insert" && { oldValue: mask }), ...(type !== "delete" && { newValue }) };
}

function isBelow(path: string, other: string): boolean {
  return path.startsWith(other) && /^[.[]/.test(path.slice(other.length));
}

function textsIn(value: unknown): string[] {
  if (typeof value === "string" || typeof value === "number") return [String(value)];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
