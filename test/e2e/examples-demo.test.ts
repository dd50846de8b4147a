import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);
const demo = join(import.meta.dirname, "../../dev/demo.ts");

test("the demo sees its push arrive and its pull request previewed and deployed, and ends by itself", async () => {
  const { stdout } = await run(process.execPath, [demo, "--once"], { timeout: 280_000 }); // rejects unless it exits with 0
  const [push = "", opened = "", pushed = "", merged = ""] = stdout.split(/^(?=push |pull request )/m).slice(1);

  expect(push).toContain("s  git push done"); // which the webhook may overtake
  expect(orderOf(push, ["webhook received", "queued", "fetched", "applied"])).toBe("in order");
  expect(push).toContain("Deployment shop-staging/frontend  image 1.4.2 → 1.5.0");

  expect(orderOf(opened, ["queued", "merged", "compared", "status"])).toBe("in order");
  expect(opened).toContain("s  comment posted");
  expect(opened).toMatch(/│ -\s+registry\.example\/api:2\.3\.0\n\s+│ \+\s+registry\.example\/api:2\.4\.0\n/);

  expect(orderOf(pushed, ["queued", "merged", "compared", "comment changed", "status"])).toBe("in order");
  expect(pushed).toContain("FEATURE_CHECKOUT");

  expect(orderOf(merged, ["merge asked for", "queued", "fetched", "applied", "status"])).toBe("in order");
  expect(merged).toContain("merged into `main`");
  expect([push, opened, pushed, merged].map((part) => part.match(/^ {2}ok /gm)?.length)).toEqual([7, 6, 8, 8]);
});

/** By the last time that each is told: a comment may change more than once. */
function orderOf(part: string, steps: readonly string[]): string {
  const places = steps.map((step) => part.lastIndexOf(`s  ${step}`));
  const missing = steps.filter((_, i) => places[i] === -1);
  if (missing.length > 0) return `missing: ${missing.join(", ")}`;
  return places.every((place, i) => i === 0 || place > (places[i - 1] ?? 0)) ? "in order" : part;
}
