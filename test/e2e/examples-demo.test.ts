import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test, vi } from "vitest";

const run = promisify(execFile);
const demo = join(import.meta.dirname, "../../dev/demo.ts");

test("the demo shows how its push is deployed and its pull request previewed and deployed, and exits by itself", async () => {
  const { stdout } = await run(process.execPath, [demo, "--once"], { timeout: 800_000 }); // rejects unless it exits with 0
  const [push = "", opened = "", pushed = "", merged = ""] = stdout.split(/^(?=push |pull request )/m).slice(1);

  expect(push).toContain("s  git push done"); // the webhook may arrive before it
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

/** Uses the last occurrence of each step: a comment may change more than once. */
function orderOf(part: string, steps: readonly string[]): string {
  const places = steps.map((step) => part.lastIndexOf(`s  ${step}`));
  const missing = steps.filter((_, i) => places[i] === -1);
  if (missing.length > 0) return `missing: ${missing.join(", ")}`;
  return places.every((place, i) => i === 0 || place > (places[i - 1] ?? 0)) ? "in order" : part;
}

test("the demo keeps running, and its instructions work, in a browser and in a shell", async () => {
  const child = spawn(process.execPath, [demo], { stdio: ["ignore", "pipe", "ignore"] });
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGINT");
    await exited;
  });
  let said = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text));
  await vi.waitFor(() => expect(said).toContain("Ctrl-C ends everything."), { timeout: 800_000, interval: 200 });

  const [, url = "", token = ""] = /^ {2}the page +(\S+) +token (\S+)$/m.exec(said) ?? [];
  expect(await (await fetch(url)).text()).toContain("/assets/"); // the page is built and served
  const answer = await fetch(`${url}/api/deployments`, { headers: { Authorization: `Bearer ${token}` } });
  const names = ((await answer.json()) as { name: string }[]).map(({ name }) => name);
  expect(names.toSorted()).toEqual(["prod", "staging"]);
  const access = await fetch(`${url}/api/access`, { headers: { Authorization: `Bearer ${token}` } });
  expect(await access.json()).toMatchObject({ role: "operator" });

  const lookAround = said.slice(said.indexOf("  export KUBECONFIG="), said.indexOf("  the page"));
  const { stdout } = await run("bash", ["-c", `shopt -s expand_aliases\n${lookAround}`]);
  expect(stdout).toMatch(/^shop +staging +True/m); // the output of kubectl and of our commands
  expect(stdout).toMatch(/^NAMESPACE +NAME +READY +COMMIT/m);
  expect(stdout).toMatch(/gitea +202 +push/);
  expect(stdout).toContain("shop/staging: applied");
});
