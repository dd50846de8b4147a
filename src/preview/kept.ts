/**
 * What a deploy of the base would do and a deploy of the merge does not, so that the cluster stays as it is: a pull
 * request that takes over a change made by hand, or that reverts a commit before it was deployed. Pure.
 */
import { type CommandResult, type FieldChange, refId, type ResultObject } from "../model.ts";
import { digestOf, isTouched, liveOf, type ReferenceDiff, type ReferenceObject } from "./reference-diff.ts";

/**
 * In the form of what the base would do to each object, without values. In doubt an object is left out: the merge's
 * own result says nothing about one that the API server refused.
 */
export function findKept({ objects, errors }: CommandResult, base: ReferenceDiff): ResultObject[] {
  const merged = new Map(objects.map((object) => [refId(object.ref), object]));
  const refused = new Set(errors.map(({ ref }) => refId(ref)));
  return [...base.objects].flatMap(([id, known]) => {
    if (!isTouched(known) || known.hook || refused.has(id) || base.errors.size > 0) return [];
    const object = merged.get(id);
    const changes = object === undefined ? known.changes : known.changes.filter((change) => isMissing(change, object));
    if (!(object === undefined ? known.new : isKept(object, known, changes))) return [];
    return [toKept(known, changes)];
  });
}

function isKept(object: ResultObject, known: ReferenceObject, changes: readonly FieldChange[]): boolean {
  if (known.live !== liveOf(object) || object.deleted !== known.deleted) return false;
  // Rendered alike and yet not changed alike: not by the merge.
  if (digestOf(object.rendered) === known.rendered) return false;
  if (known.orphan) return !object.orphan;
  return changes.length > 0 && !object.new && !object.orphan;
}

/** Whether the merge changes neither this field, nor one below or above it. */
function isMissing({ jsonPath }: FieldChange, { changes }: ResultObject): boolean {
  return changes.every((own) => !own.jsonPath.startsWith(jsonPath) && !jsonPath.startsWith(own.jsonPath));
}

function toKept({ ref, new: isNew, orphan, deleted }: ReferenceObject, changes: readonly FieldChange[]): ResultObject {
  return { ref, changes, new: isNew, orphan, deleted, hook: false };
}
