/** Compares our definition of KluctlDeployment with kluctl's own: either can be installed. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { customResourceDefinition } from "../../../src/apis/kluctl/crd.ts";
import { useKluctlModule } from "../../support/kluctl-module.ts";

type Schema = Readonly<Record<string, unknown>>;

interface Definition {
  readonly spec: {
    readonly versions: readonly {
      readonly schema: { readonly openAPIV3Schema: Schema };
      readonly additionalPrinterColumns: readonly { readonly name: string }[];
    }[];
  };
}

const ours = customResourceDefinition() as unknown as Definition;

async function useTheirs(version: string): Promise<Definition> {
  const file = join(await useKluctlModule(version), "install/controller/controller/crd.yaml");
  return parse(await readFile(file, "utf8")) as Definition;
}

/** Maps the path of each field to its schema, without descriptions. */
function fieldsOf({ spec }: Definition): Record<string, Schema> {
  const fields: Record<string, Schema> = {};
  const visit = (at: string, { description: _, properties, items, required, ...words }: Schema): void => {
    fields[at] = { ...words, ...(required !== undefined && { required: [...(required as string[])].sort() }) };
    for (const [name, field] of Object.entries(properties ?? {})) visit(`${at}.${name}`, field as Schema);
    if (items !== undefined) visit(`${at}[]`, items as Schema);
  };
  visit("", spec.versions[0]?.schema.openAPIV3Schema ?? {});
  return fields;
}

/** Everything except the fields: names, scope, subresources and kluctl's printer columns. */
function frameOf(definition: Definition) {
  const { versions, ...rest } = definition.spec;
  return {
    ...rest,
    versions: versions.map(({ schema: _, additionalPrinterColumns, ...version }) => ({
      ...version,
      columns: additionalPrinterColumns.filter(({ name }) => !["Target", "Repository", "Commit"].includes(name)),
    })),
  };
}

test("our definition equals that of kluctl 2.22.1, field by field", async () => {
  const theirs = await useTheirs("2.22.1");
  expect(frameOf(ours)).toEqual(frameOf(theirs));
  expect(fieldsOf(ours)).toEqual(fieldsOf(theirs));
});

test("our definition differs from that of kluctl 2.28.2 only in stricter required fields and removed fields", async () => {
  const theirs = await useTheirs("2.28.2");
  expect(frameOf(ours)).toEqual(frameOf(theirs));
  const [mine, other] = [fieldsOf(ours), fieldsOf(theirs)];
  const places = [...new Set([...Object.keys(mine), ...Object.keys(other)])];
  const different = places.filter(
    (place) => JSON.stringify(sorted(mine[place])) !== JSON.stringify(sorted(other[place])),
  );
  const gone = /^\.spec\.source\.(secretRef|credentials\[\])/;
  const stricter = Object.fromEntries(
    different.filter((place) => !gone.test(place)).map((place) => [place, other[place]?.["required"]]),
  );
  expect(stricter).toEqual({
    ".spec.credentials.git[]": ["host", "secretRef"],
    ".spec.credentials.oci[]": ["registry", "secretRef"],
    ".spec.helmCredentials[]": ["secretRef"],
    ".spec.kubeConfig": ["secretRef"],
  });
});

function sorted(schema: Schema | undefined): unknown {
  return schema && Object.entries(schema).sort(([a], [b]) => a.localeCompare(b));
}
