/** Random values of charts, by four renders: the base's two and the merge's two. */
import { expect, test } from "vitest";
import { foldRandom } from "../../../../src/preview/flux/releases/random.ts";

const foldTexts = (base: readonly [string, string], merged: readonly [string, string]) => {
  const of = (text: string) => ({ data: { a: text } });
  const { object, paths } = foldRandom({ base: [of(base[0]), of(base[1])], merged: [of(merged[0]), of(merged[1])] });
  return { text: (object as { data: { a: string } }).data.a, paths };
};

test("what is random in both commits becomes the base's", () => {
  expect(foldTexts(["x1", "x2"], ["x3", "x4"])).toEqual({ text: "x1", paths: ["data.a"] });
  expect(foldTexts(['{"a":"x1","b":1}', '{"a":"x2","b":1}'], ['{"a":"x3","b":2}', '{"a":"x4","b":2}']).text).toBe(
    '{"a":"x1","b":2}',
  );
  // With other punctuation each time, it is not known where in the line the value ends.
  expect(foldTexts(["a: x!", "a: y"], ["a: z", "a: z?!z"]).text).toBe("a: x!");
});

test("what is random in one commit only is shown", () => {
  expect(foldTexts(["x1", "x2"], ["fixed", "fixed"])).toEqual({ text: "fixed", paths: [] });
  expect(foldTexts(["fixed", "fixed"], ["x1", "x2"])).toEqual({ text: "x1", paths: [] });
  expect(foldTexts(["a x1\nb", "a x2\nb"], ["a x3\nb x4", "a x5\nb x6"])).toEqual({ text: "a x3\nb x4", paths: [] });
  expect(foldTexts(["a x1\nb", "a x2\nb"], ["a x3\nb", "a\nx4\nb"])).toEqual({ text: "a x3\nb", paths: [] });
});

test("the time of a render is no change, also if both renders of the merge have the same", () => {
  expect(foldTexts(["at 1", "at 2"], ["at 2", "at 2"]).text).toBe("at 1");
});

test("lists and nested fields are folded one by one", () => {
  const of = (token: string, level: number) => ({ list: [{ token, level }], more: { level } });
  const { object, paths } = foldRandom({ base: [of("x1", 1), of("x2", 1)], merged: [of("x3", 2), of("x4", 2)] });
  expect(object).toEqual(of("x1", 2));
  expect(paths).toEqual(["list[0].token"]);
});
