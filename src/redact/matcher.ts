/** Finds many strings in a text at once: in time that grows with the text, not with the number of strings. Pure. */
import { fold, type FoldOptions } from "./fold.ts";

/** Something to find, folded as the texts will be. */
export interface Pattern {
  readonly folded: string;
  /** What folding dropped at the ends of the original, so that it is covered too. */
  readonly head: string;
  readonly tail: string;
  /** One of base64's spellings: the characters around it belong to the same opaque word. */
  readonly opaque: boolean;
}

/** A stretch of the text, from `start` up to, not including, `end`. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** Folded patterns have to have at least this many characters. */
export const minLength = 6;

/** Character comparisons a matcher makes before it gives up: far more than texts of some megabytes need. */
const maxComparisons = 30_000_000;

export class OverwhelmedError extends Error {
  override name = "OverwhelmedError";
}

/** Calls of the result throw OverwhelmedError once the work is out of all proportion. */
export function createMatcher(patterns: readonly Pattern[], symbols: boolean): (text: string) => Range[] {
  const { buckets, filter } = createIndex(patterns);
  const filterMask = filter.length - 1;
  let comparisons = 0;

  function search(text: string, options: FoldOptions): Range[] {
    const { units, starts, ends } = fold(text, options);
    const found: Range[] = [];
    let hash = 0;
    for (let at = 0; at < units.length; at++) {
      hash = (Math.imul(hash, base) + units[at]!) | 0;
      if (at >= minLength) hash = (hash - Math.imul(units[at - minLength]!, basePower)) | 0;
      if (at < minLength - 1 || filter[hash & filterMask] === 0) continue;
      for (const { pattern, offset } of buckets.get(hash) ?? []) {
        const first = at - minLength + 1 - offset;
        const equal = first < 0 ? 0 : equalUnits(units, first, pattern.folded);
        comparisons += equal + 1;
        if (comparisons > maxComparisons) throw new OverwhelmedError("too much text to search for too many values");
        if (equal < pattern.folded.length) continue;
        const last = first + pattern.folded.length - 1;
        const before = first === 0 ? 0 : ends[first - 1]!;
        const after = last + 1 === units.length ? text.length : starts[last + 1]!;
        found.push(widen(text, { start: starts[first]!, end: ends[last]! }, { start: before, end: after }, pattern));
      }
    }
    return found;
  }

  return (text) => {
    if (patterns.length === 0 || text.length < minLength) return [];
    return [
      ...search(text, { symbols }),
      ...(/[\\%]/.test(text) ? search(text, { symbols, unescape: "escapes" }) : []),
      ...(/&[#\w]+;/.test(text) ? search(text, { symbols, unescape: "entities" }) : []),
    ];
  };
}

// A rolling polynomial hash over `minLength` code units, in 32-bit arithmetic.
const base = 0x01_00_01_93;
const basePower = Array.from({ length: minLength }).reduce<number>((power) => Math.imul(power, base), 1);

function hashAt(text: string, at: number): number {
  let hash = 0;
  for (let i = at; i < at + minLength; i++) hash = (Math.imul(hash, base) + text.charCodeAt(i)) | 0;
  return hash;
}

interface Entry {
  readonly pattern: Pattern;
  /** Where in the pattern the six characters stand by which it is looked up. */
  readonly offset: number;
}

/** Each pattern is filed under that one of its six-character pieces which fewest others are filed under. */
function createIndex(patterns: readonly Pattern[]) {
  const buckets = new Map<number, Entry[]>();
  // Sparse enough that ordinary text seldom gets past it; a power of two.
  const filter = new Uint8Array(2 ** Math.ceil(Math.log2(patterns.length * 16 + 1)));
  for (const pattern of patterns) {
    const candidates = Math.min(pattern.folded.length - minLength + 1, 32);
    let [best, offset, fewest] = [0, 0, Infinity];
    for (let at = 0; at < candidates && fewest > 0; at++) {
      const hash = hashAt(pattern.folded, at);
      const size = buckets.get(hash)?.length ?? 0;
      if (size < fewest) [best, offset, fewest] = [hash, at, size];
    }
    const bucket = buckets.get(best);
    if (bucket) bucket.push({ pattern, offset });
    else buckets.set(best, [{ pattern, offset }]);
    filter[best & (filter.length - 1)] = 1;
  }
  return { buckets, filter };
}

function equalUnits(units: Uint16Array, first: number, pattern: string): number {
  let equal = 0;
  while (equal < pattern.length && units[first + equal] === pattern.charCodeAt(equal)) equal++;
  return equal;
}

/** Covers what folding dropped at the pattern's ends, up to its neighbours; an escape takes up to six characters. */
function widen(text: string, { start, end }: Range, room: Range, { head, tail, opaque }: Pattern): Range {
  if (opaque) {
    while (start > 0 && /[\w+/=-]/.test(text[start - 1]!)) start--;
    while (end < text.length && /[\w+/=-]/.test(text[end]!)) end++;
    return { start, end };
  }
  if (head !== "") {
    start = text.endsWith(head, start) ? start - head.length : Math.max(room.start, start - 6 * head.length);
  }
  if (tail !== "") end = text.startsWith(tail, end) ? end + tail.length : Math.min(room.end, end + 6 * tail.length);
  return { start: Math.max(start, 0), end };
}
