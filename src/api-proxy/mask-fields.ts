/**
 * Secrets that hold YAML, as those do that kluctl takes for variables: their fields stay, so that templates find them, and
 * only what stands in them is replaced. Pure.
 */
import { isUtf8 } from "node:buffer";
import { parse, stringify } from "yaml";
import { Refusal } from "./refusal.ts";

/** To read more would take longer than anything else of a diff: some 10 ms for a kilobyte, in which nothing else happens. */
export const longestFields = 16 * 1024;
/** Each is shown by a hash that is longer than most values are. */
const mostLeaves = 1_000;
/** The first field, or a comment before it. */
const begins = /^\s*(?:[#{%]|---|["']?[A-Za-z_][\w.-]*["']?\s*:)/;
const deepest = 20;

/** `undefined`: not a mapping with names that anybody may see, so that nothing of it may be shown. */
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

/** What to show of the text that stands there. */
type Mask = (text: string, path: readonly string[]) => string;

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Throws for what is nobody's variables. A number becomes none, a switch is off: their types are what templates rely on. */
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

/** What people call variables. A token would be longer, or have more digits. */
function isName(text: string): boolean {
  return /^[A-Za-z_][\w.-]{0,39}$/.test(text) && text.replaceAll(/\D/g, "").length <= 3;
}
