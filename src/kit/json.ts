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

/** The fields of an object; none for any other value. */
export function fieldsOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** The items of a list; none for any other value. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
