/** Leaks are detected, and series that only look like leaks are not. */
import { expect, test } from "vitest";
import { grows, riseOf } from "../../../dev/soak/growth.ts";

const samples = 360;
const series = (value: (at: number) => number) => Array.from({ length: samples }, (_, at) => value(at));
const bound = { share: 0.05, more: 8 };
/** The same values in every run, between -1 and 1. */
const noise = (at: number) => Math.sin(at * 12.9898);

const leaks: readonly (readonly [string, (at: number) => number])[] = [
  ["a little with each sample", (at) => 200 + at / 6],
  ["a little, below much noise", (at) => 200 + at / 6 + 20 * noise(at)],
  ["a little, below collections of garbage", (at) => 200 + at / 6 + (at % 10) * 4],
  ["only in the second half", (at) => 200 + Math.max(0, at - samples / 2) / 4],
];

test.each(leaks.map(([what, value]) => ({ what, value })))("it grows: $what", ({ value }) => {
  expect(grows(series(value), bound)).toBe(true);
});

const flat: readonly (readonly [string, (at: number) => number])[] = [
  ["nothing moves", () => 200],
  ["noise", (at) => 200 + 30 * noise(at)],
  ["garbage is collected", (at) => 180 + (at % 10) * 4],
  ["it is filled in the first half", (at) => Math.min(200, 100 + at)],
  ["it gets less", (at) => 300 - at / 6],
];

test.each(flat.map(([what, value]) => ({ what, value })))("it does not grow: $what", ({ value }) => {
  expect(grows(series(value), bound)).toBe(false);
});

test("the rise is that of the second half", () => {
  expect(riseOf(series((at) => at))).toBeCloseTo(samples / 2 - 1);
  expect(riseOf([])).toBe(0);
  expect(riseOf([7])).toBe(0);
});
