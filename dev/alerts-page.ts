/** The reference of the alerts, made from the rules that Prometheus reads. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { format, resolveConfig } from "prettier";
import { parse } from "yaml";

interface Rule {
  readonly alert?: string;
  readonly record?: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

const introduction = `<!-- Written by \`npm run docs\` from chart/files/rules.yaml. Change it there. -->

# Alerts

What [rules.yaml](../chart/files/rules.yaml) has, for Prometheus. Each alert has a page in the [runbook](runbook.md): what is the
matter, how to look, what to do. What the metrics mean: [metrics and events](metrics.md). With the chart, \`metrics.prometheusRule.enabled\`
loads them; anywhere else:

\`\`\`sh
promtool check rules chart/files/rules.yaml
\`\`\`

\`critical\` wants somebody now, \`warning\` on the next working day, \`info\` is for who looks anyway.`;

/** The page as it is in docs/alerts.md. */
export async function alertsPage(): Promise<string> {
  const text = readFileSync(join(import.meta.dirname, "../chart/files/rules.yaml"), "utf8");
  const { groups } = parse(text) as { groups: readonly { rules: readonly Rule[] }[] };
  const rules = groups.flatMap((group) => group.rules);
  const alerts = rules.flatMap(({ alert, for: wait = "0m", labels = {}, annotations = {} }) =>
    alert === undefined
      ? []
      : [
          `| [\`${alert}\`](runbook.md#${alert.toLowerCase()}) | ${labels["severity"]} | ${wait} | ${wordsOf(annotations)} |`,
        ],
  );
  const records = rules.flatMap(({ record }) => (record === undefined ? [] : [`- \`${record}\``]));
  const page = [
    introduction,
    ["| alert | severity | after | says |", "| --- | --- | --- | --- |", ...alerts].join("\n"),
    "## Recorded",
    records.join("\n"),
  ].join("\n\n");
  return format(page, { ...(await resolveConfig(import.meta.filename)), parser: "markdown" });
}

/** What Prometheus puts in is shown as what it is. */
function wordsOf({ summary = "" }: Readonly<Record<string, string>>): string {
  return summary
    .replaceAll(/\{\{ \$labels\.(\w+) \}\}/g, "_$1_")
    .replaceAll(/\{\{ \$value[^}]*\}\}/g, "…")
    .replaceAll("|", "\\|");
}
