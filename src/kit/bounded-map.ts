/** A map with a size limit that removes the least recently used entry, and optionally entries of a maximum age. */
export interface BoundedMap<T> {
  get(key: string): T | undefined;
  /** The entry's age starts from zero. */
  set(key: string, value: T): void;
  delete(key: string): boolean;
  clear(): void;
  /** May include entries that are too old to be returned by `get`. */
  values(): T[];
}

export interface Bounds {
  readonly entries: number;
  /** The greatest sum of all entries' weights; an entry that is heavier by itself is not kept. */
  readonly weight?: number | undefined;
  readonly maxAgeMs?: number | undefined;
  /** Monotonic milliseconds. With a clock that can be set back, an entry could be kept for hours. */
  readonly now?: (() => number) | undefined;
}

/** `weigh`: in any unit, that of `weight`. */
export function createBoundedMap<T>(
  { entries, weight = Infinity, maxAgeMs = Infinity, now = () => performance.now() }: Bounds,
  weigh: (value: T) => number = () => 0,
): BoundedMap<T> {
  /** A Map keeps insertion order, so the first entry is the least recently used one. */
  const all = new Map<string, { readonly value: T; readonly setAt: number }>();
  let carried = 0;
  const timed = maxAgeMs !== Infinity;
  const isOld = (setAt: number): boolean => timed && now() - setAt >= maxAgeMs;

  function remove(key: string): boolean {
    const entry = all.get(key);
    if (entry !== undefined) carried -= weigh(entry.value);
    return all.delete(key);
  }

  return {
    get(key) {
      const entry = all.get(key);
      if (entry === undefined) return undefined;
      if (isOld(entry.setAt)) {
        remove(key);
        return undefined;
      }
      all.delete(key);
      all.set(key, entry);
      return entry.value;
    },
    set(key, value) {
      remove(key);
      all.set(key, { value, setAt: timed ? now() : 0 });
      carried += weigh(value);
      for (const [oldest, { setAt }] of all) {
        // Those not used for the maximum age are at the front, so none of them is kept.
        if (all.size <= entries && carried <= weight && !isOld(setAt)) break;
        remove(oldest);
      }
    },
    delete: remove,
    clear() {
      all.clear();
      carried = 0;
    },
    values: () => Array.from(all.values(), ({ value }) => value),
  };
}
