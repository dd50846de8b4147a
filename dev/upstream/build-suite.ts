/**
 * Compiles kluctl's own GitOps suite, changed so that it starts any controller as a process. The suite's sources are
 * not part of this repository.
 */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, cp, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { cacheDir } from "../cache.ts";
import { endOfLog, startProcess } from "../parts/process.ts";
import { createStateDir } from "../parts/state-dir.ts";

export const suiteVersion = "2.22.1";
const kluctlModule = "github.com/kluctl/kluctl/v2";
const controllerSource = join(import.meta.dirname, "controller_process_test.go");
/** Code with which the suite starts its controller inside its own process. */
const inProcess = "test_project.KluctlExecute(suite.T(), ctx, logFn, args...)";
const asProcess = "executeController(suite.T(), ctx, logFn, args...)";
const progressEveryMs = 15_000;

export interface Suite {
  readonly binary: string;
  /** Directory to run it in, because it reads files relative to it. */
  readonly cwd: string;
}

/** Takes minutes the first time. `own`: with kluctl's controller unchanged, inside the suite. */
export async function buildSuite(own: boolean, say: (line: string) => void): Promise<Suite> {
  const run = promisify(execFile);
  const { stdout } = await run("go", ["mod", "download", "-json", `${kluctlModule}@v${suiteVersion}`]).catch(
    (cause: unknown) => {
      throw new Error(
        `Cannot download kluctl's Go module: install Go (https://go.dev/dl) and check its proxy settings`,
        {
          cause,
        },
      );
    },
  );
  const { Dir: module } = JSON.parse(stdout) as { Dir: string };
  const controller = await readFile(controllerSource, "utf8");
  const kind = own ? "own" : createHash("sha256").update(controller).digest("hex").slice(0, 8);
  const folder = join(cacheDir(), "upstream");
  const suite = { binary: join(folder, `gitops-${suiteVersion}-${kind}.test`), cwd: join(module, "e2e") };
  if (await exists(suite.binary)) return suite;

  await mkdir(folder, { recursive: true });
  const work = await createStateDir(join(cacheDir(), "work"));
  try {
    const source = join(work.path, "kluctl");
    await cp(module, source, { recursive: true });
    await run("chmod", ["-R", "u+w", source]); // Go's cache is read-only
    if (!own) {
      const path = join(source, "e2e", "gitops_suite_test.go");
      const text = await readFile(path, "utf8");
      if (text.split(inProcess).length !== 2) throw new Error(`${path}: unexpected code to start the controller`);
      await writeFile(path, text.replace(inProcess, asProcess));
      await writeFile(join(source, "e2e", "controller_process_test.go"), controller);
    }
    await compile(source, join(work.path, "built"), say);
    await rename(join(work.path, "built"), suite.binary);
    return suite;
  } finally {
    await work.remove();
  }
}

async function compile(source: string, output: string, say: (line: string) => void): Promise<void> {
  const started = Date.now();
  const elapsed = () => `${Math.round((Date.now() - started) / 1000)} s`;
  say(`compiling kluctl ${suiteVersion}'s suite (about 4 min, once) …`);
  const progress = setInterval(() => say(`compiling the suite … ${elapsed()}`), progressEveryMs);
  const logFile = join(source, "..", "build.log");
  try {
    const args = ["test", "-mod=readonly", "-c", "-o", output, "./e2e"];
    const go = await startProcess({ name: "go test -c", command: "go", args, cwd: source, logFile });
    const { ok, reason } = await go.exited;
    if (!ok) throw new Error(`Cannot compile the suite: ${reason}.${await endOfLog(logFile)}`);
  } finally {
    clearInterval(progress);
  }
  say(`compiled (${elapsed()})`);
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
