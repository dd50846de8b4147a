import { expect, test } from "vitest";
import { createGrowingPauses } from "../../../src/kit/growing-pauses.ts";

test("pauses grow with the time since the first attempt, up to a limit, until they end", () => {
  const clock = { now: 5_000 };
  const pauses = createGrowingPauses({ leastMs: 10, mostMs: 100, forMs: 500, entries: 10, now: () => clock.now });
  const after = (ms: number) => {
    clock.now = 5_000 + ms;
    return pauses.next("a");
  };
  expect([0, 10, 60, 300, 499, 500, 501].map(after)).toEqual([10, 10, 30, 100, 100, undefined, undefined]);
  expect(pauses.next("b"), "each subject has its own").toBe(10);
  pauses.end("a");
  expect(pauses.next("a")).toBe(10);
});
