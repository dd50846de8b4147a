/** The files of repositories, as the model of kluctl reads them: its own working copy, and what it includes. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { gitEnvironment } from "../parts/work-copy.ts";
import { RenderError, type Tree } from "./render.ts";

/** Another repository cannot be read, which says nothing about the project. */
export class CloneError extends Error {}

export function cloneTree(url: string): Tree {
  const dir = mkdtempSync(join(process.env["TMPDIR"] ?? "/tmp", "model-"));
  try {
    execFileSync("git", ["clone", "--quiet", "--depth=1", url, dir], {
      env: gitEnvironment,
      stdio: ["ignore", 1, "pipe"],
    });
    return readTree(dir);
  } catch (error) {
    const { stderr } = error as { stderr?: Buffer };
    throw new CloneError(`failed to clone git source ${url}: temporary failure: ${String(stderr ?? "").trim()}`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export function readTree(root: string): Tree {
  const entries = readdirSync(root, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => !relative(root, file).startsWith(`.git${sep}`));
  return new Map(files.map((file) => [relative(root, file), readFileSync(file, "utf8")]));
}

export function rootOf(dir: string): string {
  const above = join(dir, "..");
  try {
    readFileSync(join(dir, ".git", "HEAD"));
    return dir;
  } catch {
    if (above === dir) throw new RenderError("there is no repository");
    return rootOf(above);
  }
}

export function headOf(dir: string): string {
  return readFileSync(join(rootOf(dir), ".git", "HEAD"), "utf8").trim();
}
