import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);
const demo = join(import.meta.dirname, "../../dev/demo.ts");

test("the demo sees its push arrive in the cluster and on the git host, and ends by itself", async () => {
  const { stdout } = await run(process.execPath, [demo, "--once"], { timeout: 150_000 }); // rejects unless it exits with 0
  expect(stdout).toContain("s  git push done"); // which the webhook may overtake
  const places = ["webhook received", "queued", "fetched", "compared", "applied"].map((step) =>
    stdout.indexOf(`s  ${step}`),
  );
  expect(places).not.toContain(-1);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(stdout).toContain("Deployment shop-staging/frontend  image 1.4.2 → 1.5.0");
  expect(stdout.match(/^ {2}ok /gm)).toHaveLength(7);
});
