/**
 * Masks Secrets that contain YAML, such as those that kluctl reads variables from: the fields are kept, so that
 * templates find them, and only their values are replaced. Pure.
 */
import { isUtf8 } from "node:buffer";
import { parse, stringify } from "yaml";
import { Refusal } from "./refusal.ts";

/**
 * Bytes. Parsing more would take longer than any other part of a diff: some 10 ms per kilobyte, during which the event
 * loop is blocked.
 */
export const longestFields = 16 * 1024;
/** Each leaf is replaced by a hash that is longer than most values. */
const mostLeaves = 1_000;
/** The first field, or a comment before it. */
const begins = /^\s*(?:[#{%]|---|["']?[A-Za-z_][\w.-]*["']?\s*:)/;
const deepest = 20;

/** Returns `undefined` if the value is not a mapping with harmless field names; then nothing of it may be shown. */
export function maskFields(value: Buffer, mask: Mask): string | undefined {
  if (value.length > longestFields || !isUtf8(value)) return undefined;
  const text = value.toString("utf8");
  if (!begins.test(text)) return undefined;
  try {
    const document: unknown = parse(text, { logLevel: "error", uniqueKeys: false });
    return isMapping(document) ? stringify(maskLeaves(document, mask, [], { left: mostLeaves })) : undefined;
  } catch (error) {
    if (error instanceof Refusal) throw error;
    return undefined;
  }
}

/** Returns what to show instead of the text at `path`. */
type Mask = (text: string, path: readonly string[]) => string;

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Throws for documents that cannot be variables. Numbers become 0 and booleans false, because templates rely on their
 * types.
 */
function maskLeaves(value: unknown, mask: Mask, path: readonly string[], leaves: { left: number }): unknown {
  if (path.length > deepest) throw new Error("too deep");
  if (--leaves.left < 0) throw new Error("too much");
  if (typeof value === "string") return value === "" ? "" : mask(value, path);
  if (typeof value === "number" || typeof value === "bigint") return 0;
  if (typeof value === "boolean") return false;
  if (value === null) return null;
  if (Array.isArray(value)) return value.map((item, at) => maskLeaves(item, mask, [...path, String(at)], leaves));
  if (!isMapping(value)) throw new Error("not a JSON value");
  const entries = Object.entries(value).map(([name, field]) => {
    if (!isName(name)) throw new Error("not a name");
    return [name, maskLeaves(field, mask, [...path, name], leaves)] as const;
  });
  return Object.fromEntries(entries);
}

/** Accepts typical names of variables. A token would be longer, or have more digits. */
function isName(text: string): boolean {
  return /^[A-Za-z_][\w.-]{0,39}$/.test(text) && text.replaceAll(/\D/g, "").length <= 3;
}
