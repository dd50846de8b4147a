/** So many requests a second and no more, in the order in which they come; and none while the API server wants a rest. */
import { setTimeout as sleep } from "node:timers/promises";

export interface RequestRate {
  /** Resolves when it is this one's turn, to the milliseconds that it has waited. Rejects when the signal aborts. */
  turn(signal: AbortSignal | undefined): Promise<number>;
  /** The API server has asked to be left alone for so long. */
  rest(ms: number): void;
}

/** However long it asks for: what it says may be wrong. */
const longestRestMs = 30_000;

/**
 * Twice as many as `perSecond` may come at once after a quiet time. Whoever comes is given the next free moment right away, so nobody
 * overtakes and nothing has to be woken.
 */
export function createRequestRate(perSecond: () => number, now = () => performance.now()): RequestRate {
  /** When the next one would be due if all went at an even pace. */
  let evenAt = -Infinity;
  let restUntil = -Infinity;

  return {
    async turn(signal) {
      signal?.throwIfAborted();
      const from = now();
      const apartMs = 1_000 / perSecond();
      evenAt = Math.max(evenAt, from - 2_000 + apartMs);
      const at = Math.max(evenAt, restUntil);
      evenAt += apartMs;
      if (at <= from) return 0;
      await sleep(at - from, undefined, { signal });
      // It may have asked for a rest while this one waited.
      for (let left = restUntil - now(); left > 0; left = restUntil - now()) await sleep(left, undefined, { signal });
      return now() - from;
    },
    rest(ms) {
      restUntil = Math.max(restUntil, now() + Math.min(ms, longestRestMs));
    },
  };
}
