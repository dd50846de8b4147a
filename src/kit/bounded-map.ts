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
  readonly maxAgeMs?: number | undefined;
  /** Monotonic milliseconds. With a clock that can be set back, an entry could be kept for hours. */
  readonly now?: (() => number) | undefined;
}

export function createBoundedMap<T>({
  entries,
  maxAgeMs = Infinity,
  now = () => performance.now(),
}: Bounds): BoundedMap<T> {
  /** A Map keeps insertion order, so the first entry is the least recently used one. */
  const all = new Map<string, { readonly value: T; readonly setAt: number }>();
  const timed = maxAgeMs !== Infinity;
  const isOld = (setAt: number): boolean => timed && now() - setAt >= maxAgeMs;

  return {
    get(key) {
      const entry = all.get(key);
      if (entry === undefined) return undefined;
      all.delete(key);
      if (isOld(entry.setAt)) return undefined;
      all.set(key, entry);
      return entry.value;
    },
    set(key, value) {
      all.delete(key);
      all.set(key, { value, setAt: timed ? now() : 0 });
      for (const [oldest, { setAt }] of all) {
        // Those not used for the maximum age are at the front, so none of them is kept.
        if (all.size <= entries && !isOld(setAt)) break;
        all.delete(oldest);
      }
    },
    delete: (key) => all.delete(key),
    clear: () => all.clear(),
    values: () => Array.from(all.values(), ({ value }) => value),
  };
}
