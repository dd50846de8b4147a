/** Turns the result of a dry-run prune into one in which objects are orphans instead of deleted. Pure. */
import type { CommandResult, ObjectRef, ResultError } from "../model.ts";

interface CompactedObject {
  readonly ref: ObjectRef;
  readonly orphan?: boolean;
  readonly deleted?: boolean;
}

/** Errors about deleting those objects are left out: an actual prune will report them. */
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
