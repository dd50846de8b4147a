/**
 * How the risks read an object, which may have any shape and any size. Nothing here throws, and a value of another type
 * than expected counts as absent.
 */
import { field, isRecord } from "../../kit/json.ts";
import type { ObjectRef } from "../../model.ts";

/** Group and kind, such as `apps/Deployment` and `/Pod`. */
export function idOf({ group, kind }: ObjectRef): string {
  return `${group ?? ""}/${kind}`;
}

export function listIn(value: unknown, ...names: readonly string[]): readonly unknown[] {
  const found = field(value, ...names);
  return Array.isArray(found) ? found : [];
}

/** `""` if there is none. */
export function textIn(value: unknown, ...names: readonly string[]): string {
  const found = field(value, ...names);
  return typeof found === "string" ? found : "";
}

export function textsIn(value: unknown, ...names: readonly string[]): readonly string[] {
  return listIn(value, ...names).filter((each) => typeof each === "string");
}

/** The fields of a mapping, whose names a user may have chosen. */
export function entriesIn(value: unknown, ...names: readonly string[]): ReadonlyMap<string, unknown> {
  const found = field(value, ...names);
  return new Map(isRecord(found) ? Object.entries(found) : []);
}
