import fc from "fast-check";
import { expect, test } from "vitest";
import { parseDuration } from "../../../src/kit/duration.ts";
import { cpuMs } from "../../support/cpu-time.ts";

test("no text makes it throw", () => {
  const parts = fc.constantFrom("1", "05", ".", "h", "m", "s", "ms", "\u00b5s", "-", "+", " ");
  const almost = fc.array(parts).map((list) => list.join(""));
  fc.assert(
    fc.property(fc.oneof(fc.string(), almost), (text) => {
      expect(["number", "undefined"]).toContain(typeof parseDuration(text));
    }),
  );
});

// As Go's time.ParseDuration reads them.
test.for([
  ["0", 0],
  ["30s", 30_000],
  ["1h30m", 5_400_000],
  ["1.5h", 5_400_000],
  ["1m30.5s", 90_500],
  [".5s", 500],
  ["1.s", 1_000],
  ["-5m", -300_000],
  ["+5m", 300_000],
  ["1500us", 1.5],
  ["1\u03bcs", 0.001],
  ["100h1ns", 360_000_000.000001],
] as const)("%s is %d ms", ([text, ms]) => {
  expect(parseDuration(text)).toBeCloseTo(ms, 9);
});

test.for(["", "-", "5", "5x", "1h 30m", ".s", "h", "1..5s", "--5s", "9223372036854775808ns", "3000000h", "1d", "1H"])(
  "%j is not a duration",
  (text) => {
    expect(parseDuration(text)).toBeUndefined();
  },
);

test("a number of a million digits is parsed in less than a second", () => {
  const startedAt = cpuMs();
  expect(parseDuration(`1.${"9".repeat(1_000_000)}h`)).toBeCloseTo(7_200_000);
  expect(parseDuration(`${"9".repeat(1_000_000)}h`)).toBeUndefined();
  expect(cpuMs() - startedAt).toBeLessThan(1_000);
});
