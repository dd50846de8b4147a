/**
 * A fair counting semaphore: first come, first served, so that light tasks cannot overtake a heavy one. If tasks are those of
 * different parties, these share the places: a free one goes to the party with the fewest.
 */
import { createShares, type Party } from "./shares.ts";

export interface Limit {
  /**
   * Waits for `weight` free places, runs, then frees them. Rejects with the signal's reason if it aborts while waiting.
   */
  run<T>(work: () => Promise<T>, options?: LimitOptions): Promise<T>;
  /** Changes the number of places; running tasks are not interrupted. */
  resize(places: number): void;
  /** Whether nothing runs and nothing waits. */
  idle(): boolean;
}

export interface LimitOptions {
  readonly weight?: number | undefined;
  /** Whose task it is. */
  readonly of?: Party | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface Waiter {
  readonly weight: number;
  readonly of: Party;
  readonly enter: () => void;
}

export function createLimit(first: number): Limit {
  const waiting: Waiter[] = [];
  const shares = createShares();
  let places = first;
  let free = places;

  function findNext(): Waiter | undefined {
    let next = waiting[0];
    for (const one of waiting) if (next && shares.isBefore(one.of, next.of)) next = one;
    return next;
  }

  function admit(): void {
    for (let next = findNext(); next !== undefined && next.weight <= free; next = findNext()) {
      waiting.splice(waiting.indexOf(next), 1);
      free -= next.weight;
      shares.began(next.of);
      next.enter();
    }
  }

  async function enter(weight: number, of: Party, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { weight, of, enter: resolve };
    const leave = (): void => {
      const at = waiting.indexOf(waiter);
      if (at < 0) return; // already running
      waiting.splice(at, 1);
      reject(signal?.reason as Error);
      admit();
    };
    waiting.push(waiter);
    admit();
    signal?.addEventListener("abort", leave, { once: true });
    await promise.finally(() => signal?.removeEventListener("abort", leave));
  }

  return {
    async run(work, { weight = 1, of = [], signal } = {}) {
      await enter(weight, of, signal);
      try {
        return await work();
      } finally {
        free += weight;
        shares.ended(of);
        admit();
      }
    },
    resize(next) {
      free += next - places;
      places = next;
      admit();
    },
    idle: () => free === places && waiting.length === 0,
  };
}
