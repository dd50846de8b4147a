import { createKept } from "../kit/kept.ts";

/** Caches a host's recent responses, so that the same request is not repeated for every status or comment. */
export interface Memory<T> {
  /**
   * Returns the cached value or a new one, which is cached if `isWorthIt`. Pending requests are not shared, because a
   * caller may abort its own.
   */
  get(key: string, ask: () => Promise<T>, isWorthIt?: (answer: T) => boolean): Promise<T>;
}

/** So that the cache does not grow with the number of commits. */
const maxEntries = 1_000;

export function createMemory<T>(lifetimeMs: number): Memory<T> {
  const entries = createKept<{ readonly value: T; readonly until: number }>(maxEntries);
  return {
    async get(key, ask, isWorthIt = () => true) {
      const known = entries.get(key);
      if (known !== undefined && known.until > performance.now()) return known.value;
      const value = await ask();
      if (!isWorthIt(value)) return value;
      entries.set(key, { value, until: performance.now() + lifetimeMs });
      return value;
    },
  };
}
