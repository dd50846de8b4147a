import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const text = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8").replace(/\s+/g, " ");
const readme = text("README.md");

/** The first figure that stands beside these words in the last measurements, as a number of what is left in its unit. */
function measured(row: string, column = 0): number {
  const [, cells = ""] = text("docs/performance.md").split(`| ${row} |`);
  return Number(/[\d.]+/.exec(cells.split("|")[column] ?? "")?.[0]);
}

test.each([
  ["A push is live in a second", () => measured("towline") < 1_100],
  ["it is five times that", () => measured("kluctl controller run, interval 10s") > 5 * measured("towline")],
  ["its comment within two seconds", () => measured("total: done → comment written") < 2_000],
  ["less than a fiftieth of the processor time", () => measured("loop that is left out: CPU, ours / peer's", 1) < 0.02],
  ["some 250 to 350 MB of memory", () => measured("memory, the server, 100 deployments") < 350],
  ["at rest, with 1 000 deployments, 150 MB", () => measured("idle with 1000 deployments: memory", 1) <= 150],
  [
    "about three times what kluctl's controller takes",
    () => Math.round(measured("memory, the server, 100 deployments", 2)) <= 3,
  ],
])("the README says %j, and the last measurements do", (claim, holds) => {
  expect(readme).toContain(claim);
  expect(holds()).toBe(true);
});
