/** `npm run check`: checks the sources without running them. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { styleText } from "node:util";
import { checkHouse } from "./house.ts";

interface Verdict {
  readonly ok: boolean;
  readonly output: string;
}

const root = join(import.meta.dirname, "..");
const bin = (name: string) => join(root, "node_modules/.bin", name);

const checks: readonly (readonly [name: string, run: () => Promise<Verdict>])[] = [
  ["types", () => runTool(bin("tsc"), "--noEmit", "--project", ".")],
  ["types of the page", () => runTool(bin("tsc"), "--noEmit", "--project", "ui")],
  ["lint", () => runTool(bin("oxlint"), "--type-aware", "--quiet")],
  ["format", () => runTool(bin("prettier"), "--check", "--log-level", "warn", ".")],
  ["unused code", () => runTool(bin("knip"), "--no-progress")],
  ["import table", async () => toVerdict(checkHouse(root))],
  ["documentation", () => runTool(process.execPath, join(root, "dev/docs.ts"), "--check")],
];

const failed: string[] = [];
for (const [name, run] of checks) {
  const startedAt = performance.now();
  const { ok, output } = await run();
  const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
  say(`${mark(ok)} ${name.padEnd(17)} ${seconds.padStart(5)} s\n${ok ? "" : indent(output)}`);
  if (!ok) failed.push(name);
}
say(failed.length === 0 ? "all checks passed\n" : `failed: ${failed.join(", ")}\n`);
if (failed.length > 0) process.exitCode = 1;

function runTool(command: string, ...args: string[]): Promise<Verdict> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (data: Buffer) => (output += data.toString()));
    child.stderr.on("data", (data: Buffer) => (output += data.toString()));
    child.on("error", (error) => resolve({ ok: false, output: error.message }));
    child.on("close", (code) => resolve({ ok: code === 0, output }));
  });
}

function toVerdict(violations: readonly string[]): Verdict {
  return { ok: violations.length === 0, output: violations.join("\n") };
}

function mark(ok: boolean): string {
  return ok ? styleText("green", "ok  ") : styleText("red", "FAIL");
}

function indent(text: string): string {
  return text.trimEnd().replaceAll(/^/gm, "     ") + "\n";
}

function say(text: string): void {
  process.stdout.write(text);
}
