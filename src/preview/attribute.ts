/**
 * Tells the changes that a pull request causes from those that the cluster needs anyway: live objects that were changed
 * by hand, and commits on the base branch that are not deployed. Pure.
 *
 * A change is not the pull request's if deploying the base would make exactly the same one. In doubt it is the pull
 * request's: a change that is wrongly attributed to its author gets read, one that is hidden does not.
 */
import { isDeepStrictEqual } from "node:util";
import { type FieldChange, refId, type ResultObject } from "../model.ts";
import { parseJson } from "../kit/json.ts";
import { isSecret } from "../redact/secrets-of.ts";
import { digestOf, isMasked, isTouched, type ReferenceDiff, type ReferenceObject } from "./reference-diff.ts";
import { textIn } from "./risks/fields.ts";

export interface DiffReferences {
  readonly base: ReferenceDiff;
  /** The commit that was deployed last; `undefined` if there is none, or it could not be compared. */
  readonly deployed: ReferenceDiff | undefined;
}

export interface Attributed {
  /** All objects of the merge, with the changes of the pull request only. */
  readonly own: readonly ResultObject[];
  /** What differs from the cluster although it was deployed. */
  readonly drifted: readonly ResultObject[];
  /** What the base branch changes, and was not deployed. */
  readonly undeployed: readonly ResultObject[];
}

export function attribute(merged: readonly ResultObject[], { base, deployed }: DiffReferences): Attributed {
  const { own, shared } = splitOff(merged, base);
  const { own: undeployed, shared: drifted } =
    deployed === undefined ? { own: shared, shared: [] } : splitOff(shared, deployed);
  return { own, drifted, undeployed: undeployed.filter(isTouched) };
}

/** Whether some of the merge's changes are not the pull request's. */
export function hasShared(merged: readonly ResultObject[], base: ReferenceDiff): boolean {
  return splitOff(merged, base).shared.length > 0;
}

/** Separates the changes that the reference makes as well. `own` has all objects, also those without a change. */
function splitOff(objects: readonly ResultObject[], reference: ReferenceDiff) {
  const shared: ResultObject[] = [];
  const own = objects.map((object) => {
    const known = isTouched(object) ? reference.objects.get(refId(object.ref)) : undefined;
    if (known === undefined || hasOtherName(object)) return object;
    const parts = split(object, known);
    if (parts.shared !== undefined) shared.push(parts.shared);
    return parts.own;
  });
  return { own, shared };
}

/** With the annotation `kluctl.io/diff-name`, several objects may share one result. */
function hasOtherName({ ref, rendered }: ResultObject): boolean {
  if (rendered === undefined) return false;
  const name = textIn(parseJson(rendered), "metadata", "name");
  return rendered.includes("kluctl.io/diff-name") || (name !== "" && name !== ref.name);
}

interface Parts {
  /** Untouched if all changes are shared. */
  readonly own: ResultObject;
  readonly shared?: ResultObject;
}

function split(object: ResultObject, known: ReferenceObject): Parts {
  const byPath = Map.groupBy(known.changes, ({ jsonPath }) => jsonPath);
  if (isWholeShared(object, known, byPath)) {
    return { own: { ...object, changes: [], new: false, orphan: false, deleted: false }, shared: object };
  }
  // kluctl shows the changes of Secrets without their values.
  if (object.changes.length === 0 || isSecret(object.ref)) return { own: object };
  const isShared = (change: FieldChange) =>
    byPath.get(change.jsonPath)?.some((other) => isSame(change, other)) === true;
  const { shared = [], own: changes = [] } = Object.groupBy(object.changes, (change) =>
    isShared(change) ? "shared" : "own",
  );
  if (shared.length === 0) return { own: object };
  // In between is the object as it would be if only the base were deployed.
  const between = known.applied;
  return {
    own: { ...object, changes, ...(between !== undefined && { remote: between }) },
    shared: { ...object, changes: shared, ...(between !== undefined && { applied: between }) },
  };
}

function isWholeShared(
  object: ResultObject,
  known: ReferenceObject,
  byPath: ReadonlyMap<string, readonly FieldChange[]>,
): boolean {
  // With forceReplaceOnError, a changed object is deleted as well.
  if (object.orphan !== known.orphan || object.deleted !== known.deleted) return false;
  if (object.rendered === undefined && known.rendered === undefined) return object.orphan || object.deleted;
  const rendered = digestOf(object.rendered);
  if (rendered === undefined || rendered !== known.rendered || object.new !== known.new) return false;
  return object.changes.every(({ jsonPath }) => byPath.has(jsonPath));
}

function isSame(one: FieldChange, other: FieldChange): boolean {
  return (
    one.type === other.type &&
    isDeepStrictEqual(one.newValue, other.newValue) &&
    isDeepStrictEqual(one.oldValue, other.oldValue) &&
    !isMasked(JSON.stringify(one.newValue))
  );
}
