import { createBoundedMap } from "../kit/bounded-map.ts";

/** Caches a host's recent responses, so that the same request is not repeated for every status or comment. */
export interface ResponseCache<T> {
  /**
   * Returns the cached value or a new one, which is cached if `isWorthIt`. Pending requests are not shared, because a
   * caller may abort its own.
   */
  get(key: string, ask: () => Promise<T>, isWorthIt?: (answer: T) => boolean): Promise<T>;
}

/** So that the cache does not grow with the number of commits. */
const most = 1_000;

export function createMemory<T>(lifetimeMs: number): ResponseCache<T> {
  const known = createBoundedMap<{ readonly value: T }>({ entries: most, maxAgeMs: lifetimeMs });
  return {
    async get(key, ask, isWorthIt = () => true) {
      const cached = known.get(key);
      if (cached !== undefined) return cached.value;
      const value = await ask();
      if (isWorthIt(value)) known.set(key, { value });
      return value;
    },
  };
}
