/** RFC 7386 merge patches: members that are not named stay, and members set to `null` are removed. Pure. */

/**
 * The patch that turns `before` into `after`. Without its `null`s, fields of an earlier drift would remain in the
 * current result.
 */
export function mergePatch(before: unknown, after: unknown): unknown {
  if (after === undefined) return null;
  if (!isObject(before) || !isObject(after)) return after;
  const wanted = Object.entries(after).filter(([, value]) => value !== undefined);
  const names = new Set(wanted.map(([name]) => name));
  const gone = Object.keys(before).filter((name) => !names.has(name));
  return Object.fromEntries([
    ...gone.map((name) => [name, null]),
    ...wanted.map(([name, value]) => [name, mergePatch(own(before, name), value)]),
  ]);
}

export function applyMergePatch(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const before = isObject(target) ? target : {};
  const kept = Object.entries(before).filter(([name]) => !Object.hasOwn(patch, name));
  const set = Object.entries(patch)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, applyMergePatch(own(before, name), value)]);
  return Object.fromEntries([...kept, ...set]);
}

/** A member may be named `constructor` or `__proto__`. */
function own(object: Readonly<Record<string, unknown>>, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
