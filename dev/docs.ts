/**
 * Writes the pages of docs/ and the files of the chart that are generated from the sources. With --check it only reports
 * outdated files and broken links.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { alertsPage } from "./alerts-page.ts";
import { valuesFile } from "./chart/values-file.ts";
import { valuesPage } from "./chart/values-page.ts";
import { valuesSchemaFile } from "./chart/values-schema.ts";
import { cliPage } from "./cli-page.ts";
import { configurationPage } from "./configuration-page.ts";
import { resourcePage } from "./resource-page.ts";
import { checkLinks } from "./site/links.ts";

const root = join(import.meta.dirname, "..");
const files: Readonly<Record<string, string>> = {
  "docs/configuration.md": await configurationPage(),
  "docs/cli.md": await cliPage(),
  "docs/resource.md": await resourcePage(),
  "docs/alerts.md": await alertsPage(),
  "chart/README.md": await valuesPage(),
  "chart/values.yaml": await valuesFile(),
  "chart/values.schema.json": await valuesSchemaFile(),
};

for (const [name, content] of Object.entries(files)) {
  const path = join(root, name);
  if (!process.argv.includes("--check")) {
    writeFileSync(path, content);
  } else if (readFileSync(path, "utf8") !== content) {
    process.stderr.write(`${name} is outdated: run \`npm run docs\`\n`);
    process.exitCode = 1;
  }
}

if (process.argv.includes("--check")) {
  for (const problem of checkLinks(root)) {
    process.stderr.write(`${problem}\n`);
    process.exitCode = 1;
  }
}
