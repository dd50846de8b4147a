/** Prepares a masked result, or the drift in a status, for display. Pure. */
import { z } from "zod";
import type { FieldChange, ObjectRef, ResultError } from "../model.ts";
import { type MaskedResult, unifiedDiffOf } from "../redact/mask-result.ts";

export interface ShownObject {
  /** `Deployment shop/frontend` */
  readonly object: string;
  readonly action: "new" | "changed" | "deleted" | "orphan";
  readonly changes: readonly ShownChange[];
  /** The number of changes not shown. */
  readonly changesLeftOut: number;
}

export interface ShownChange {
  readonly path: string;
  /** Lines starting with `+`, `-` or a space. */
  readonly diff: string;
}

export interface ShownProblem {
  readonly object?: string | undefined;
  readonly message: string;
}

export interface ShownObjects {
  readonly objects: readonly ShownObject[];
  /** The number of objects not shown. */
  readonly objectsLeftOut: number;
}

export interface ShownResult extends ShownObjects {
  /** What it was rendered from beside the deployment's own source. */
  readonly renderedFrom?: readonly string[] | undefined;
  readonly errors: readonly ShownProblem[];
  readonly warnings: readonly ShownProblem[];
}

/** No user reads more than this, and a browser has to hold it. */
const most = { objects: 300, changes: 50, diffLength: 4_000, problems: 100 };

type Differing = {
  readonly ref: ObjectRef;
  readonly changes: readonly FieldChange[];
  readonly new?: boolean | undefined;
  readonly orphan?: boolean | undefined;
  readonly deleted?: boolean | undefined;
};

export function showResult({ objects, errors, warnings }: MaskedResult): ShownResult {
  return { ...showObjects(objects), errors: showProblems(errors), warnings: showProblems(warnings) };
}

/** The objects that differ in any way. */
function showObjects(objects: readonly Differing[]): ShownObjects {
  const differing = objects.flatMap((object) => {
    const action = actionOf(object);
    return action === undefined ? [] : [{ object, action }];
  });
  return {
    objects: differing.slice(0, most.objects).map(({ object, action }) => ({
      object: refText(object.ref),
      action,
      changes: object.changes.slice(0, most.changes).map(showChange),
      changesLeftOut: Math.max(0, object.changes.length - most.changes),
    })),
    objectsLeftOut: Math.max(0, differing.length - most.objects),
  };
}

const Ref = z.object({
  group: z.string().optional(),
  kind: z.string(),
  name: z.string(),
  namespace: z.string().optional(),
});
const Drift = z.object({
  ref: Ref,
  changes: z
    .array(
      z.object({
        type: z.enum(["insert", "update", "delete"]).catch("update"),
        jsonPath: z.string(),
        oldValue: z.unknown().optional(),
        newValue: z.unknown().optional(),
        unifiedDiff: z.string().optional(),
      }),
    )
    .catch([]),
  new: z.boolean().optional(),
  orphan: z.boolean().optional(),
  deleted: z.boolean().optional(),
});

/** The drift in a status, which is already masked. Unreadable entries count as absent. */
export function showDrift(document: Readonly<Record<string, unknown>> | undefined): ShownObjects {
  return showObjects(listOf(document, "objects").flatMap((object) => Drift.safeParse(object).data ?? []));
}

const Problem = z.object({ ref: Ref.catch({ kind: "", name: "" }), message: z.string() });

/** The `errors` or `warnings` of a result in a status. */
export function showStatusProblems(
  document: Readonly<Record<string, unknown>> | undefined,
  which: "errors" | "warnings",
): readonly ShownProblem[] {
  return showProblems(listOf(document, which).flatMap((problem) => Problem.safeParse(problem).data ?? []));
}

function listOf(document: Readonly<Record<string, unknown>> | undefined, field: string): readonly unknown[] {
  const list = document?.[field];
  return Array.isArray(list) ? list : [];
}

function showProblems(problems: readonly ResultError[]): ShownProblem[] {
  const shown = problems.slice(0, most.problems).map(({ ref, message }) => ({
    object: ref.kind === "" ? undefined : refText(ref),
    message: shortened(message),
  }));
  const leftOut = problems.length - shown.length;
  return leftOut > 0 ? [...shown, { object: undefined, message: `and ${leftOut} more` }] : shown;
}

function actionOf(object: Differing): ShownObject["action"] | undefined {
  if (object.new) return "new";
  if (object.deleted) return "deleted";
  if (object.orphan) return "orphan";
  return object.changes.length > 0 ? "changed" : undefined;
}

function showChange({ jsonPath, oldValue, newValue, unifiedDiff }: FieldChange): ShownChange {
  return { path: jsonPath, diff: shortened(unifiedDiff ?? unifiedDiffOf(oldValue, newValue)) };
}

function shortened(text: string): string {
  return text.length <= most.diffLength ? text : `${text.slice(0, most.diffLength)}…`;
}

function refText({ kind, name, namespace }: ObjectRef): string {
  return `${kind} ${namespace ? `${namespace}/` : ""}${name}`;
}
