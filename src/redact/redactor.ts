/**
 * Masks everything in a text that is known to be secret or looks like it. Text that may contain secrets leaves the
 * server only through here. Pure.
 */
import type { CommandResult } from "../model.ts";
import { createMatcher, OverwhelmedError, type Pattern, type Range } from "./matcher.ts";
import { isOrdinary, piecesOf } from "./secret-pieces.ts";
import { secretsOf } from "./secrets-of.ts";
import { mask, maskLines, maskShapes } from "./shapes.ts";
import { patternsOf } from "./spellings.ts";

export interface Redactor {
  /**
   * Why a secret may be missed; then only names and counts may leave the server. `undefined` if all secrets are found.
   */
  whyIncomplete(): string | undefined;
  /** Masks secrets in any text, and keeps its number of lines. */
  text(text: string): string;
  /**
   * Masks a field's whole value if it equals a secret that is too short or too ordinary to be searched for within text.
   * Call `text` for the rest.
   */
  leaf(text: string): string;
  /** Masks the name of an object or a key, but keeps ordinary words: an unreadable name would be useless. */
  name(text: string): string;
}

/** Total of all values. More is not a deployment's Secrets any more, and would take long to search for. */
const maxValueBytes = 4_000_000;
/** Pieces that the values are split into, such as their lines. Each takes some 50 µs to prepare. */
const maxPieces = 20_000;
const maxPieceBytes = 12_000_000;

/** Creates a redactor for these values; `whyIncomplete` says why there may be more. */
export function createRedactor(values: readonly (Buffer | string)[], whyIncomplete?: string): Redactor {
  const { plain, symbolic, named, leaves, tooMany } = collect(values.map((value) => Buffer.from(value)));
  const findPlain = createMatcher(plain, false);
  const findSymbolic = createMatcher(symbolic, true);
  const findNamed = createMatcher(named, false);
  let reason = whyIncomplete ?? tooMany;

  function hide(text: string, finders: readonly ((text: string) => Range[])[]): string {
    if (tooMany !== undefined) return maskLines(text);
    try {
      return maskShapes(
        maskRanges(
          text,
          finders.flatMap((find) => find(text)),
        ),
      );
    } catch (error) {
      if (!(error instanceof OverwhelmedError)) throw error;
      reason ??= error.message;
      return maskLines(text);
    }
  }

  return {
    whyIncomplete: () => reason,
    text: (text) => hide(text, [findPlain, findSymbolic]),
    leaf: (text) => (leaves.has(text.trim()) ? maskLines(text) : text),
    name: (text) => {
      if (leaves.has(text) && !isOrdinary(text)) return mask;
      return tooMany === undefined ? hide(text, [findNamed, findSymbolic]) : maskShapes(text);
    },
  };
}

/** Creates a redactor for the values of all Secrets in the result and the secrets already known. */
export function redactorOf(result: CommandResult, knownSecrets: readonly string[]): Redactor {
  const { values, whyIncomplete } = secretsOf(result);
  return createRedactor([...values, ...knownSecrets], whyIncomplete);
}

function collect(values: readonly Buffer[]) {
  const unique = new Map(values.map((value) => [value.toString("latin1"), value]));
  const plain = new Map<string, Pattern>();
  const symbolic = new Map<string, Pattern>();
  const named = new Map<string, Pattern>();
  const leaves = new Set<string>();
  const searched = new Set<string>();
  let [bytes, pieces, pieceBytes] = [0, 0, 0];
  for (const whole of unique.values()) {
    bytes += whole.length;
    // Checked before a value is processed, because splitting a single value may take longer than all others.
    if (bytes > maxValueBytes) return tooManyValues(leaves);
    for (const { value, everywhere } of piecesOf(whole)) {
      pieceBytes += value.length;
      if (++pieces > maxPieces || pieceBytes > maxPieceBytes) return tooManyValues(leaves);
      const text = value.toString("utf8");
      if (!isTrivial(text)) leaves.add(text.trim());
      const id = value.toString("latin1");
      if (!everywhere || searched.has(id)) continue;
      searched.add(id);
      const found = patternsOf(value);
      for (const pattern of found.plain) {
        add(plain, pattern);
        if (!isOrdinary(text)) add(named, pattern);
      }
      for (const pattern of found.symbolic) add(symbolic, pattern);
    }
  }
  return {
    plain: [...plain.values()],
    symbolic: [...symbolic.values()],
    named: [...named.values()],
    leaves,
    tooMany: undefined,
  };
}

function tooManyValues(leaves: Set<string>) {
  return { plain: [], symbolic: [], named: [], leaves, tooMany: "there are too many secret values to look for" };
}

/** Merges patterns that differ only in what folding drops, and keeps the longer ends. */
function add(patterns: Map<string, Pattern>, pattern: Pattern): void {
  const known = patterns.get(pattern.folded) ?? pattern;
  const longer = (one: string, other: string) => (other.length > one.length ? other : one);
  patterns.set(pattern.folded, {
    folded: pattern.folded,
    opaque: known.opaque || pattern.opaque,
    head: longer(known.head, pattern.head),
    tail: longer(known.tail, pattern.tail),
  });
}

/** Common values: showing them reveals nothing, and masking them would make texts unreadable. */
function isTrivial(text: string): boolean {
  return text.trim().length < 3 || /^(?:true|false|null|none|yes|off)$/i.test(text.trim());
}

function maskRanges(text: string, ranges: readonly Range[]): string {
  if (ranges.length === 0) return text;
  let masked = "";
  let at = 0;
  for (const { start, end } of ranges.toSorted((a, b) => a.start - b.start)) {
    if (end <= at) continue;
    const from = Math.max(start, at);
    const hidden = maskLines(text.slice(from, end));
    // Adjacent ranges are one secret.
    masked += from === at && masked.endsWith(mask) ? hidden.replace(mask, "") : text.slice(at, from) + hidden;
    at = end;
  }
  return masked + text.slice(at);
}
