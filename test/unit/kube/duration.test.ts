import fc from "fast-check";
import { expect, test } from "vitest";
import { formatDuration, formatDurationNs, parseDuration, parseDurationNs } from "../../../src/kube/duration.ts";

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });

test("whatever is written is read as the same", () => {
  fc.assert(
    fc.property(int64, (ns) => {
      expect(parseDurationNs(formatDurationNs(ns))).toBe(ns);
    }),
  );
});

test("no text makes it throw", () => {
  const parts = fc.constantFrom("1", "05", ".", "h", "m", "s", "ms", "\u00b5s", "-", "+", " ");
  const almost = fc.array(parts).map((list) => list.join(""));
  fc.assert(
    fc.property(fc.oneof(fc.string(), almost), (text) => {
      expect(["number", "undefined"]).toContain(typeof parseDuration(text));
    }),
  );
});

// Both columns are what Go's time.ParseDuration and Duration.String gave.
test.for([
  ["0", "0s"],
  ["30s", "30s"],
  ["1h30m", "1h30m0s"],
  ["1.5h", "1h30m0s"],
  ["90s", "1m30s"],
  [".5s", "500ms"],
  ["1.s", "1s"],
  ["-5m", "-5m0s"],
  ["+5m", "5m0s"],
  ["1500us", "1.5ms"],
  ["1\u03bcs", "1\u00b5s"],
  ["1.0000000001s", "1s"],
  ["100h1ns", "100h0m0.000000001s"],
  ["-9223372036854775808ns", "-2562047h47m16.854775808s"],
] as const)("%s is %s", ([text, go]) => {
  expect(formatDurationNs(parseDurationNs(text) ?? -1n)).toBe(go);
});

test.for(["", "-", "5", "5x", "1h 30m", ".s", "h", "1..5s", "--5s", "9223372036854775808ns", "3000000h", "1d", "1H"])(
  "%j is no duration",
  (text) => {
    expect(parseDuration(text)).toBeUndefined();
  },
);

test("milliseconds are the unit inside", () => {
  expect(parseDuration("1m30.5s")).toBe(90_500);
  expect(formatDuration(90_500)).toBe("1m30.5s");
});
