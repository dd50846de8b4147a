/** Limits the requests per second, in first-come order; sends none while the API server requires a pause. */
import { setTimeout as sleep } from "node:timers/promises";

export interface RequestRate {
  /** Resolves with the milliseconds waited when it is the caller's turn. Rejects when the signal aborts. */
  turn(signal: AbortSignal | undefined): Promise<number>;
  /** Pauses all requests for this long, as the API server requires. */
  rest(ms: number): void;
}

/** Upper limit of a pause: the API server's value may be wrong. */
const longestRestMs = 30_000;

/**
 * After an idle period a burst may have twice as many as `perSecond`. Each caller is assigned the next free moment on
 * arrival, so no caller overtakes another and none has to be woken.
 */
export function createRequestRate(perSecond: () => number, now = () => performance.now()): RequestRate {
  /** When the next request would be due at an even pace. */
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
      // Another pause may have been required meanwhile.
      for (let left = restUntil - now(); left > 0; left = restUntil - now()) await sleep(left, undefined, { signal });
      return now() - from;
    },
    rest(ms) {
      restUntil = Math.max(restUntil, now() + Math.min(ms, longestRestMs));
    },
  };
}
