import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Heap, heapOfProcess, startReturningMemory } from "../../../src/cli/return-memory.ts";
import { createLogger } from "../../../src/log.ts";
import { patience } from "../../support/patience.ts";

const mega = 1024 * 1024;
const log = createLogger({ level: "silent", format: "json" });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A heap that needs 80 MB of what it holds. */
function aHeap(held: number) {
  const state = { busy: 0, held, collected: 0 };
  const heap: Heap = {
    busy: () => state.busy,
    heldBytes: () => state.held * mega,
    collect() {
      state.collected++;
      state.held = 80;
    },
  };
  return { heap, state };
}

const aWhile = () => vi.advanceTimersByTimeAsync(60_000);

test("memory left over from the start is returned once the server is quiet, and only once", async () => {
  const { heap, state } = aHeap(130);
  state.busy = 0.5;
  const stop = startReturningMemory(log, heap);
  await aWhile();
  expect(state.collected).toBe(0);
  state.busy = 0.01;
  await aWhile();
  expect(state).toMatchObject({ collected: 1, held: 80 });
  state.held = 95; // normal fluctuation
  await aWhile();
  expect(state.collected).toBe(1);
  state.held = 150; // a rush
  await aWhile();
  expect(state).toMatchObject({ collected: 2, held: 80 });
  stop();
  state.held = 150;
  await aWhile();
  expect(state.collected).toBe(2);
});

test("a calm server returns memory too, but seldom", async () => {
  const { heap, state } = aHeap(130);
  state.busy = 0.1;
  const stop = startReturningMemory(log, heap);
  for (const collected of [1, 2]) {
    await vi.advanceTimersByTimeAsync(50_000);
    expect(state.collected).toBe(collected - 1);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(state.collected).toBe(collected);
    state.held = 150;
  }
  for (let minutes = 0; minutes < 10; minutes++) {
    state.busy = 0.5; // memory is needed from time to time
    await vi.advanceTimersByTimeAsync(10_000);
    state.busy = 0.1;
    await vi.advanceTimersByTimeAsync(50_000);
  }
  expect(state.collected).toBe(2);
  stop();
});

test("a quiet server returns the memory of its earlier work once", async () => {
  const { heap, state } = aHeap(130);
  state.busy = 0.12;
  const stop = startReturningMemory(log, heap);
  await aWhile();
  expect(state.collected).toBe(1);
  state.held = 100; // less than is worth a collection
  await aWhile();
  expect(state.collected).toBe(1);
  state.busy = 0.03;
  await aWhile();
  await aWhile();
  expect(state).toMatchObject({ collected: 2, held: 80 });
  state.held = 100;
  for (const busy of [0.01, 0.03, 0.12, 0.03]) {
    state.busy = busy;
    await aWhile();
    await aWhile();
  }
  expect(state.collected).toBe(2);
  stop();
});

test("memory that is returned some seconds late does not count as needed", async () => {
  const { heap, state } = aHeap(130);
  state.busy = 0.01;
  let collected = 0;
  const slow: Heap = { ...heap, collect: () => void collected++ };
  const stop = startReturningMemory(log, slow);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(collected).toBe(1);
  state.held = 80;
  await aWhile();
  state.held = 110;
  await aWhile();
  expect(collected).toBeGreaterThan(1);
  stop();
});

test("V8 returns the memory that it took for a rush when it is told to collect", async () => {
  vi.useRealTimers();
  const heap = heapOfProcess();
  let rush: string[][] | undefined = Array.from({ length: 400_000 }, (_, i) => [`${i}`]);
  expect(rush).toHaveLength(400_000);
  const before = heap.heldBytes();
  rush = undefined;
  heap.collect();
  await expect.poll(() => before - heap.heldBytes(), patience).toBeGreaterThan(10 * mega);
});
