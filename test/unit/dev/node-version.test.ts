import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import manifest from "../../../package.json" with { type: "json" };

const root = join(import.meta.dirname, "../../..");

test("every script finds or downloads a Node that is new enough", () => {
  for (const [name, script] of Object.entries(manifest.scripts)) {
    for (const command of script.split(" && "))
      expect(command, name).toMatch(/^(?:[A-Z_]+=\S+ )*dev\/run \S+|^npm run build$/);
  }
});

test("the command line names the Node version that it needs", () => {
  const older = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.20.2" } })';
  const args = ["--import", `data:text/javascript,${encodeURIComponent(older)}`, "src/cli.ts", "version"];
  const { status, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  expect([status, stderr]).toEqual([1, "towline needs Node 22.19 or newer; this is Node 20.20.2\n"]);
  expect(manifest.engines.node).toBe(">=22.19.0");
});

test("dependencies that an older Node did not install are installed by the next script", () => {
  const dir = mkdtempSync(join(tmpdir(), "towline-installed-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  mkdirSync(join(dir, "dev"));
  mkdirSync(join(dir, "node_modules"));
  cpSync(join(root, "dev/is-installed.ts"), join(dir, "dev/is-installed.ts"));
  const [needed, tracing, other] = [
    { "node_modules/needed": { version: "1.0.0" } },
    { "node_modules/tracing": { version: "1.0.0", optional: true } },
    { "node_modules/for-another-system": { version: "1.0.0", optional: true } },
  ];
  const lock = (file: string, packages: object) => writeFileSync(join(dir, file), JSON.stringify({ packages }));
  const own = { optionalDependencies: { tracing: "1.0.0" } };
  lock("package-lock.json", { "": own, ...needed, ...tracing, ...other });
  const isInstalled = (packages: object) => {
    lock("node_modules/.package-lock.json", packages);
    return spawnSync(process.execPath, [join(dir, "dev/is-installed.ts")]).status === 0;
  };

  expect(isInstalled({ ...needed, ...tracing, ...other })).toBe(true);
  expect(isInstalled({ ...needed, ...tracing })).toBe(true);
  expect(isInstalled({ ...needed, ...other })).toBe(false);
  expect(isInstalled({ ...tracing, ...other })).toBe(false);
});
