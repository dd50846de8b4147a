/**
 * The RFC 7386 merge patch that makes `before` into `after`. A merge patch keeps every member it does not name, so
 * what is gone has to be named as `null`: without it, yesterday's drift would stand in today's result. Pure.
 */
export function mergePatch(before: unknown, after: unknown): unknown {
  if (after === undefined) return null;
  if (!isObject(before) || !isObject(after)) return after;
  const gone = Object.keys(before).filter((name) => after[name] === undefined);
  return {
    ...Object.fromEntries(gone.map((name) => [name, null])),
    ...Object.fromEntries(
      Object.entries(after)
        .filter(([, value]) => value !== undefined)
        .map(([name, value]) => [name, mergePatch(before[name], value)]),
    ),
  };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
