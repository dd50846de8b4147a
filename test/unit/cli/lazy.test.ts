import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const run = promisify(execFile);

/** Every module of the project, and every package, that a run of the command loads. */
async function loadedBy(...args: string[]): Promise<string[]> {
  const hooks = `
    import { registerHooks } from "node:module";
    import { writeSync } from "node:fs";
    registerHooks({ load: (url, context, next) => (writeSync(2, url + "\\n"), next(url, context)) });`;
  const preload = `data:text/javascript,${encodeURIComponent(hooks)}`;
  const { stderr } = await run(process.execPath, ["--import", preload, "src/cli.ts", ...args], {
    cwd: new URL("../../..", import.meta.url),
  });
  const named = stderr.split("\n").map((url) => /(?:node_modules\/((?:@[^/]+\/)?[^/]+)|\/(src\/.*))/.exec(url));
  return [...new Set(named.flatMap((found) => found?.[1] ?? found?.[2] ?? []))];
}

test("help loads no module that only other commands need", async () => {
  const loaded = await loadedBy("--help");
  expect(loaded).toContain("commander");
  expect(loaded.filter((name) => !name.startsWith("src/"))).toEqual(["commander"]);
  expect(loaded.filter((name) => name.startsWith("src/")).length).toBeLessThan(10);
});

test("the help of a command that needs the cluster does not load the Kubernetes client", async () => {
  const loaded = await loadedBy("migrate", "--help");
  expect(loaded).not.toContain("@kubernetes/client-node");
  expect(loaded).not.toContain("bullmq");
});
