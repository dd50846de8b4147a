import { setTimeout } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, onTestFinished, test, vi } from "vitest";
import { createLimit } from "../../../src/kit/limit.ts";
import { createShare } from "../../../src/kit/share.ts";

test("no more tasks run than there are places, and a heavy one waits for all places and is not overtaken", async () => {
  const limit = createLimit(2);
  const order: string[] = [];
  const open = Promise.withResolvers<void>();
  const light = (name: string): Promise<void> =>
    limit.run(async () => {
      order.push(name);
      await open.promise;
    });
  const all = [light("a"), light("b"), limit.run(async () => void order.push("heavy"), { weight: 2 }), light("c")];
  await vi.waitFor(() => expect(order).toEqual(["a", "b"]));
  open.resolve();
  await Promise.all(all);
  expect(order).toEqual(["a", "b", "heavy", "c"]);
  expect(limit.idle()).toBe(true);
});

test("an aborted task in the queue lets the next ones run", async () => {
  const limit = createLimit(2);
  const open = Promise.withResolvers<void>();
  const first = limit.run(() => open.promise);
  const controller = new AbortController();
  const heavy = limit.run(async () => "never", { weight: 2, signal: controller.signal });
  const behind = limit.run(async () => "done");
  controller.abort(new Error("enough"));
  await expect(heavy).rejects.toThrow("enough");
  expect(await behind).toBe("done");
  open.resolve();
  await first;
  expect(limit.idle()).toBe(true);
});

test("a failed task frees its place", async () => {
  const limit = createLimit(1);
  await expect(limit.run(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(limit.idle()).toBe(true);
});

test("an answer is shared until it expires, and the oldest answers are removed", async () => {
  let now = 0;
  let asked = 0;
  const share = createShare<number>({ maxAgeMs: 10, entries: 2, now: () => now });
  const get = (key: string): Promise<number> => share.get(key, async () => ++asked);
  expect(await Promise.all([get("a"), get("a")])).toEqual([1, 1]);
  now = 9;
  expect(await get("a")).toBe(1);
  now = 10;
  expect(await get("a")).toBe(2);
  await get("b");
  await get("c");
  expect(await get("a")).toBe(5);
});

test("a clock that is set back keeps no answer", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  const share = createShare<number>({ maxAgeMs: 20, entries: 2 });
  let asked = 0;
  const get = (): Promise<number> => share.get("a", async () => ++asked);
  expect(await get()).toBe(1);

  vi.setSystemTime(Date.now() - 2 * 3_600_000);
  await setTimeout(30);

  expect(await get()).toBe(2);
});

test("an expired answer is not kept in memory, even if there is room for it", async () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  let now = 0;
  const share = createShare<object>({ maxAgeMs: 10, entries: 1_000, now: () => now });
  const ask = async (key: string): Promise<WeakRef<object>> => new WeakRef(await share.get(key, async () => ({})));
  const first = await ask("a");
  now = 10;
  await ask("b");
  await vi.waitFor(() => {
    collectGarbage();
    expect(first.deref() === undefined).toBe(true); // a failure message with the object would keep it alive
  });
});

test("a failure is not cached", async () => {
  const share = createShare<string>({ maxAgeMs: 1_000, entries: 2 });
  await expect(share.get("a", () => Promise.reject(new Error("down")))).rejects.toThrow("down");
  expect(await share.get("a", async () => "up")).toBe("up");
});

test("a request is aborted once no caller waits for it, and is then sent again", async () => {
  const share = createShare<string>({ maxAgeMs: 1_000, entries: 2 });
  const controllers = [new AbortController(), new AbortController()];
  let given: AbortSignal | undefined;
  const ask = (signal: AbortSignal): Promise<string> => {
    given = signal;
    return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
  };
  const waiting = controllers.map((controller) => share.get("a", ask, { signal: controller.signal }));
  controllers[0]?.abort(new Error("first"));
  await expect(waiting[0]).rejects.toThrow("first");
  expect(given?.aborted).toBe(false);
  controllers[1]?.abort(new Error("second"));
  await expect(waiting[1]).rejects.toThrow("second");
  expect(given?.aborted).toBe(true);
  expect(await share.get("a", async () => "new")).toBe("new");
});
