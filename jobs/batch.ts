import { setTimeout as sleep } from "node:timers/promises";

/**
 * Batches calls: an item waits while the previous batch is in progress, or started less than `pauseMs` ago. A single
 * item does not wait; a thousand per second save a few hundred round trips. A result may be a promise if it takes
 * longer: the next batch does not wait for it.
 */
export function createBatch<Item, Result>(
  pauseMs: number,
  work: (items: readonly Item[]) => Promise<readonly (Result | Promise<Result>)[]>,
): (item: Item) => Promise<Result> {
  interface Waiting {
    readonly item: Item;
    readonly resolve: (result: Result | Promise<Result>) => void;
    readonly reject: (error: unknown) => void;
  }
  let waiting: Waiting[] = [];
  let working = false;
  let begunAt = -Infinity;

  async function workOff(): Promise<void> {
    working = true;
    while (waiting.length > 0) {
      const restMs = begunAt + pauseMs - performance.now();
      if (restMs > 0) await sleep(restMs);
      begunAt = performance.now();
      const batch = waiting;
      waiting = [];
      try {
        const results = await work(batch.map(({ item }) => item));
        for (const [i, one] of batch.entries()) one.resolve(results[i] as Result | Promise<Result>);
      } catch (error) {
        for (const one of batch) one.reject(error);
      }
    }
    working = false;
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      if (!working) void workOff();
    });
}
