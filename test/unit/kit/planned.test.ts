import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { createPlanned } from "../../../src/kit/planned.ts";

beforeEach(() => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
});

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

function setUp(work = () => Promise.resolve()) {
  const done: number[] = [];
  const planned = createPlanned(() => {
    done.push(performance.now() - startedAt);
    return work();
  });
  const startedAt = performance.now();
  return { done, planned };
}

test("what is planned several times is done once, at the earliest of the times", async () => {
  const { done, planned } = setUp();
  planned.plan(30_000);
  await pass(1_000);
  planned.plan(500);
  planned.plan(10_000);
  await pass(60_000);
  expect(done).toEqual([1_500]);
  planned.plan(500);
  await pass(60_000);
  expect(done).toHaveLength(2);
});

test("after it was stopped, nothing is done, whatever was planned before or is planned later", async () => {
  const { done, planned } = setUp();
  planned.plan(500);
  planned.stop();
  planned.plan(500);
  await pass(60_000);
  expect(done).toEqual([]);
});

test("what is planned at the end is done at once, and what has begun is waited for", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const { done, planned } = setUp(() => promise);
  planned.plan(100);
  await pass(100);
  planned.plan(30_000);
  let hasFinished = false;
  const finished = planned.finish().then(() => (hasFinished = true));
  planned.plan(100);
  await pass(60_000);
  expect(done).toEqual([100, 100]);
  expect(hasFinished).toBe(false);
  resolve();
  await finished;
  expect(done).toHaveLength(2);
});

test("the end does nothing if nothing is planned", async () => {
  const { done, planned } = setUp();
  await planned.finish();
  expect(done).toEqual([]);
});
