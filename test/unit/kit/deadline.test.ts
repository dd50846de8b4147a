import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { beforeAbort, within, withTimeout } from "../../../src/kit/deadline.ts";

function useFakeTimers(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
}

test("work that ends in time returns its result or its failure, and no timer is left", async () => {
  useFakeTimers();
  const late = vi.fn();
  expect(await within(1_000, Promise.resolve("done"), late)).toBe("done");
  await expect(within(1_000, Promise.reject(new Error("no")), late)).rejects.toThrow("no");
  expect(vi.getTimerCount()).toBe(0);
  expect(late).not.toHaveBeenCalled();
});

test("after the deadline counts what `late` returns or throws, and not what the work does", async () => {
  useFakeTimers();
  const { promise: work, reject } = Promise.withResolvers<string>();
  const answers = Promise.allSettled([
    within(1_000, work, () => "late"),
    within(1_000, work, () => {
      throw new Error("too late");
    }),
  ]);
  vi.advanceTimersByTime(1_000);
  expect(await answers).toMatchObject([{ value: "late" }, { reason: { message: "too late" } }]);
  reject(new Error("of no interest")); // would fail the test if nobody handled it
  await Promise.resolve();
});

test("a signal with a timeout aborts with whichever comes first", async () => {
  const caller = new AbortController();
  const [soon, stopped] = [withTimeout(1, caller.signal), withTimeout(60_000, caller.signal)];
  await sleep(50);
  expect([soon.aborted, stopped.aborted]).toEqual([true, false]);
  caller.abort(new Error("stopped"));
  expect(stopped.reason).toEqual(new Error("stopped"));
  expect(withTimeout(60_000, undefined).aborted).toBe(false);
});

test("a caller whose signal aborts no longer waits, and others do", async () => {
  const { promise: work, resolve } = Promise.withResolvers<string>();
  const caller = new AbortController();
  const answers = Promise.allSettled([beforeAbort(work, caller.signal), beforeAbort(work, undefined)]);
  caller.abort(new Error("stopped"));
  await expect(beforeAbort(work, caller.signal)).rejects.toThrow("stopped");
  resolve("done");
  expect(await answers).toMatchObject([{ reason: { message: "stopped" } }, { value: "done" }]);
});
