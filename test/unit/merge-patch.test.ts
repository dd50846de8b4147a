import fc from "fast-check";
import { expect, test } from "vitest";
import { applyMergePatch, mergePatch } from "../../src/kit/merge-patch.ts";

test("a removed field is set to null", () => {
  expect(mergePatch({ objects: [1], id: "a" }, { id: "b" })).toEqual({ objects: null, id: "b" });
});

test("a field whose name every JavaScript object has is removed like any other", () => {
  expect(mergePatch({ args: { constructor: "a" } }, { args: {} })).toEqual({ args: { constructor: null } });
});

test("applying the patch gives exactly the wanted object", () => {
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.string(),
      fc.integer(),
      fc.array(fc.integer()),
      fc.dictionary(fc.string({ minLength: 1 }), tie("value")),
    ),
  })).value;
  fc.assert(
    fc.property(json, json, (before, after) => {
      expect(applyMergePatch(before, mergePatch(before, after))).toEqual(after);
    }),
  );
});

test("a key called __proto__ is a key like any other", () => {
  const patch: unknown = JSON.parse('{"a": {"__proto__": {"b": 1}}}');
  expect(JSON.stringify(applyMergePatch({ a: { c: 2 } }, patch))).toBe('{"a":{"c":2,"__proto__":{"b":1}}}');
  expect(JSON.stringify(mergePatch(patch, { a: {} }))).toBe('{"a":{"__proto__":null}}');
});
