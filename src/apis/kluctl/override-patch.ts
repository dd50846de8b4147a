/** Applies a one-time override to a resource: an RFC 7386 merge patch that may change only the spec. Pure. */
import type { JsonObject } from "../../kit/json.ts";
import { isDeepStrictEqual } from "node:util";
import { applyMergePatch } from "../../kit/merge-patch.ts";
import type { Deployment, MalformedDeployment } from "../../model.ts";
import { type Schema, specSchema } from "./crd.ts";
import { parseDeployment } from "./custom-resource.ts";

/** Returns a malformed deployment that states the problem if the patch cannot be applied. */
export function parseOverridden(resource: unknown, patch: JsonObject): Deployment | MalformedDeployment | undefined {
  const original = parseDeployment(resource);
  if (original === undefined) return undefined;
  const refuse = (problem: string): MalformedDeployment => ({ ...original, problem });

  const patched = applyMergePatch(resource, patch);
  if (!isDeepStrictEqual(withoutSpec(patched), withoutSpec(resource)))
    return refuse("override patch tried to modify non-spec fields");
  // The API server drops unknown fields from a resource. Here a misspelled field would silently have no effect.
  const unknown = unknownFields(patch["spec"], specSchema(), "spec");
  if (unknown.length > 0) return refuse(`the override has unknown fields: ${unknown.slice(0, 10).join(", ")}`);
  const parsed = parseDeployment(patched);
  return parsed && "problem" in parsed ? refuse(`the override cannot be applied: ${parsed.problem}`) : parsed;
}

function withoutSpec(resource: unknown): unknown {
  if (!isObject(resource)) return resource;
  const { spec: _, ...rest } = resource;
  return rest;
}

function unknownFields(value: unknown, schema: Schema | undefined, at: string): string[] {
  if (Array.isArray(value))
    return value.flatMap((item, i) => unknownFields(item, schema?.["items"] as Schema, `${at}[${i}]`));
  const known = schema?.["properties"] as Readonly<Record<string, Schema>> | undefined;
  if (!isObject(value) || known === undefined) return [];
  return Object.entries(value).flatMap(([name, field]) =>
    Object.hasOwn(known, name) ? unknownFields(field, known[name], `${at}.${name}`) : [`${at}.${name}`],
  );
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
