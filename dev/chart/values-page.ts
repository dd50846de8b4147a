/** The chart's README: how it is installed, and every value. */
import { format, resolveConfig } from "prettier";
import { valuesJsonSchema, type ValueSchema } from "./values-schema.ts";

export async function valuesPage(): Promise<string> {
  const schema = valuesJsonSchema();
  const { forges, config, ...others } = schema.properties ?? {};
  const ofForges = { properties: forges?.items?.properties ?? {} };
  const page = [
    introduction,
    `## Values\n\n${table({ ...schema, properties: others }, [])}`,
    `## Git hosts\n\n${gitHosts}\n\n${table(ofForges, ["forges[]"])}`,
    `## The server's configuration\n\n${configuration}\n\n${table(config ?? {}, ["config"])}`,
  ].join("\n\n");
  return format(page, { ...(await resolveConfig(import.meta.filename)), parser: "markdown" });
}

const introduction = `<!-- Written by \`npm run docs\` from dev/chart/values.ts and src/config/schema.ts. Change it there. -->

# Helm chart

Installs the server, a small Valkey for its queue, its rights, and the definition of KluctlDeployments.

\`\`\`sh
helm install towline ./chart --namespace kluctl-system --create-namespace --values values.yaml --wait
helm test towline --namespace kluctl-system
\`\`\`

[Installing](../docs/install.md) says what belongs into \`values.yaml\`, how git hosts get their secrets, and how to upgrade and uninstall. A value that is not listed here is refused.`;

const gitHosts =
  "Each entry of `forges` is a git host; its webhooks come in as `/webhooks/<id>`. Secrets are never values: they are keys of a Secret in the release's namespace.";

const configuration =
  "`config` is the server's configuration file: what each key means is also in [docs/configuration.md](../docs/configuration.md). Places and secrets are missing here, because the chart says where they are.";

function table(schema: ValueSchema, parents: readonly string[]): string {
  return ["| value | default | meaning |", "| --- | --- | --- |", ...rows(schema, parents)].join("\n");
}

function rows(schema: ValueSchema, parents: readonly string[]): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]) => {
    const keys = [...parents, key];
    if (property.properties) return rows(property, keys);
    const { description = "" } = property;
    return [`| \`${keys.join(".")}\` | ${defaultOf(property)} | ${description.replaceAll("|", "\\|")} |`];
  });
}

function defaultOf({ default: value, defaultText }: ValueSchema): string {
  if (value === undefined) return defaultText ?? "none";
  return `\`${JSON.stringify(value).replaceAll("|", "\\|")}\``;
}
