import fc from "fast-check";
import { expect, test } from "vitest";
import { diffLines, type DiffLine } from "../../../src/kit/line-diff.ts";

function read(lines: readonly DiffLine[], before: readonly string[], after: readonly string[]): string[] {
  return lines.map(({ sign, at }) => `${sign}${(sign === "-" ? before : after)[at]}`);
}

test("a changed line stands between the unchanged lines, the old one first", () => {
  const [before, after] = [
    ["a", "b", "c", "d"],
    ["a", "x", "c", "d", "e"],
  ];
  expect(read(diffLines(before, after), before, after)).toEqual([" a", "-b", "+x", " c", " d", "+e"]);
});

test("both texts can be rebuilt from their diff, which has as few edits as possible", () => {
  const text = fc.array(fc.constantFrom("a", "b", "c"), { maxLength: 20 });
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after);
      const without = (sign: string) => lines.filter((line) => line.sign !== sign);
      expect(read(without("+"), before, after).map((line) => line.slice(1))).toEqual(before);
      expect(read(without("-"), before, after).map((line) => line.slice(1))).toEqual(after);
      expect(without("+").length - without(" ").filter(({ sign }) => sign === "-").length).toBe(common(before, after));
    }),
  );
});

test("texts that have nothing in common are replaced without a long search", () => {
  const lines = (mark: string) => Array.from({ length: 20_000 }, (_, i) => `${mark}${i}`);
  const all = diffLines(lines("a"), lines("b"));
  expect(all).toHaveLength(40_000);
  expect(all[0]).toEqual({ sign: "-", at: 0 });
  expect(all.at(-1)).toEqual({ sign: "+", at: 19_999 });
});

/** The length of the longest common subsequence, by the textbook algorithm. */
function common(one: readonly string[], other: readonly string[]): number {
  let row = Array.from({ length: other.length + 1 }, () => 0);
  for (const line of one) {
    const next = [0];
    other.forEach((each, i) => next.push(each === line ? row[i]! + 1 : Math.max(row[i + 1]!, next[i]!)));
    row = next;
  }
  return row.at(-1)!;
}
