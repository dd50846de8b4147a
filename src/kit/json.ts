/** JSON values whose shape is not known. Pure. */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Parses JSON; `undefined` if it is invalid. The parser's error is dropped because it quotes the text. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields of an object; none for any other value. */
export function fieldsOf(value: unknown): JsonObject {
  return isRecord(value) ? value : {};
}

/**
 * The field below these names; `undefined` if there is none. Only properties of the value itself: every object inherits a
 * `constructor`.
 */
export function field(value: unknown, ...names: readonly string[]): unknown {
  let at = value;
  for (const name of names) at = isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  return at;
}

/** The items of a list; none for any other value. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
