/** A fair counting semaphore: first come, first served, so that light tasks cannot overtake a heavy one. */
export interface Limit {
  /**
   * Waits for `weight` free places, runs, then frees them. Rejects with the signal's reason if it aborts while waiting.
   */
  run<T>(work: () => Promise<T>, options?: { weight?: number; signal?: AbortSignal | undefined }): Promise<T>;
  /** Changes the number of places; running tasks are not interrupted. */
  resize(places: number): void;
  /** Whether nothing runs and nothing waits. */
  idle(): boolean;
}

interface Waiter {
  readonly weight: number;
  readonly enter: () => void;
}

export function createLimit(first: number): Limit {
  const waiting: Waiter[] = [];
  let places = first;
  let free = places;

  function admit(): void {
    for (let next = waiting[0]; next !== undefined && next.weight <= free; next = waiting[0]) {
      waiting.shift();
      free -= next.weight;
      next.enter();
    }
  }

  async function enter(weight: number, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { weight, enter: resolve };
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
    async run(work, { weight = 1, signal } = {}) {
      await enter(weight, signal);
      try {
        return await work();
      } finally {
        free += weight;
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
