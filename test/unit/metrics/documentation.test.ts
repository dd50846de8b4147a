import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exposedMetrics } from "../../support/exposition.ts";

const page = readFileSync(join(import.meta.dirname, "../../../docs/metrics.md"), "utf8");

test("the documentation lists every metric with its labels, and no other", () => {
  const rows = page.matchAll(/^\| `([a-z_]+)` +\| ([^|]*)\| ([^|]*)\|$/gm);
  const documented = [...rows].map(([, name = "", labels = "", says = ""]) => {
    expect(says.trim(), name).not.toBe("");
    return `${name} ${[...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label).join(" ")}`.trim();
  });
  const ours = exposedMetrics().filter(({ name }) => !/^(?:process|nodejs)_/.test(name));
  expect(documented.toSorted()).toEqual(ours.map(({ name, labels }) => [name, ...labels].join(" ")).toSorted());
});

test("metric names follow Prometheus' conventions: counters end in _total and histograms in _seconds", () => {
  for (const { name, type } of exposedMetrics().filter(({ name }) => name.startsWith("towline_"))) {
    if (type === "counter") expect(name).toMatch(/_total$/);
    else expect(name).not.toMatch(/_total$/);
    if (type === "histogram") expect(name).toMatch(/_seconds$/);
  }
});
