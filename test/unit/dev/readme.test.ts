import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const text = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), "utf8").replace(/\s+/g, " ");
const readme = text("README.md");

/** Returns the first number in this row of the performance page, without its unit. */
function measured(row: string, column = 0): number {
  const [, cells = ""] = text("docs/performance.md").split(`| ${row} |`);
  return Number(/[\d.]+/.exec(cells.split("|")[column] ?? "")?.[0]);
}

test.each([
  ["A push is live in half a second", () => measured("towline") < 550],
  [
    "takes at least eight times as long",
    () => measured("kluctl controller run, interval 10s") > 8 * measured("towline"),
  ],
  [
    "gets its comment in the time of one `kluctl diff` in a terminal",
    () => measured("pull request opened to comment, one deployment, isolated: p50 / one cold kluctl diff", 1) <= 1.05,
  ],
  [
    "200 deployments is live in a third of the time",
    () => measured("200 deployments, one push, until all are deployed: Towline / kluctl's controller", 1) <= 0.35,
  ],
  [
    "less than 1/50 of the CPU time",
    () => measured("skipped reconciliation: CPU time, Towline / kluctl's controller", 1) < 0.02,
  ],
  ["250 to 350 MB of memory", () => measured("memory of the server, 100 deployments") < 350],
  [
    "idle server with 1,000 deployments uses about 150 MB",
    () => measured("idle server with 1000 deployments: memory", 1) <= 155,
  ],
  [
    "about three times as much as kluctl's controller",
    () => Math.round(measured("memory of the server, 100 deployments", 2)) <= 3,
  ],
])("the README says %j, and the latest measurements confirm it", (claim, holds) => {
  expect(readme).toContain(claim);
  expect(holds()).toBe(true);
});
