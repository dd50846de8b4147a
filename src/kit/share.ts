import { type Bounds, createBoundedMap } from "./bounded-map.ts";
import { beforeAbort } from "./deadline.ts";

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
  readonly answer: Promise<T>;
  readonly controller: AbortController;
  waiting: number;
  settled: boolean;
}

export function createShare<T>(bounds: Bounds): Share<T> {
  const entries = createBoundedMap<Entry<T>>(bounds);

  function forget(key: string, entry: Entry<T>): void {
    if (entries.get(key) === entry) entries.delete(key);
  }

  function open(key: string, ask: (signal: AbortSignal) => Promise<T>): Entry<T> {
    const controller = new AbortController();
    const answer = ask(controller.signal);
    const entry: Entry<T> = { answer, controller, waiting: 0, settled: false };
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
    async get(key, ask, signal) {
      signal?.throwIfAborted();
      const entry = entries.get(key) ?? open(key, ask);
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
