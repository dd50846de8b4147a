import { Counter, Histogram, Registry } from "prom-client";
import { expect, test } from "vitest";
import { addTextGauge, addTextHistogram, TextRegistry } from "../../../src/metrics/text-metrics.ts";

const buckets = [0.1, 0.5, 1];
const named = { name: "seconds", help: "How long.", labelNames: ["name"] };

test("a histogram has the same output as prom-client's", async () => {
  const registry = new TextRegistry();
  const ours = addTextHistogram(registry, { ...named, buckets });
  const others = new Registry();
  const theirs = new Histogram({ ...named, buckets, registers: [others] });
  for (const [name, value] of [
    ["a", 0.1],
    ["a", 0.3],
    ["a", 7],
    ['quotes " and \\ and\nlines', 0.01],
  ] as const) {
    ours.observe({ name }, value);
    theirs.observe({ name }, value);
    expect(await registry.metrics()).toBe(await others.metrics());
  }
  ours.remove({ name: "a" });
  theirs.remove({ name: "a" });
  expect(await registry.metrics()).toBe(await others.metrics());
});

test("an object's values are read once for each version", async () => {
  const registry = new TextRegistry();
  const things = [{ value: 1 }, { value: 2 }];
  const reads: number[] = [];
  let version = 1;
  addTextGauge<{ value: number }>(registry, named, {
    all: () => things,
    version: () => version,
    read({ value }) {
      reads.push(value);
      return value === 1 ? [] : [[value, { name: `n${value}` }]];
    },
  });
  const lines = "# HELP seconds How long.\n# TYPE seconds gauge\n";
  expect(await registry.metrics()).toBe(`${lines}seconds{name="n2"} 2\n`);
  things[1] = { value: 3 };
  expect(await registry.metrics()).toBe(`${lines}seconds{name="n3"} 3\n`);
  expect(reads).toEqual([1, 2, 3]);
  version = 2;
  await registry.metrics();
  expect(reads).toEqual([1, 2, 3, 1, 3]);
});

test("the pieces together are the whole output, and none of them is large", async () => {
  const registry = new TextRegistry();
  new Counter({ name: "before", help: "One of prom-client's.", registers: [registry] }).inc(7);
  const histogram = addTextHistogram(registry, { ...named, buckets });
  for (let i = 0; i < 1_234; i++) histogram.observe({ name: `deployment-${i}` }, 0.3);
  addTextGauge<{ value: number }>(registry, { ...named, name: "nothing" }, { all: () => [], read: () => [] });
  const pieces: string[] = [];
  for await (const piece of registry.pieces()) pieces.push(piece);
  expect(pieces.join("")).toBe(await registry.metrics());
  expect(pieces.length).toBeGreaterThan(10);
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(64 * 1024);
});
