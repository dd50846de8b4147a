import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { exposedMetrics } from "../../support/exposition.ts";
import { namesOf } from "../../support/promql.ts";

const root = join(import.meta.dirname, "../../..");
const read = (path: string) => readFileSync(join(root, path), "utf8");

interface Rule {
  readonly record?: string;
  readonly alert?: string;
  readonly expr: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}
interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

const { groups } = parse(read("chart/files/rules.yaml")) as { groups: { name: string; rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const alerts = rules.filter(({ alert }) => alert !== undefined);
const dashboard = JSON.parse(read("chart/files/dashboard.json")) as { panels: Panel[] };
const panels = dashboard.panels.filter(({ targets }) => targets !== undefined);

/** All series by name, each with its labels and the labels that scraping adds. */
const known = new Map<string, readonly string[]>();
for (const { name, type, labels } of exposedMetrics()) {
  const all = [...labels, "job"];
  known.set(name, all);
  if (type !== "histogram") continue;
  known
    .set(`${name}_bucket`, [...all, "le"])
    .set(`${name}_sum`, all)
    .set(`${name}_count`, all);
}
for (const { record, expr } of rules) if (record !== undefined) known.set(record, [...namesOf(expr).labels]);

function expectKnown(expression: string, more = ""): void {
  const { metrics, labels } = namesOf(expression);
  expect(metrics.size, expression).toBeGreaterThan(0);
  const there = new Set<string>();
  for (const metric of metrics) {
    expect([...known.keys()], expression).toContain(metric);
    for (const label of known.get(metric) ?? []) there.add(label);
  }
  const wanted = [...labels, ...[...more.matchAll(/\$labels\.(\w+)/g)].map(([, label = ""]) => label)];
  for (const label of wanted) expect([...there], expression).toContain(label);
}

test("rules use only metrics and labels that the server exports", () => {
  expect(alerts.length).toBeGreaterThan(15);
  for (const { expr, annotations } of rules) expectKnown(expr, Object.values(annotations ?? {}).join(" "));
});

test("the names in an expression are found, whatever surrounds them", () => {
  const { metrics, labels } = namesOf(
    'sum by (a, b) (rate(x_bucket{le="y{z",c=~"d"}[5m])) / on (e) group_left () job:x:y > 2',
  );
  expect([...metrics]).toEqual(["x_bucket", "job:x:y"]);
  expect([...labels]).toEqual(["le", "c", "a", "b", "e"]);
});

test("every alert has a severity, a summary and a page of the runbook, and every page an alert", () => {
  const pages = read("docs/runbook.md").split(/^## /m).slice(1);
  expect(pages.map((page) => page.split("\n", 1)[0])).toEqual(alerts.map(({ alert }) => alert));
  for (const page of pages)
    for (const part of ["**Symptom.**", "**Check", "**Cure", "**cure"].slice(0, 2)) expect(page).toContain(part);
  for (const { alert = "", labels, annotations } of alerts) {
    expect(["critical", "warning", "info"], alert).toContain(labels?.["severity"]);
    expect(annotations?.["summary"], alert).toMatch(/\.$|common\.$/);
    expect(annotations?.["runbook_url"]).toBe(`docs/runbook.md#${alert.toLowerCase()}`);
  }
});

test("the runbook names only metrics that the server exports", () => {
  const named = [...read("docs/runbook.md").matchAll(/`(towline_[a-z_]+)`/g)].map(([, name]) => name);
  for (const name of named) expect([...known.keys()]).toContain(name);
});

test("the dashboard uses only metrics that the server or the rules export", () => {
  expect(panels.length).toBeGreaterThan(20);
  for (const { title, targets = [] } of panels) {
    for (const { expr, legendFormat } of targets) {
      expectKnown(expr);
      const shown = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label = ""]) => label);
      for (const label of shown) expect([...namesOf(expr).labels], title).toContain(label);
    }
  }
});
