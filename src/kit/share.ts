import { monotonicNow } from "./monotonic.ts";

/** Lets concurrent callers with the same question share one call. */
export interface Share<T> {
  /**
   * Returns the result for `key`: that of a call in progress or of one younger than the maximum age, or else of a new
   * call. A call is cancelled only when every caller that waits for it is gone. Failures are shared too, but not
   * remembered.
   */
  get(key: string, ask: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T>;
}

interface Entry<T> {
  readonly askedAt: number;
  readonly answer: Promise<T>;
  readonly controller: AbortController;
  waiting: number;
  settled: boolean;
}

/** `now`: monotonic milliseconds. With a clock that can be set back, a result could be kept for hours. */
export function createShare<T>(
  limits: { maxAgeMs: number; maxEntries: number },
  now: () => number = monotonicNow,
): Share<T> {
  const entries = new Map<string, Entry<T>>(); // in the order of the calls: the first is the oldest

  function forget(key: string, entry: Entry<T>): void {
    if (entries.get(key) === entry) entries.delete(key);
  }

  function open(key: string, ask: (signal: AbortSignal) => Promise<T>): Entry<T> {
    const controller = new AbortController();
    const answer = ask(controller.signal);
    const entry: Entry<T> = { askedAt: now(), answer, controller, waiting: 0, settled: false };
    answer.then(
      () => (entry.settled = true),
      () => {
        entry.settled = true;
        forget(key, entry);
      },
    );
    entries.delete(key);
    entries.set(key, entry);
    for (const [oldKey, old] of entries) {
      // Results may be large, and expired ones are of no use.
      if (entries.size <= limits.maxEntries && now() - old.askedAt < limits.maxAgeMs) break;
      forget(oldKey, old);
    }
    return entry;
  }

  return {
    async get(key, ask, signal) {
      signal?.throwIfAborted();
      const known = entries.get(key);
      const entry = known !== undefined && now() - known.askedAt < limits.maxAgeMs ? known : open(key, ask);
      entry.waiting++;
      const gone = Promise.withResolvers<never>();
      const leave = (): void => gone.reject(signal?.reason as Error);
      signal?.addEventListener("abort", leave, { once: true });
      try {
        return await Promise.race([entry.answer, gone.promise]);
      } finally {
        signal?.removeEventListener("abort", leave);
        entry.waiting--;
        if (entry.waiting === 0 && !entry.settled) {
          forget(key, entry);
          entry.controller.abort(new Error("the result is no longer needed"));
        }
      }
    },
  };
}
