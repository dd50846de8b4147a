/** GitHub's own description of its API: validates requests and answers. */
import { createRequire } from "node:module";
import { Ajv, type ValidateFunction } from "ajv";
import formats from "ajv-formats";

type Json = Readonly<Record<string, unknown>>;

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly schema: Json;
}

interface Operation {
  readonly parameters?: readonly Json[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Json }>> };
  readonly responses: Readonly<Record<string, Json>>;
}

interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: Readonly<Record<string, Readonly<Record<string, Json>>>>;
}

export interface Call {
  readonly method: string;
  /** The path in the description: `/repos/{owner}/{repo}`. */
  readonly template: string;
  readonly query: URLSearchParams;
  readonly params: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Statuses that any request may be answered with, whether or not the description lists them. */
const common = [301, 400, 401, 403, 404, 410, 422, 429, 500, 502, 503];

/** A known error of the description: https://github.com/github/rest-api-description/issues/1811 */
const misdescribed = /\/head\/repo must be object$/;

let described: Description | undefined;

/** 13 MB of JSON, read when it is first needed. */
function description(): Description {
  const require = createRequire(import.meta.url);
  return (described ??= require("@octokit/openapi/generated/api.github.com.json") as Description);
}

/** A copy of GitHub's example of a complete object. */
export function githubExample(name: string): Record<string, unknown> {
  const { value } = description().components["examples"]?.[name] ?? {};
  return structuredClone(value) as Record<string, unknown>;
}

/** Returns what is wrong with a request, or an empty list. */
export function checkGithubRequest({ method, template, query, params, body }: Call): string[] {
  const operation = findOperation(method, template);
  if (operation === undefined) return [`GitHub has no ${method} ${template}`];
  const parameters = (operation.parameters ?? []).map((parameter) => resolve(parameter) as unknown as Parameter);
  const wrong = parameters.flatMap(({ name, in: place, required, schema }) => {
    const value = place === "path" ? params[name] : (query.get(name) ?? undefined);
    if (value === undefined) return required ? [`${name} is missing`] : [];
    return check(`${method} ${template} ${name}`, schema, value, name, true);
  });
  const known = new Set(parameters.map(({ name }) => name));
  for (const name of query.keys()) if (!known.has(name)) wrong.push(`GitHub does not know the parameter ${name}`);
  const schema = Object.values(operation.requestBody?.content ?? {})[0]?.schema;
  if (schema !== undefined) wrong.push(...check(`${method} ${template}`, closed(schema), body, "body"));
  else if (body !== undefined) wrong.push("GitHub takes no body");
  return wrong.map((what) => `${method} ${template}: ${what}`);
}

/** Returns what is wrong with an answer, or an empty list. */
export function checkGithubAnswer(
  { method, template }: Pick<Call, "method" | "template">,
  status: number,
  body: unknown,
): string[] {
  const declared = findOperation(method, template)?.responses[String(status)];
  const response = declared && (resolve(declared) as { content?: Record<string, { schema: Json }> });
  if (response === undefined && !common.includes(status)) return [`${method} ${template} is not answered ${status}`];
  const basic = { $ref: "#/components/schemas/basic-error" };
  const schema = response === undefined ? basic : Object.values(response.content ?? {})[0]?.schema;
  if (schema === undefined) return body === undefined ? [] : [`${method} ${template} ${status} has no body`];
  return check(`${method} ${template} ${status}`, schema, body, `answer ${status}`);
}

function findOperation(method: string, template: string): Operation | undefined {
  return description().paths[template]?.[method.toLowerCase()];
}

/** GitHub ignores unknown fields: tests have to detect them. */
function closed(schema: Json): Json {
  return schema["type"] === "object" ? { ...schema, additionalProperties: false } : schema;
}

const validators = new Map<string, ValidateFunction>();

/**
 * `name` identifies the schema, so that each is compiled only once. Parameters are strings on the wire and are coerced
 * to their types.
 */
function check(name: string, schema: Json, value: unknown, where: string, coerceTypes = false): string[] {
  let validate = validators.get(name);
  if (validate === undefined) {
    const ajv = new Ajv({ strict: false, coerceTypes });
    formats.default(ajv);
    validate = ajv.compile(toJsonSchema(schema));
    validators.set(name, validate);
  }
  if (validate(value)) return [];
  const errors = (validate.errors ?? []).map(({ instancePath, message }) => `${where}${instancePath} ${message}`);
  return errors.filter((error) => !misdescribed.test(error)).slice(0, 5);
}

/** OpenAPI 3.0 expresses `null` in its own way, and stores shared schemas where JSON Schema does not look for them. */
function toJsonSchema(schema: Json): Json {
  const definitions: Record<string, unknown> = {};
  function translate(node: unknown): unknown {
    if (Array.isArray(node)) return node.map(translate);
    if (typeof node !== "object" || node === null) return node;
    const { nullable, example: _example, examples: _examples, discriminator: _discriminator, ...rest } = node as Json;
    if (typeof rest["$ref"] === "string") return { $ref: define(rest["$ref"]) };
    const translated = Object.fromEntries(
      Object.entries(rest).map(([key, value]) => [key, translateField(key, value)]),
    );
    return nullable === true ? { anyOf: [{ type: "null" }, translated] } : translated;
  }
  // The keys below `properties` are field names, some of which are also keywords of the schema language.
  function translateField(key: string, value: unknown): unknown {
    if (key === "enum" || key === "default" || key === "required") return value;
    if (key !== "properties") return translate(value);
    return Object.fromEntries(Object.entries(value as Json).map(([name, field]) => [name, translate(field)]));
  }
  function define(ref: string): string {
    const name = ref.split("/").at(-1) ?? "";
    if (!(name in definitions)) {
      definitions[name] = {};
      definitions[name] = translate(resolve({ $ref: ref }));
    }
    return `#/definitions/${name}`;
  }
  return { ...(translate(schema) as Json), definitions };
}

function resolve(node: Json): Json {
  if (typeof node["$ref"] !== "string") return node;
  const [, , section = "", name = ""] = node["$ref"].split("/");
  const found = description().components[section]?.[name];
  if (found === undefined) throw new Error(`GitHub's description has no ${node["$ref"]}`);
  return found;
}
