/** The JSON schema that Helm validates values with. */
import { format, resolveConfig } from "prettier";
import { z } from "zod";
import { configJsonSchema, type JsonSchema } from "../../src/config/fields.ts";
import { configurable, defaultsInPods, helmsOwn, valuesSchema } from "./values.ts";

export interface ValueSchema extends JsonSchema {
  readonly properties?: Readonly<Record<string, ValueSchema>>;
  readonly items?: ValueSchema;
}

/** The schema of all values; `config` has the keys of the server's configuration that the chart supports. */
export function valuesJsonSchema(): ValueSchema {
  const schema = z.toJSONSchema(valuesSchema, { io: "input", unrepresentable: "any" }) as ValueSchema;
  const { description } = schema.properties?.["config"] ?? {};
  const config = { ...prune(configJsonSchema(), [], new Set(configurable().map(({ path }) => path))), description };
  return { ...schema, properties: { ...schema.properties, config } as Record<string, ValueSchema> };
}

/** Generates values.schema.json. */
export async function valuesSchemaFile(): Promise<string> {
  const schema = withoutOurs(valuesJsonSchema()) as { readonly properties: object };
  const text = JSON.stringify({ ...schema, properties: { ...helmsOwn, ...schema.properties } });
  return format(text, { ...(await resolveConfig(import.meta.filename)), parser: "json" });
}

function prune(schema: ValueSchema, parents: readonly string[], kept: ReadonlySet<string>): ValueSchema {
  const properties = Object.entries(schema.properties ?? {}).flatMap(([key, property]) => {
    const keys = [...parents, key];
    const own = defaultsInPods[keys.join(".")];
    const leaf = own === undefined ? property : { ...property, default: own };
    if (!property.properties) return kept.has(keys.join(".")) ? [[key, leaf] as const] : [];
    const section = prune(property, keys, kept);
    return Object.keys(section.properties ?? {}).length === 0 ? [] : [[key, section] as const];
  });
  const { default: _, ...rest } = schema;
  return { ...rest, properties: Object.fromEntries(properties) };
}

/** Removes Towline's own keywords, which are meaningless to Helm. */
function withoutOurs(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutOurs);
  if (typeof schema !== "object" || schema === null) return schema;
  const { defaultText: _text, variable: _variable, secret: _secret, ...rest } = schema as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(rest).map(([key, value]) => [key, key === "properties" ? named(value) : withoutOurs(value)]),
  );
}

/** Names of properties are kept, even if they equal one of the keywords. */
function named(properties: unknown): unknown {
  return Object.fromEntries(Object.entries(properties as object).map(([name, value]) => [name, withoutOurs(value)]));
}
