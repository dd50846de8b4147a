/** The result of a prune that only pretended, as it was before: with orphans instead of deleted objects. Pure. */
import type { CommandResult, ObjectRef, ResultError } from "../model.ts";

interface CompactedObject {
  readonly ref: ObjectRef;
  readonly orphan?: boolean;
  readonly deleted?: boolean;
}

/** What it said about deleting them is left out: whoever deletes them for real will be told. */
export function toOrphans(result: CommandResult): CommandResult {
  const { document } = result;
  const objects = result.objects.map((object) =>
    object.deleted ? { ...object, deleted: false, orphan: true } : object,
  );
  const orphans = new Set(objects.filter(({ orphan }) => orphan).map(({ ref }) => JSON.stringify(ref)));
  const ofOthers = (errors: readonly ResultError[]) => errors.filter(({ ref }) => !orphans.has(JSON.stringify(ref)));
  const compacted = (document["compactedObjects"] ?? []) as readonly CompactedObject[];
  const errors = ofOthers(result.errors);
  return {
    ...result,
    objects,
    errors,
    document: {
      ...document,
      compactedObjects: compacted.map(({ deleted, ...object }) => (deleted ? { ...object, orphan: true } : object)),
      ...(document["errors"] !== undefined && { errors }),
    },
  };
}
