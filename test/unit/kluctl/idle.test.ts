import { expect, onTestFinished, test, vi } from "vitest";
import { createIdleWatch, type IdleRun, type ProcessUse } from "../../../src/kluctl/idle.ts";

/** Runs of one process each; `use` says what it has used so far. */
function useRuns(read?: () => undefined) {
  const processes = new Map<number, () => Omit<ProcessUse, "pid" | "group">>();
  const watch = createIdleWatch(300, async () => {
    if (read) return read();
    return Array.from(processes, ([pid, use]) => ({ pid, group: pid, ...use() }));
  });
  return (pid: number, use: () => Partial<ProcessUse>, more: Partial<IdleRun> = {}) => {
    processes.set(pid, () => ({ busyMs: 0, isBlocked: false, ...use() }));
    const { signal, stop } = watch.watch({ groups: () => [pid], isServed: () => false, ...more });
    onTestFinished(stop);
    return signal;
  };
}

const aborted = (signal: AbortSignal) =>
  new Promise((resolve) => signal.addEventListener("abort", () => resolve(signal.reason), { once: true }));

test("a run that only waits is ended, with what to do; one that computes, waits for a disk, or for what serves it goes on", async () => {
  const watch = useRuns();
  let used = 0;
  const others = [
    watch(1, () => ({ busyMs: (used += 60_000) })),
    watch(2, () => ({ isBlocked: true })),
    watch(3, () => ({}), { isServed: () => true }),
    watch(4, () => ({}), { groups: () => [] }),
  ];
  const reason = await aborted(watch(5, () => ({ busyMs: 20 })));
  expect(reason).toMatchObject({
    name: "KilledError",
    why: "idle",
    message: expect.stringContaining("such as a sleep"),
  });
  expect(others.map((signal) => signal.aborted)).toEqual([false, false, false, false]);
});

test("a run that computes a little from time to time is ended as well", async () => {
  const watch = useRuns();
  let used = 0;
  expect(await aborted(watch(1, () => ({ busyMs: (used += 10) })))).toMatchObject({ why: "idle" });
});

test("where the use of processes is unknown, no run is ended", async () => {
  let reads = 0;
  const watch = useRuns(() => void reads++);
  const signal = watch(1, () => ({}));
  await expect.poll(() => reads).toBeGreaterThan(8);
  expect(signal.aborted).toBe(false);
});

test("a run that begins while processes are read is not counted twice", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const reads: (() => void)[] = [];
  const watch = createIdleWatch(300, async () => {
    await new Promise<void>((resolve) => reads.push(resolve));
    return [];
  });
  const run: IdleRun = { groups: () => [1], isServed: () => false };
  const first = watch.watch(run);
  await vi.advanceTimersByTimeAsync(100);
  first.stop();
  const second = watch.watch(run);
  onTestFinished(() => second.stop());
  await vi.advanceTimersByTimeAsync(1_000);
  expect(reads.length).toBe(1);
  reads[0]?.();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(reads.length).toBe(2);
});
