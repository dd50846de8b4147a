/** The schema as a list of keys, for options, variables, the documentation and `config print`. */
import { z } from "zod";
import { routeSchema, targetSchema } from "./notifications-schema.ts";
import { type forgeKinds, forgeSchema } from "./forge-schema.ts";
import { configSchema, type FieldMeta } from "./schema.ts";

export interface Field extends FieldMeta {
  /** `webhooks.port` */
  readonly path: string;
  readonly keys: readonly string[];
  readonly variable: string;
  /** `--webhooks-port`; secrets have none. */
  readonly flag?: string | undefined;
  readonly kind: "text" | "number" | "boolean" | "list";
  readonly choices?: readonly string[] | undefined;
  readonly default?: unknown;
}

export interface JsonSchema extends FieldMeta {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
}

/** The configuration file's JSON schema, for editors. */
export function configJsonSchema(): JsonSchema {
  return toJsonSchema(configSchema);
}

const made = new Map<z.ZodType, JsonSchema>();

/** Cached, because the configuration is reloaded every few seconds and this is the slowest part. */
function toJsonSchema(schema: z.ZodType): JsonSchema {
  const known = made.get(schema) ?? (z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as JsonSchema);
  made.set(schema, known);
  return known;
}

/** Lists of sections, which only the file can set; a forge's keys have variables of their own. */
const lists = ["forges", "notifications.targets", "notifications.routes"];

/** All keys except lists of sections, in the order of the schema. */
export function configFields(): readonly Field[] {
  return fieldsOf(configJsonSchema(), [], "TOWLINE_").filter(({ path }) => !lists.includes(path));
}

/** The keys of one forge; `kind` is part of the names of its variables. */
export function forgeFields(kind: (typeof forgeKinds)[number] | "<KIND>"): readonly Field[] {
  const schema = toJsonSchema(forgeSchema);
  const prefix = `TOWLINE_${kind.toUpperCase()}_`;
  return fieldsOf(schema, [], prefix).map((field) =>
    Object.assign(field, {
      variable: field.variable.startsWith(prefix) ? field.variable : prefix + field.variable,
      flag: undefined,
    }),
  );
}

/** The keys of one target of notifications. */
export function targetFields(): readonly Field[] {
  return fieldsOf(toJsonSchema(targetSchema), [], "");
}

/** The keys of one route of notifications. */
export function routeFields(): readonly Field[] {
  return fieldsOf(toJsonSchema(routeSchema), [], "");
}

function fieldsOf(schema: JsonSchema, parents: readonly string[], prefix: string): Field[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]) => {
    const keys = [...parents, key];
    if (property.properties) return fieldsOf(property, keys, prefix);
    const { description, defaultText, secret, type } = property;
    const words = keys.map((part) => part.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)).join("-");
    return {
      path: keys.join("."),
      keys,
      variable: property.variable ?? prefix + words.replaceAll("-", "_").toUpperCase(),
      flag: secret ? undefined : `--${words}`,
      kind: type === "integer" ? "number" : type === "boolean" ? "boolean" : type === "array" ? "list" : "text",
      choices: property.enum,
      default: property.default,
      ...(description !== undefined && { description }),
      ...(defaultText !== undefined && { defaultText }),
      ...(secret && { secret }),
    };
  });
}
