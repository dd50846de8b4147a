/**
 * Finds the changes that deserve a second look, and describes their consequences. Pure. Every text consists of fixed
 * words, numbers and names of fields, because the comment shows it without a redactor.
 */
import type { ResultError, ResultObject } from "../model.ts";
import type { PreviewObject, Risk } from "../model/report.ts";
import { lengthOfTexts } from "../redact/weight.ts";
import { describeBudget, isDisruptionBudget, isLimit, type Neighbours } from "./risks/budgets.ts";
import { hasImmutableFields } from "./risks/immutable.ts";
import { lossOf } from "./risks/losses.ts";
import { hasPods, isScalable } from "./risks/pods.ts";
import { describePrivileges } from "./risks/privileges.ts";
import { reachOf } from "./risks/reach.ts";
import { refusalOf } from "./risks/refused.ts";
import { describeRights } from "./risks/rights.ts";
import { noStates, statesOf } from "./risks/states.ts";
import { describeStorage } from "./risks/storage.ts";
import { describeWorkload } from "./risks/workloads.ts";

interface Question {
  readonly object: ResultObject;
  readonly action: PreviewObject["action"];
  /** kluctl's errors about this object. */
  readonly errors: readonly ResultError[];
  /** What the same result has in a namespace. */
  readonly near: (namespace: string) => Neighbours;
}

export function findRisks({ object, action, errors, near }: Question): Risk[] {
  const { ref } = object;
  const states = action === "new" || action === "changed" ? statesOf(object) : noStates;
  const rights = describeRights(ref, states);
  return [
    ...risks("deletion", action === "deleted" ? lossOf(object) : undefined),
    ...risks("immutable", refusalOf(object, action, errors, states)),
    ...risks("availability", ...describeStorage(ref, states)),
    ...risks("availability", ...describeWorkload(ref, states)),
    ...risks("availability", ...describeBudget(ref, states, near)),
    ...risks("security", ...describePrivileges(ref, states)),
    ...risks("security", ...rights),
    ...risks("far-reaching", rights.length === 0 ? reachOf(object, action) : undefined),
  ];
}

function risks(kind: Risk["kind"], ...texts: readonly (string | undefined)[]): Risk[] {
  return texts.filter((text) => text !== undefined).map((text) => ({ kind, text }));
}

/** The length of the texts that are parsed to find the risks of a result. */
export function lengthOfStates(objects: readonly ResultObject[]): number {
  const touched = objects.filter(({ new: isNew, changes }) => isNew || changes.length > 0);
  const limits = objects.filter(({ ref }) => isLimit(ref));
  const needsAll =
    touched.some(({ ref }) => isDisruptionBudget(ref)) ||
    (limits.length > 0 && touched.some(({ ref }) => isScalable(ref)));
  const workloads = needsAll ? [...limits, ...objects.filter(({ ref }) => hasPods(ref))] : [];
  const compared = touched.filter(({ ref }) => hasPods(ref) || hasImmutableFields(ref));
  return lengthOfTexts({ objects: [...new Set([...workloads, ...compared])] });
}
