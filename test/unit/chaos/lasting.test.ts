import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLasting } from "../../../dev/chaos/lasting.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Records which ends of a state took place. */
function aState() {
  const lasting = createLasting();
  const ended: string[] = [];
  const last = (name: string, forMs: number | undefined, state = "API away") =>
    lasting.last(state, forMs, () => ended.push(name));
  return { lasting, ended, last };
}

test("a state ends after its time", () => {
  const { ended, last } = aState();
  last("first", 5_000);
  vi.advanceTimersByTime(4_999);
  expect(ended).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(ended).toEqual(["first"]);
});

test("of two overlapping faults of one state, the later end counts, whichever began first", () => {
  const { ended, last } = aState();
  last("long", 12_000);
  last("short", 5_000);
  vi.advanceTimersByTime(11_999);
  expect(ended).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(ended).toEqual(["long"]);

  last("short", 5_000);
  last("long", 12_000);
  vi.advanceTimersByTime(5_000);
  expect(ended).toEqual(["long"]);
  vi.advanceTimersByTime(7_000);
  expect(ended).toEqual(["long", "long"]);
});

test("a state that lasts until everything is healed is not ended by a shorter fault", () => {
  const { ended, last } = aState();
  last("for good", undefined);
  last("short", 5_000);
  vi.advanceTimersByTime(60_000);
  expect(ended).toEqual([]);
});

test("different states end independently, and none after all were stopped", () => {
  const { lasting, ended, last } = aState();
  last("r1", 5_000, "API silent to r1");
  last("r2", 2_000, "API silent to r2");
  vi.advanceTimersByTime(2_000);
  expect(ended).toEqual(["r2"]);
  lasting.stop();
  vi.advanceTimersByTime(60_000);
  expect(ended).toEqual(["r2"]);
});
