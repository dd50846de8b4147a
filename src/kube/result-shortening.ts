/**
 * Shortens a command's result step by step until it is small enough to be stored. kluctl's tools can read every step:
 * the user sees fewer details, and a warning about it. Pure.
 */
import type { CommandResult, ResultObject } from "../model.ts";
import { reduceObject, reduceText } from "./result-secret.ts";

type Document = Readonly<Record<string, unknown>>;

export interface CommandParts {
  readonly summary: Document;
  readonly reducedResult: Document;
  readonly compactedObjects: readonly unknown[];
}

/** Yields versions from the whole result to the smallest; each is computed only if the previous one is too large. */
export function* shorterAndShorter(result: CommandResult, summary: Document): Generator<CommandParts> {
  const { compactedObjects, objects: _, ...document } = result.document;
  const reduced = (objects: readonly ResultObject[]) => objects.map(reduceObject);
  const whole = (compactedObjects ?? []) as readonly unknown[];
  yield { summary, reducedResult: { ...document, objects: reduced(result.objects) }, compactedObjects: whole };

  const shortened = (
    what: string,
    objects: readonly ResultObject[],
    compacted: readonly unknown[],
    rest: Document,
  ) => ({
    summary: { ...summary, warnings: withWarning(summary["warnings"], what) },
    reducedResult: { ...rest, objects: reduced(objects), warnings: withWarning(rest["warnings"], what) },
    compactedObjects: compacted,
  });

  const news = result.objects.map((object, index) => (isNews(object) ? whole[index] : compactNames(object)));
  if (whole.length === result.objects.length)
    yield shortened("unchanged objects are listed by name only", result.objects, news, document);
  const named = result.objects.map(compactNames);
  yield shortened("objects are listed by name only, with their changes", result.objects, named, document);

  // The rendered deployment repeats all names and variables; only the page about a target shows it.
  const bare = { ...document, deployment: {} };
  const places = result.objects.map((object) => ({
    ...object,
    changes: object.changes.map(({ type, jsonPath }) => ({ type, jsonPath })),
  }));
  yield shortened("for changes only the changed paths are listed", places, places.map(compactNames), bare);

  // Objects with changes or problems come before unchanged ones.
  let some = [...places.filter(isNews), ...places.filter((object) => !isNews(object))].map((object) => ({
    ...object,
    changes: object.changes.slice(0, 20),
  }));
  while (some.length > 1) {
    some = some.slice(0, Math.ceil(some.length / 2));
    const what = `only ${some.length} of ${places.length} objects are listed, with the paths of some changes`;
    yield shortened(what, some, some.map(compactNames), { ...bare, seenImages: [] });
  }
}

function isNews({ changes, ...flags }: ResultObject): boolean {
  return changes.length > 0 || flags.new || flags.orphan || flags.deleted || flags.hook;
}

/** An object as kluctl compacts it, without its content. */
function compactNames(object: ResultObject): Document {
  const { rendered, remote, applied } = object;
  return {
    ...reduceObject({ ...object, rendered: undefined, remote: undefined, applied: undefined }),
    ...(rendered !== undefined && { rendered: full(rendered) }),
    ...(remote !== undefined && { remote: full(remote) }),
    ...(applied !== undefined && { applied: full(applied) }),
  };
}

function full(json: string): string {
  return `full: ${JSON.stringify(reduceText(json))}`;
}

function withWarning(warnings: unknown, what: string): readonly unknown[] {
  const message = `The result was too large to be stored completely: ${what}.`;
  return [...(Array.isArray(warnings) ? (warnings as unknown[]) : []), { ref: { kind: "", name: "" }, message }];
}
