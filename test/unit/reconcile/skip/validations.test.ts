import { expect, test } from "vitest";
import { annotation } from "../../../../src/model.ts";
import { createValidations } from "../../../../src/skipping/validations.ts";
import { anObject, aValidation } from "../../../support/deployments.ts";
import { appliedObject, aRendered, aStanding } from "../../../support/skipping.ts";

const found = aValidation({ id: "v1", endTime: "2026-01-01T00:00:00Z" });
const spec = { validate: true };
const validated = aStanding({ spec, status: { lastValidateResult: found } });
const objects = (more: object = {}) => aRendered({ objects: [appliedObject("Deployment", "apps/v1", more)] });

function aMemory() {
  const clock = { at: 0 };
  return { clock, ...createValidations({ fullIntervalMs: () => 3_600_000, clock: { now: () => clock.at } }) };
}

test("a validation is valid for an hour, while it is the last one and its objects are unchanged", () => {
  const { keep, stands, clock } = aMemory();
  expect(stands(validated, objects())).toBe(false);
  keep(validated, objects(), found);
  expect(stands(validated, objects())).toBe(true);
  clock.at = 3_599_999;
  expect(stands(validated, objects())).toBe(true);
  clock.at = 3_600_000;
  expect(stands(validated, objects())).toBe(false);
});

test.each([
  ["an object is another", objects({ resourceVersion: "11" })],
  ["nothing but a status is another", objects({ resourceVersion: "11", generation: 1 })],
  ["an object was made anew", objects({ uid: "another" })],
  ["an object is gone", aRendered({ objects: [anObject({ new: true, rendered: "{}" })] })],
  ["there is one more", aRendered({ objects: [appliedObject("Deployment", "apps/v1"), appliedObject()] })],
  ["the project renders to something else", { ...objects(), objectsHash: "hash-2" }],
])("a validation is repeated: %s", (_, seen) => {
  const { keep, stands } = aMemory();
  keep(validated, objects(), found);
  expect(stands(validated, seen)).toBe(false);
});

test.each([
  ["another one has been done since", aStanding({ spec, status: { lastValidateResult: { ...found, id: "v2" } } })],
  ["its spec is another", { ...validated, generation: 2 }],
  ["it is another resource", { ...validated, uid: "another" }],
  ["somebody says how often", aStanding({ spec: { ...spec, validateIntervalMs: 1 }, status: validated.status })],
  ["somebody wants all of it", { ...validated, annotations: { [annotation.fullInterval]: "0" } }],
])("a validation is repeated, whatever the objects are: %s", (_, deployment) => {
  const { keep, stands } = aMemory();
  keep(validated, objects(), found);
  expect(stands(deployment, objects())).toBe(false);
});

test("validations with problems, hooks, or objects that kluctl does not report are repeated each time", () => {
  const { keep, stands } = aMemory();
  keep(validated, objects(), { ...found, errors: 1 });
  expect(stands(validated, objects())).toBe(false);
  keep(validated, objects(), { ...found, warnings: 1 });
  expect(stands(validated, objects())).toBe(false);
  const hook = aRendered({ objects: [{ ...appliedObject(), hook: true }] });
  keep(validated, hook, found);
  expect(stands(validated, hook)).toBe(false);
});
