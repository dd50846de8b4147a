/** The one way by which text leaves: everything that is known or looks to be secret becomes stars. Pure. */
import type { CommandResult } from "../model.ts";
import { createMatcher, OverwhelmedError, type Pattern, type Range } from "./matcher.ts";
import { isOrdinary, piecesOf } from "./secret-pieces.ts";
import { secretsOf } from "./secrets-of.ts";
import { mask, maskLines, maskShapes } from "./shapes.ts";
import { patternsOf } from "./spellings.ts";

export interface Redactor {
  /** Why something secret could get by; nothing but names and counts may leave then. Absent if all is well. */
  doubt(): string | undefined;
  /** Any text; it keeps its number of lines. */
  text(text: string): string;
  /** One field's whole value: hides what is too short or too ordinary to be looked for inside of text. `text` does the rest. */
  leaf(text: string): string;
  /** The name of an object or of a key. Ordinary words stay: a name that cannot be read helps nobody. */
  name(text: string): string;
}

/** Of values together; more is no longer a deployment's Secrets, and would take long to look for. */
const maxValueBytes = 4_000_000;
/** What values are taken apart into, such as their lines. Each takes some 50 µs to prepare. */
const maxPieces = 20_000;
const maxPieceBytes = 12_000_000;

/** Of values as they are; `doubt` says that there may be more. */
export function createRedactor(values: readonly (Buffer | string)[], doubt?: string): Redactor {
  const { plain, symbolic, named, leaves, tooMany } = collect(values.map((value) => Buffer.from(value)));
  const findPlain = createMatcher(plain, false);
  const findSymbolic = createMatcher(symbolic, true);
  const findNamed = createMatcher(named, false);
  let reason = doubt ?? tooMany;

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
    doubt: () => reason,
    text: (text) => hide(text, [findPlain, findSymbolic]),
    leaf: (text) => (leaves.has(text.trim()) ? maskLines(text) : text),
    name: (text) => {
      if (leaves.has(text) && !isOrdinary(text)) return mask;
      return tooMany === undefined ? hide(text, [findNamed, findSymbolic]) : maskShapes(text);
    },
  };
}

/** Knows the values of all Secrets in the result besides what is known already. */
export function redactorOf(result: CommandResult, knownSecrets: readonly string[]): Redactor {
  const { values, doubt } = secretsOf(result);
  return createRedactor([...values, ...knownSecrets], doubt);
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
    // Before anything is done with it: to take one value apart may take longer than all the others.
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

/** What differs only in what folding drops is one pattern, with the longer ends. */
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

/** Everybody's values: nothing is told by showing them, and much is lost by not. */
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
    // Ranges that touch are one secret.
    masked += from === at && masked.endsWith(mask) ? hidden.replace(mask, "") : text.slice(at, from) + hidden;
    at = end;
  }
  return masked + text.slice(at);
}
