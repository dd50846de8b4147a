/** The judge of `npm run fuzz` finds faults, and the generated deliveries have the properties that they claim. */
import { expect, test } from "vitest";
import { readCorpus } from "../../../dev/fuzz/corpus.ts";
import { findGrowth, judge, mutantOf } from "../../../dev/fuzz/play.ts";
import { createTimes } from "../../../dev/fuzz/times.ts";

const corpus = readCorpus();
const genuine = { ...mutantOf(corpus, 1, 1), isGenuine: true, breaksOff: false };
const mutated = { ...genuine, isGenuine: false };

test.each([
  ["a fault", mutated, { status: 500 }, "answered with 500"],
  ["a Redis that is away, which it is not", mutated, { status: 503 }, "answered with 503"],
  ["a refused delivery that is genuine", genuine, { status: 400 }, "a valid delivery was answered with 400"],
  ["no answer", mutated, { status: "no answer" }, "no answer"],
  ["a refused delivery", mutated, { status: 400 }, undefined],
  ["one that was broken off by us", { ...mutated, breaksOff: true }, { status: "ECONNRESET" }, undefined],
] as const)("%s is judged", (_name, mutant, answer, expected) => {
  expect(judge(mutant, answer)).toBe(expected);
});

test("memory that grows from the second quarter to the last is reported", () => {
  const samples = (last: number) => Array.from({ length: 100 }, (_, i) => (i < 75 ? 200e6 : last));
  expect(findGrowth(samples(210e6))).toBeUndefined();
  expect(findGrowth(samples(300e6))).toBe("memory grew from 200 to 300 MB");
});

test("response times are recorded to a tenth of a millisecond", () => {
  const times = createTimes();
  expect(times.quantile(0.5)).toBeNaN();
  for (let ms = 1; ms <= 100; ms++) times.add(ms + 0.04);
  times.add(120_000);
  expect([times.quantile(0.01), times.quantile(0.5), times.quantile(0.99)]).toEqual([2, 51, 100]);
  expect(times.longest()).toBe(120_000);
});

test("a delivery can be generated again from its number", () => {
  const [one, again, other] = [mutantOf(corpus, 7, 42), mutantOf(corpus, 7, 42), mutantOf(corpus, 7, 43)];
  expect(again.body).toEqual(one.body);
  expect(again.path).toBe(one.path);
  expect(other.body).not.toEqual(one.body);
});

test("the deliveries include all hosts, and genuine deliveries of each", () => {
  const all = Array.from({ length: 2_000 }, (_, i) => mutantOf(corpus, 3, i));
  for (const kind of ["github", "gitlab", "gitea"]) {
    expect(all.some(({ path, isGenuine }) => isGenuine && path === `/webhooks/${kind}`)).toBe(true);
  }
});
