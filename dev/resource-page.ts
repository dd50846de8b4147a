/** The reference of the resource: its fields, made from the definition that the cluster gets, and its annotations. */
import { format, resolveConfig } from "prettier";
import { customResourceDefinition } from "../src/kube/crd.ts";
import { annotation } from "../src/model.ts";

interface FieldSchema {
  readonly type?: string;
  readonly description?: string;
  readonly default?: unknown;
  readonly enum?: readonly unknown[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
}

/** What they do is said with the rest of the page that they link to. */
const annotations: Readonly<Record<keyof typeof annotation, string>> = {
  webhooks:
    '`"false"`: webhooks never concern it. [Which deployments a push affects](webhooks.md#which-deployments-a-push-affects)',
  paths:
    "globs from the repository's root of what concerns it besides its directory. [Monorepos](monorepos.md#files-outside-the-directory)",
  preview:
    '`"false"`: pull requests are not previewed for it. [Pull requests](pull-requests.md#which-deployments-are-previewed)',
  previewDecrypt:
    '`"true"`: isolated previews of it decrypt encrypted files. [Encrypted files](preview-security.md#encrypted-files)',
  allowPreview:
    "commits of forks that may be previewed for it, as `towline preview --allow` writes them. [Forks](pull-requests.md#forks)",
  confirmPrune: "lets a prune that waits go on. [Prune and delete](deployments.md#prune-and-delete)",
  fullInterval:
    "at the latest after so long a real look, even if nothing can have changed; `1h` unless configured otherwise. [Skipped checks](reliability.md#skipped-checks)",
  dependsOn: "deployments that have to be ready first. [Order](deployments.md#order)",
};

const introduction = `<!-- Written by \`npm run docs\` from src/kube/spec-schema.ts and src/kube/crd.ts. Change it there. -->

# The KluctlDeployment, field by field

\`KluctlDeployment\` of \`gitops.kluctl.io/v1beta1\`, as [chart/files/kluctldeployments.yaml](../chart/files/kluctldeployments.yaml)
defines it: kluctl's own fields. How they behave, and what is worth knowing: [KluctlDeployments](deployments.md). A field with a bad
value is never ignored: the deployment gets \`Ready=False\`, and \`status.lastPrepareError\` names it. In a cluster that has the definition,
\`kubectl explain kluctldeployments.spec\` says the same.

\`[]\` stands for each entry of a list.`;

/** The page as it is in docs/resource.md. */
export async function resourcePage(): Promise<string> {
  const { spec, status } = schemas();
  const names = Object.entries(annotation).map(([key, name]) => [
    `\`${name}\``,
    annotations[key as keyof typeof annotation],
  ]);
  const page = [
    introduction,
    "## spec",
    table(["field", "type", "default", "meaning"], fieldsOf(spec, "spec")),
    "## Annotations",
    table(["annotation", "value"], names),
    "Besides these, `kluctl.io/request-…` ask for something: [requests](deployments.md#requests).",
    "## status",
    "Written by the server, never by you. [How to read it](deployments.md#reading-the-status).",
    table(
      ["field", "type", "meaning"],
      fieldsOf(status, "status").map(([name = "", type = "", , meaning = ""]) => [name, type, meaning]),
    ),
  ].join("\n\n");
  return format(page, { ...(await resolveConfig(import.meta.filename)), parser: "markdown" });
}

function schemas(): { readonly spec: FieldSchema; readonly status: FieldSchema } {
  const definition = customResourceDefinition() as {
    spec: { versions: readonly { schema: { openAPIV3Schema: FieldSchema } }[] };
  };
  const { spec, status } = definition.spec.versions[0]?.schema.openAPIV3Schema.properties ?? {};
  if (spec === undefined || status === undefined) throw new Error("the definition has no spec or no status");
  return { spec, status };
}

/** Each field and what is in it, by its whole name. */
function fieldsOf({ properties = {}, required = [] }: FieldSchema, path: string): string[][] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const { type = "", items, description = "", enum: values } = schema;
    const isList = items !== undefined;
    const whole = `${path}.${name}${isList ? "[]" : ""}`;
    const inner = isList ? fieldsOf(items, whole) : fieldsOf(schema, whole);
    const kind = values
      ? values.map((value) => `\`${String(value)}\``).join(", ")
      : isList
        ? `list of ${items.type}`
        : type;
    return [[`\`${whole}\``, kind, defaultOf(schema, required.includes(name)), description], ...inner];
  });
}

function defaultOf({ default: value }: FieldSchema, isRequired: boolean): string {
  if (value !== undefined) return `\`${JSON.stringify(value)}\``;
  return isRequired ? "required" : "";
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => "---"), ...rows];
  return lines.map((cells) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`).join("\n");
}
