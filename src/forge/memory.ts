import { createKept } from "../kept.ts";

/** What a host has answered lately, so that the same is not asked again for every line that is written. */
export interface Memory<T> {
  /**
   * The remembered answer, or a new one, which is remembered if it is worth it. What is being asked is not shared:
   * whoever asks may give up.
   */
  get(key: string, ask: () => Promise<T>, isWorthIt?: (answer: T) => boolean): Promise<T>;
}

/** So that it does not grow with the number of commits. */
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
