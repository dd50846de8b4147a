/**
 * How the risks read an object, which may have any shape. Nothing here throws.
 */
import type { FieldChange, ObjectRef } from "../../model.ts";

export function idOf({ group, kind }: ObjectRef): string {
  return `${group ?? ""}/${kind}`;
}

/** kluctl writes `spec.ports[0].port` and `metadata.labels["a.b/c"]`. */
export function pathOf({ jsonPath }: FieldChange): string {
  return jsonPath.replace(/^\$?\.?/, "");
}

export function field(value: unknown, ...names: readonly string[]): unknown {
  let at = value;
  for (const name of names)
    at = typeof at === "object" && at !== null ? (at as Record<string, unknown>)[name] : undefined;
  return at;
}
