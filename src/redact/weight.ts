/**
 * Estimates how much work it is to compare and redact a result, and selects the parts of the result that are needed for
 * it. Pure.
 */
import type { FieldChange, CommandResult, ResultObject } from "../model.ts";
import { isSecret } from "./secrets-of.ts";

/** A Secret is split into pieces, and each of its lines is prepared for the search. */
const secretWeight = 6;

/** In characters of ordinary text. Objects that the project neither creates nor changes are not searched. */
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

function lengthOf({ oldValue, newValue, unifiedDiff }: FieldChange): number {
  const texts = [oldValue, newValue, unifiedDiff].map((value) => {
    if (typeof value === "object" && value !== null) return JSON.stringify(value).length;
    return typeof value === "string" ? value.length : 0;
  });
  // kluctl adds a diff to each change, which has all lines of both values.
  return texts.reduce((sum, length) => sum + length, 0);
}

/** Total length of the texts that must be copied, parsed and compressed to store the result. */
export function lengthOfTexts({ objects }: Pick<CommandResult, "objects">): number {
  return objects.reduce((sum, { rendered = "", remote = "", applied = "", changes }) => {
    const changed = changes.reduce((length, change) => length + lengthOf(change), 0);
    return sum + rendered.length + remote.length + applied.length + changed;
  }, 0);
}

/**
 * Keeps what is needed to find a result's secrets and to redact its changes and messages, because the result is copied
 * to a thread.
 */
export function withoutPlainObjects(result: CommandResult): CommandResult {
  return {
    ...result,
    document: { deployment: result.document["deployment"] },
    objects: result.objects.map((object) =>
      isSecret(object.ref) ? object : { ...object, rendered: undefined, remote: undefined, applied: undefined },
    ),
  };
}
