/** Writes docs/configuration.md from the schema; with --check it only says whether that is current. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { configurationPage } from "./configuration-page.ts";

const path = join(import.meta.dirname, "../docs/configuration.md");
const page = await configurationPage();

if (!process.argv.includes("--check")) {
  writeFileSync(path, page);
} else if (readFileSync(path, "utf8") !== page) {
  process.stderr.write("docs/configuration.md is not what the schema says: run `npm run docs`\n");
  process.exitCode = 1;
}
