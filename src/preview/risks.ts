/** Finds the changes that deserve a second look, and describes their consequences. Pure. */
import type { ResultError, ResultObject } from "../model.ts";
import type { PreviewObject, Risk } from "../model/report.ts";
import { lossOf } from "./risks/losses.ts";
import { reachOf } from "./risks/reach.ts";
import { refusedFields } from "./risks/refused.ts";

interface Question {
  readonly object: ResultObject;
  readonly action: PreviewObject["action"];
  /** kluctl's errors about this object. */
  readonly errors: readonly ResultError[];
}

export function findRisks({ object, action, errors }: Question): Risk[] {
  const risks: Risk[] = [];
  const lost = action === "deleted" ? lossOf(object) : undefined;
  if (lost !== undefined) risks.push({ kind: "deletion", text: lost });
  const refused = refusedFields(object, action, errors);
  if (refused !== undefined) risks.push({ kind: "immutable", text: refused });
  const reach = action === "orphan" ? undefined : reachOf(object, action);
  if (reach !== undefined) risks.push({ kind: "far-reaching", text: reach });
  return risks;
}
