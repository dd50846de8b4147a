import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { customResourceDefinition } from "../../../src/apis/kluctl/crd.ts";

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly [word: string]: unknown;
}

interface Definition {
  readonly spec: {
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

const schema = (customResourceDefinition() as unknown as Definition).spec.versions[0]?.schema.openAPIV3Schema as Schema;

test("the chart's copy is current", () => {
  const file = new URL("../../../chart/files/kluctldeployments.yaml", import.meta.url);
  expect(parse(readFileSync(file, "utf8"))).toEqual(customResourceDefinition());
});

test("the schema is structural: every field has a type, and no construct replaces one", () => {
  const check = (at: string, one: Schema): void => {
    expect(one.type, at).toBeTypeOf("string");
    for (const word of ["$ref", "anyOf", "allOf", "additionalProperties", "nullable", "$schema"])
      expect(one, at).not.toHaveProperty(word);
    for (const [name, field] of Object.entries(one.properties ?? {})) check(`${at}.${name}`, field);
    if (one.items) check(`${at}[]`, one.items);
  };
  check("", schema);
});

// As in kluctl's own definition; the command line and the web UI rely on it.
test("only the interval and the source are required, and the defaults are kluctl's", () => {
  const { required, properties = {} }: Partial<Schema> = schema.properties?.["spec"] ?? {};
  expect([...(required ?? [])].sort()).toEqual(["interval", "source"]);
  const defaults = Object.entries(properties).flatMap(([name, field]) =>
    "default" in field ? [[name, field["default"]]] : [],
  );
  expect(Object.fromEntries(defaults)).toEqual({
    abortOnError: false,
    delete: false,
    deployMode: "full-deploy",
    dryRun: false,
    forceApply: false,
    forceReplaceOnError: false,
    noWait: false,
    prune: false,
    replaceOnError: false,
    validate: true,
  });
});

test("kluctl's command line finds the status fields that it reads", () => {
  const status = schema.properties?.["status"]?.properties ?? {};
  for (const command of ["reconcile", "diff", "deploy", "prune", "validate"]) {
    const result = status[`${command}RequestResult`];
    expect([...(result?.required ?? [])].sort()).toEqual(["reconcileId", "request", "startTime"]);
    expect(Object.keys(result?.properties ?? {})).toContain("commandError");
  }
  for (const result of ["Deploy", "Diff", "Validate", "DriftDetection"]) {
    expect(status[`last${result}Result`]).toEqual({ type: "object", "x-kubernetes-preserve-unknown-fields": true });
  }
});
