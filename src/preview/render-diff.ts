/**
 * The difference between two renders of a project, in the format of kluctl's diff, so that the same code masks, ranks
 * and shows it. Nothing in it was ever compared with a cluster. Pure.
 */
import { isDeepStrictEqual } from "node:util";
import { isRecord, parseJson } from "../kit/json.ts";
import { type FieldChange, type CommandResult, refId, type ResultObject } from "../model.ts";
import { lengthOfTexts } from "../redact/weight.ts";
import { inThread, largeText } from "../kit/in-thread.ts";

/** `compareRenders` without blocking the event loop. */
export async function compareRendersSafely(
  base: CommandResult,
  head: CommandResult,
  signal: AbortSignal,
): Promise<CommandResult> {
  if (lengthOfTexts(base) + lengthOfTexts(head) <= largeText) return compareRenders(base, head);
  return inThread(import.meta.url, compareRenders, [base, head], signal);
}

/** Objects that are only in the base's render count as no longer in the project. */
export function compareRenders(base: CommandResult, head: CommandResult): CommandResult {
  const before = byId(base);
  const after = byId(head);
  const objects = [...new Set([...after.keys(), ...before.keys()])].map((id) =>
    toResultObject(before.get(id), after.get(id)),
  );
  return { ...head, objects };
}

function byId({ objects }: CommandResult): ReadonlyMap<string, ResultObject> {
  return new Map(objects.map((object) => [refId(object.ref), object]));
}

function toResultObject(before: ResultObject | undefined, after: ResultObject | undefined): ResultObject {
  const [old, now] = [before?.rendered, after?.rendered];
  return {
    ref: after?.ref ?? before?.ref ?? { kind: "", name: "" },
    changes: old !== undefined && now !== undefined ? changesBetween(parseJson(old), parseJson(now)) : [],
    new: before === undefined,
    orphan: after === undefined,
    deleted: false,
    hook: false,
    rendered: now,
    remote: old,
    applied: now,
  };
}

/**
 * Deeper values, and those with longer paths, are compared as a whole: an author may try to make the comparison slow.
 */
const deepest = 32;
const longestPath = 400;
/** If there are more, the whole object counts as one change. */
const mostChanges = 1_000;

/** The changed fields, as in kluctl's diff. */
export function changesBetween(before: unknown, after: unknown): FieldChange[] {
  const found: FieldChange[] = [];
  addChanges({ path: "", depth: 0, before, after }, found);
  return found.length <= mostChanges ? found : [{ type: "update", jsonPath: "", oldValue: before, newValue: after }];
}

interface Pair {
  readonly path: string;
  readonly depth: number;
  readonly before: unknown;
  readonly after: unknown;
}

function addChanges({ path, depth, before, after }: Pair, found: FieldChange[]): void {
  if (found.length > mostChanges) return;
  const isList = Array.isArray(before);
  if (!isAlike(before, after) || depth === deepest || path.length > longestPath) {
    if (!isDeepStrictEqual(before, after))
      found.push({ type: "update", jsonPath: path, oldValue: before, newValue: after });
    return;
  }
  const [old, now] = [new Map(Object.entries(before as object)), new Map(Object.entries(after as object))];
  for (const key of new Set([...old.keys(), ...now.keys()])) {
    const jsonPath = isList ? `${path}[${key}]` : joined(path, key);
    if (!now.has(key)) found.push({ type: "delete", jsonPath, oldValue: old.get(key) });
    else if (!old.has(key)) found.push({ type: "insert", jsonPath, newValue: now.get(key) });
    else addChanges({ path: jsonPath, depth: depth + 1, before: old.get(key), after: now.get(key) }, found);
  }
}

/** Two mappings, or two lists of the same length: for other lists it is unknown which entry became which. */
function isAlike(before: unknown, after: unknown): boolean {
  if (Array.isArray(before) && Array.isArray(after)) return before.length === after.length;
  return isRecord(before) && isRecord(after);
}

function joined(path: string, key: string): string {
  const plain = /^[A-Za-z_][\w-]*$/.test(key);
  if (!plain) return `${path}[${JSON.stringify(key)}]`;
  return path === "" ? key : `${path}.${key}`;
}
