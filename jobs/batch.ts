/**
 * Gathers what comes while the work for those before is under way, and does it together. Nobody waits for others when
 * nothing is under way, and a thousand at once cost a few round trips instead of a thousand.
 */
export function createBatch<Item, Result>(
  work: (items: readonly Item[]) => Promise<readonly Result[]>,
): (item: Item) => Promise<Result> {
  interface Waiting {
    readonly item: Item;
    readonly resolve: (result: Result) => void;
    readonly reject: (error: unknown) => void;
  }
  let waiting: Waiting[] = [];
  let working = false;

  async function workOff(): Promise<void> {
    working = true;
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      try {
        const results = await work(batch.map(({ item }) => item));
        for (const [i, one] of batch.entries()) one.resolve(results[i] as Result);
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
