/** Searches a text for many strings at once, in time that grows with the text, not with the number of strings. Pure. */
import { fold, type FoldOptions } from "./fold.ts";

/** A string to find, folded like the texts. */
export interface Pattern {
  readonly folded: string;
  /** Characters that folding dropped at the ends of the original, so that they are masked too. */
  readonly head: string;
  readonly tail: string;
  /** The pattern is base64 or hex: adjacent characters belong to the same encoded word. */
  readonly opaque: boolean;
}

/** A range of the text, from `start` up to but not including `end`. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** Minimum length of folded patterns. */
export const minLength = 6;

/** Character comparisons after which a matcher gives up: far more than texts of some megabytes need. */
const maxComparisons = 30_000_000;

export class OverwhelmedError extends Error {
  override name = "OverwhelmedError";
}

/** Returns a search function, which throws OverwhelmedError once `maxComparisons` is exceeded. */
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
  /** Offset in the pattern of the `minLength` characters that it is indexed by. */
  readonly offset: number;
}

/** Indexes each pattern by the piece of `minLength` characters that the fewest other patterns are indexed by. */
function createIndex(patterns: readonly Pattern[]) {
  const buckets = new Map<number, Entry[]>();
  // Sparse enough that ordinary text seldom passes it; its size is a power of two.
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

/**
 * Extends the range by what folding dropped at the pattern's ends, up to its neighbours; an escape takes up to six
 * characters.
 */
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
