/** Compiles the server as the image contains it, once for each run of the bench. */
import { execFile } from "node:child_process";
import { copyFile, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const compiled = new Map<string, Promise<string>>();

/** Returns the path of the server's program. */
export function compileServer(stateDir: string): Promise<string> {
  const known = compiled.get(stateDir) ?? compile(join(stateDir, "compiled"));
  compiled.set(stateDir, known);
  return known;
}

async function compile(dir: string): Promise<string> {
  const tsc = join(root, "node_modules/.bin/tsc");
  await run(tsc, ["--project", join(root, "tsconfig.build.json"), "--outDir", join(dir, "dist")]);
  await copyFile(join(root, "package.json"), join(dir, "package.json"));
  await symlink(join(root, "node_modules"), join(dir, "node_modules"));
  return join(dir, "dist/src/cli.js");
}
