/** Finds the risks of one object, as the tests of the risks describe it. */
import type { FieldChange, ResultError, ResultObject } from "../../../../src/model.ts";
import type { PreviewObject, Risk } from "../../../../src/model/report.ts";
import { findRisks } from "../../../../src/preview/risks.ts";
import { createNeighbours } from "../../../../src/preview/risks/budgets.ts";
import { anObject } from "../../../support/deployments.ts";

/** `id` is group and kind, such as `apps/StatefulSet` or `/Secret`. */
export function objectOf(id: string, overrides: Partial<ResultObject> = {}): ResultObject {
  const [group, kind = ""] = id.split("/");
  return anObject({
    ref: { ...(group && { group }), version: "v1", kind, name: "it", namespace: "shop" },
    ...overrides,
  });
}

interface Circumstances {
  readonly action?: PreviewObject["action"];
  readonly errors?: readonly ResultError[];
  /** The other objects of the result. */
  readonly beside?: readonly ResultObject[];
}

export function risksOf(
  object: ResultObject,
  { action = "changed", errors = [], beside = [] }: Circumstances = {},
): Risk[] {
  return findRisks({ object, action, errors, near: createNeighbours([object, ...beside]) });
}

export function kindsOf(object: ResultObject, action: PreviewObject["action"]): Risk["kind"][] {
  return risksOf(object, { action }).map(({ kind }) => kind);
}

export function update(jsonPath: string, newValue: unknown = "b", oldValue: unknown = "a"): FieldChange {
  return { type: "update", jsonPath, oldValue, newValue };
}

/** An object that the merge changes; kluctl reports both of its states. */
export function changed(
  id: string,
  before: unknown,
  after: unknown,
  overrides: Partial<ResultObject> = {},
): ResultObject {
  const [remote, applied] = [JSON.stringify(before), JSON.stringify(after)];
  return objectOf(id, { changes: [update("spec")], remote, rendered: applied, applied, ...overrides });
}

export function created(id: string, rendered: unknown): ResultObject {
  return objectOf(id, { new: true, rendered: JSON.stringify(rendered) });
}

/** `availability: text` for each risk. */
export function linesOf(object: ResultObject, circumstances: Circumstances = {}): string[] {
  const action = object.new ? "new" : "changed";
  return risksOf(object, { action, ...circumstances }).map(({ kind, text }) => `${kind}: ${text}`);
}
