/** How much work it is to compare and to redact a result, and what of the result that takes. Pure. */
import type { Change, CommandResult, ResultObject } from "../model.ts";
import { isSecret } from "./secrets-of.ts";

/** A Secret is taken apart, and each of its lines is prepared for the search. */
const secretWeight = 6;

/** In characters of ordinary text. What a project does not create and does not change is not looked at. */
export function weightOf({ objects }: Pick<CommandResult, "objects">): number {
  return objects.reduce((sum, object) => sum + weightOfObject(object), 0);
}

export function weightOfSecrets(values: readonly string[]): number {
  return secretWeight * values.reduce((sum, { length }) => sum + length, 0);
}

function weightOfObject(object: ResultObject): number {
  const { rendered = "", remote = "", applied = "" } = object;
  const changes = object.changes.reduce((sum, change) => sum + lengthOf(change), 0);
  if (isSecret(object.ref)) return secretWeight * (rendered.length + remote.length + applied.length + changes);
  return changes + (object.new ? rendered.length : 0);
}

function lengthOf({ oldValue, newValue, unifiedDiff }: Change): number {
  const texts = [oldValue, newValue, unifiedDiff].map((value) => {
    if (typeof value === "object" && value !== null) return JSON.stringify(value).length;
    return typeof value === "string" ? value.length : 0;
  });
  // kluctl adds a diff to each change, which has all lines of both values.
  return texts.reduce((sum, length) => sum + length, 0);
}

/** All that has to be copied, parsed and compressed to store it. */
export function lengthOfTexts({ objects }: Pick<CommandResult, "objects">): number {
  return objects.reduce((sum, { rendered = "", remote = "", applied = "", changes }) => {
    const changed = changes.reduce((length, change) => length + lengthOf(change), 0);
    return sum + rendered.length + remote.length + applied.length + changed;
  }, 0);
}

/** Enough to find a result's secrets by, and to redact its changes and messages: it is copied to a thread. */
export function withoutPlainObjects(result: CommandResult): CommandResult {
  return {
    ...result,
    document: { deployment: result.document["deployment"] },
    objects: result.objects.map((object) =>
      isSecret(object.ref) ? object : { ...object, rendered: undefined, remote: undefined, applied: undefined },
    ),
  };
}
