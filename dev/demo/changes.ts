/** Describes what changed in an object. Pure. */
import type { KubernetesObject } from "./cluster.ts";

export interface Change {
  /** `spec.template.spec.containers[0].image` */
  readonly path: string;
  readonly from: unknown;
  readonly to: unknown;
}

/**
 * Compares the desired state of two versions; what the cluster reports about the object (metadata, status) is ignored.
 */
export function findChanges(before: KubernetesObject, after: KubernetesObject): Change[] {
  return [...compare(before.spec, after.spec, "spec"), ...compare(before.data, after.data, "data")];
}

function compare(from: unknown, to: unknown, path: string): Change[] {
  if (!isContainer(from) || !isContainer(to) || Array.isArray(from) !== Array.isArray(to)) {
    return from === to ? [] : [{ path, from, to }];
  }
  const keys = new Set([...Object.keys(from), ...Object.keys(to)]);
  const pathOf = (key: string) => (Array.isArray(from) ? `${path}[${key}]` : `${path}.${key}`);
  return [...keys].flatMap((key) => compare(from[key], to[key], pathOf(key)));
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

/** `image 1.4.2 → 1.5.0`; omits the part of an image's name that stays the same. */
export function shortChange({ path, from, to }: Change): string {
  const name = path.split(".").at(-1) ?? path;
  const [was, is] = [shortValue(from), shortValue(to)];
  const [, common] = /^(.*:)[^:/]+$/.exec(was) ?? [];
  return common && is.startsWith(common)
    ? `${name} ${was.slice(common.length)} → ${is.slice(common.length)}`
    : `${name} ${was} → ${is}`;
}

/** The lines of a diff. */
export function longChange({ path, from, to }: Change): string[] {
  const side = (sign: string, value: unknown) => (value === undefined ? [] : [`${sign} ${shortValue(value)}`]);
  return [`  ${path}`, ...side("-", from), ...side("+", to)];
}

function shortValue(value: unknown): string {
  const text = value === undefined ? "nothing" : typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 120 ? `${text.slice(0, 120)}…` : text;
}
