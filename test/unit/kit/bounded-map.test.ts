import { expect, test } from "vitest";
import { createBoundedMap } from "../../../src/kit/bounded-map.ts";

test("the least recently used entry is removed first", () => {
  const map = createBoundedMap<number>({ entries: 3 });
  for (const [index, key] of ["a", "b", "c"].entries()) map.set(key, index);
  map.get("a");
  map.set("b", 10);
  map.set("d", 3);
  expect(["a", "b", "c", "d"].map((key) => map.get(key))).toEqual([0, 10, undefined, 3]);
  expect([...map.values()]).toEqual([0, 10, 3]);
});

test("entries of a greater weight than allowed are not kept together, and one that is too heavy not at all", () => {
  const map = createBoundedMap<string>({ entries: 10, weight: 5 }, ({ length }) => length);
  map.set("a", "aa");
  map.set("b", "bb");
  map.set("c", "c");
  expect(map.values()).toEqual(["aa", "bb", "c"]);
  map.set("b", "b");
  map.set("d", "d");
  expect(map.values()).toEqual(["aa", "c", "b", "d"]);
  map.set("e", "ee");
  expect(map.values()).toEqual(["c", "b", "d", "ee"]);
  map.set("b", "far too long");
  expect(map.get("b")).toBeUndefined();
  map.clear();
  map.set("f", "fffff");
  expect(map.values()).toEqual(["fffff"]);
});

test("deleted entries are gone, and make room", () => {
  const map = createBoundedMap<number>({ entries: 2 });
  map.set("a", 1);
  map.set("b", 2);
  expect([map.delete("b"), map.delete("b")]).toEqual([true, false]);
  map.set("c", 3);
  expect([...map.values()]).toEqual([1, 3]);
  map.clear();
  expect([...map.values()]).toEqual([]);
});

test("an entry is returned until it reaches the maximum age, however often it is used, unless it is set again", () => {
  let now = 0;
  const map = createBoundedMap<string>({ entries: 10, maxAgeMs: 10, now: () => now });
  map.set("a", "first");
  map.set("b", "first");
  now = 9;
  map.set("b", "second");
  expect([map.get("a"), map.get("b")]).toEqual(["first", "second"]);
  now = 10;
  expect([map.get("a"), map.get("b")]).toEqual([undefined, "second"]);
});

test("entries that were not used for the maximum age are not kept, even if there is room for them", () => {
  let now = 0;
  const map = createBoundedMap<string>({ entries: 10, maxAgeMs: 10, now: () => now });
  map.set("a", "a");
  now = 5;
  map.set("b", "b");
  map.get("a");
  now = 15;
  map.set("c", "c");
  expect([...map.values()]).toEqual(["c"]);
});
