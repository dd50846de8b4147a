import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Heap, heapOfProcess, startReturningMemory } from "../../../src/cli/return-memory.ts";
import { createLogger } from "../../../src/log.ts";
import { patience } from "../../support/patience.ts";

const mega = 1024 * 1024;
const log = createLogger({ level: "silent", format: "json" });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Of what it holds, 80 MB are needed. */
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

test("what the start has left behind is given back once the server is quiet, and then there is nothing to do", async () => {
  const { heap, state } = aHeap(130);
  state.busy = 0.5;
  const stop = startReturningMemory(log, heap);
  await aWhile();
  expect(state.collected).toBe(0);
  state.busy = 0.01;
  await aWhile();
  expect(state).toMatchObject({ collected: 1, held: 80 });
  state.held = 95; // what comes and goes
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

test("a server that is calm gives memory back too, but seldom", async () => {
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
    state.busy = 0.5; // it is needed, now and then
    await vi.advanceTimersByTimeAsync(10_000);
    state.busy = 0.1;
    await vi.advanceTimersByTimeAsync(50_000);
  }
  expect(state.collected).toBe(2);
  stop();
});

test("what a server needed for its work it gives back when it has hardly any, once", async () => {
  const { heap, state } = aHeap(130);
  state.busy = 0.12;
  const stop = startReturningMemory(log, heap);
  await aWhile();
  expect(state.collected).toBe(1);
  state.held = 100; // less than what would be worth it
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

test("what is given back only some seconds later is not taken for needed", async () => {
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

test("what V8 has taken for a rush, it gives back when it is told to", async () => {
  vi.useRealTimers();
  const heap = heapOfProcess();
  let rush: string[][] | undefined = Array.from({ length: 400_000 }, (_, i) => [`${i}`]);
  expect(rush).toHaveLength(400_000);
  const before = heap.heldBytes();
  rush = undefined;
  heap.collect();
  await expect.poll(() => before - heap.heldBytes(), patience).toBeGreaterThan(10 * mega);
});
