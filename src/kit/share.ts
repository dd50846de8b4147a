import { type Bounds, createBoundedMap } from "./bounded-map.ts";
import { beforeAbort } from "./deadline.ts";

/** Lets concurrent callers with the same question share one call. */
export interface Share<T> {
  /**
   * Returns the result for `key`: that of a call younger than the maximum age, which may still be in progress, or else
   * of a new call. A call is cancelled only when every caller that waits for it is gone. Failures are shared too, but
   * not remembered.
   */
  get(key: string, ask: (signal: AbortSignal) => Promise<T>, options?: ShareOptions): Promise<T>;
}

export interface ShareOptions {
  readonly signal?: AbortSignal | undefined;
  /** The greatest age of a call that this caller accepts, in milliseconds; 0: it needs a new one. */
  readonly maxAgeMs?: number | undefined;
}

interface Entry<T> {
  readonly answer: Promise<T>;
  readonly controller: AbortController;
  readonly openedAt: number;
  waiting: number;
  settled: boolean;
}

export function createShare<T>(bounds: Bounds): Share<T> {
  const { now = () => performance.now() } = bounds;
  const entries = createBoundedMap<Entry<T>>(bounds);

  function forget(key: string, entry: Entry<T>): void {
    if (entries.get(key) === entry) entries.delete(key);
  }

  function open(key: string, ask: (signal: AbortSignal) => Promise<T>): Entry<T> {
    const controller = new AbortController();
    const openedAt = now();
    const answer = ask(controller.signal);
    const entry: Entry<T> = { answer, controller, openedAt, waiting: 0, settled: false };
    answer.then(
      () => (entry.settled = true),
      () => {
        entry.settled = true;
        forget(key, entry);
      },
    );
    entries.set(key, entry);
    return entry;
  }

  return {
    async get(key, ask, { signal, maxAgeMs = Infinity } = {}) {
      signal?.throwIfAborted();
      const known = entries.get(key);
      const entry = known && now() - known.openedAt < maxAgeMs ? known : open(key, ask);
      entry.waiting++;
      try {
        return await beforeAbort(entry.answer, signal);
      } finally {
        entry.waiting--;
        if (entry.waiting === 0 && !entry.settled) {
          forget(key, entry);
          entry.controller.abort(new Error("the result is no longer needed"));
        }
      }
    },
  };
}
