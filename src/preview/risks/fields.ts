/**
 * How the risks read an object, which may have any shape and any size. Nothing here throws, and a value of another type
 * than expected counts as absent.
 */
import type { ObjectRef } from "../../model.ts";

/** Group and kind, such as `apps/Deployment` and `/Pod`. */
export function idOf({ group, kind }: ObjectRef): string {
  return `${group ?? ""}/${kind}`;
}

/** Only properties of the value itself: every object inherits a `constructor`. */
export function field(value: unknown, ...names: readonly string[]): unknown {
  let at = value;
  for (const name of names) at = isRecord(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  return at;
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

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
