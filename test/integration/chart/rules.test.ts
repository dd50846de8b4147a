/** The alerting rules and the dashboard, checked by Prometheus itself. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { findTools } from "../../../dev/tools.ts";
import { useTempDir } from "../../support/world.ts";

const run = promisify(execFile);
const files = join(import.meta.dirname, "../../../chart/files");
const fixtures = join(import.meta.dirname, "../../fixtures/rules.test.yaml");

async function promtool(...args: string[]): Promise<string> {
  const { promtool } = await findTools(["promtool"], { say: () => undefined });
  const { stdout } = await run(promtool, args);
  return stdout;
}

test("Prometheus accepts the rules, and each alert fires for its problem and stays silent without it", async () => {
  expect(await promtool("check", "rules", "--lint=all", "--lint-fatal", join(files, "rules.yaml"))).toContain(
    "SUCCESS",
  );
  expect(await promtool("test", "rules", fixtures)).toContain("SUCCESS");
  const alerts = readFileSync(join(files, "rules.yaml"), "utf8").matchAll(/- alert: (\w+)/g);
  const tested = readFileSync(fixtures, "utf8");
  for (const [, alert] of alerts) expect(tested).toContain(`alertname="${alert}"`);
});

test("Prometheus accepts every expression of the dashboard", async () => {
  const { panels } = JSON.parse(readFileSync(join(files, "dashboard.json"), "utf8")) as {
    panels: { targets?: { expr: string }[] }[];
  };
  const rules = panels
    .flatMap(({ targets = [] }) => targets)
    .map(({ expr }, i) => ({ record: `panel:${i}`, expr: expr.replaceAll("$__rate_interval", "5m") }));
  const path = join(await useTempDir(), "dashboard.yaml");
  await writeFile(path, stringify({ groups: [{ name: "dashboard", rules }] }));
  expect(await promtool("check", "rules", path)).toContain(`${rules.length} rules found`);
});
