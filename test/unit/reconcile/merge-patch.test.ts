import fc from "fast-check";
import { expect, test } from "vitest";
import { mergePatch } from "../../../src/reconcile/merge-patch.ts";

/** RFC 7386, section 2. */
function apply(target: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Record<string, unknown> =
    typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name];
    else result[name] = apply(result[name], value);
  }
  return result;
}

test("what is gone is named, so that it does not stay", () => {
  expect(mergePatch({ objects: [1], id: "a" }, { id: "b" })).toEqual({ objects: null, id: "b" });
});

test("applying the patch gives exactly what was wanted", () => {
  const json = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 3 },
      fc.string(),
      fc.integer(),
      fc.array(fc.integer()),
      fc.dictionary(
        fc.string({ minLength: 1 }).filter((key) => key !== "__proto__"),
        tie("value"),
      ),
    ),
  })).value;
  fc.assert(
    fc.property(json, json, (before, after) => {
      expect(apply(before, mergePatch(before, after))).toEqual(after);
    }),
  );
});
