/** Builds a tool from Go modules, once for all checkouts of this machine. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { access, constants, cp, mkdir, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { cacheDir } from "./cache.ts";
import { endOfLog, startProcess } from "./parts/process.ts";
import { isAlive } from "../src/kit/work-directories.ts";
import { packageRoot } from "./package-root.ts";
import { createStateDir } from "./parts/state-dir.ts";
import type { Part } from "./progress.ts";
import type { GoBuild, Tool } from "./tool-table.ts";

interface BuildOptions {
  readonly say: (line: string) => void;
  readonly part: Part;
  readonly env: NodeJS.ProcessEnv;
}

const run = promisify(execFile);

function toolDir({ folder, own, version, architecture }: GoBuild): string {
  const state = own ? fingerprint(folder) : version;
  return join(cacheDir(), "tools", [folder, state, architecture].filter(Boolean).join("-"));
}

/** The files that a program of the checkout is built from. */
function ownFiles(folder: string): string[] {
  const names = readdirSync(join(packageRoot, folder)).toSorted();
  return names.filter((name) => /^go\.(?:mod|sum)$|\.go$/.test(name) && !name.endsWith("_test.go"));
}

function fingerprint(folder: string): string {
  const hash = createHash("sha256");
  for (const name of ownFiles(folder)) hash.update(`${name}\n`).update(readFileSync(join(packageRoot, folder, name)));
  return hash.digest("hex").slice(0, 12);
}

/** Returns the path of the cached build if it is complete. */
export async function findBuilt(name: string, build: GoBuild): Promise<string | undefined> {
  const binary = join(toolDir(build), name);
  const parts = [binary, ...(build.data?.folders ?? []).map((folder) => join(toolDir(build), folder))];
  const found = await Promise.all(parts.map(exists));
  return found.every(Boolean) ? binary : undefined;
}

/** Builds the tool into the cache. If two runs need it at once, the second one waits for the first. */
export async function buildTool(tool: Tool, build: GoBuild, options: BuildOptions): Promise<string> {
  const { say, env } = options;
  const title = [tool.name, build.version, build.architecture].filter(Boolean).join(" ");
  return withLock(join(cacheDir(), "locks", title.replaceAll(" ", "-")), title, say, async () => {
    const built = await findBuilt(tool.name, build);
    if (built !== undefined) return built;
    await needs("go", ["version"], env, `${title} is built with Go: install it (https://go.dev/dl), ${or(tool)}`);
    if (build.cgo)
      await needs("gcc", ["--version"], env, `${title} is built with gcc: install gcc and libc6-dev, ${or(tool)}`);

    const work = await createStateDir(join(cacheDir(), "work"));
    try {
      const source = join(packageRoot, build.own ? "" : "dev/tools", build.folder);
      const files = build.own ? ownFiles(build.folder) : ["go.mod", "go.sum"];
      for (const file of files) await cp(join(source, file), join(work.path, file));
      await mkdir(toolDir(build), { recursive: true });
      const binary = join(toolDir(build), tool.name);
      if (!(await exists(binary))) {
        if (build.lacks) await copyModule(build, build.lacks, work.path, env);
        await compile(title, build, work.path, options);
        await rename(join(work.path, "built"), binary);
      }
      if (build.data) await copyData(build, build.data, work.path, env);
      return binary;
    } catch (error) {
      throw new Error(`Cannot build ${title}: ${(error as Error).message}\nTry again, ${or(tool)}`, {
        cause: error,
      });
    } finally {
      await work.remove();
    }
  });
}

function or(tool: Tool): string {
  return `or name a ready-made one with ${tool.variable}=/path/to/${tool.name}.`;
}

async function compile(title: string, build: GoBuild, cwd: string, { part, env }: BuildOptions): Promise<void> {
  const args = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-tags", build.tags ?? ""];
  args.push("-ldflags", `-s -w ${build.ldflags ?? ""}`, "-o", "built", build.package);
  part.begin({ doing: "building", title, from: "from Go modules", usualSeconds: build.aboutSeconds });
  const logFile = join(cwd, "build.log");
  const goEnv = {
    ...env,
    CGO_ENABLED: build.cgo ? "1" : "0",
    ...(build.architecture && { GOARCH: build.architecture }),
  };
  const go = await startProcess({ name: "go build", command: "go", args, cwd, env: goEnv, logFile });
  const { ok, reason } = await go.exited;
  if (!ok) throw new Error(`go build: ${reason}.${await endOfLog(logFile)}`);
}

/**
 * Copies the files that the program reads at run time beside it, so that the build does not depend on Go's own cache.
 */
async function copyData(build: GoBuild, data: NonNullable<GoBuild["data"]>, work: string, env: NodeJS.ProcessEnv) {
  const source = await downloadModule(data.module, build, work, env);
  for (const folder of data.folders) {
    const target = join(toolDir(build), folder);
    if (await exists(target)) continue;
    await copyWritable(join(source, folder), join(work, folder));
    await mkdir(dirname(target), { recursive: true });
    await rename(join(work, folder), target);
  }
}

/** Copies the module and adds the files that it lacks, to build the program from the copy. */
async function copyModule(build: GoBuild, lacks: NonNullable<GoBuild["lacks"]>, work: string, env: NodeJS.ProcessEnv) {
  const copy = join(work, "module");
  await copyWritable(await downloadModule(lacks.module, build, work, env), copy);
  for (const [path, content] of Object.entries(lacks.files)) {
    await mkdir(dirname(join(copy, path)), { recursive: true });
    await writeFile(join(copy, path), content);
  }
  await run("go", ["mod", "edit", `-replace=${lacks.module}=./module`], { cwd: work, env });
}

/** Returns the module's directory in Go's cache, checked against our go.sum. */
async function downloadModule(module: string, { version }: GoBuild, cwd: string, env: NodeJS.ProcessEnv) {
  const { stdout } = await run("go", ["mod", "download", "-json", `${module}@v${version}`], { cwd, env });
  return (JSON.parse(stdout) as { Dir: string }).Dir;
}

/** Go's cache is read-only, and so would be a copy of it, which could not be removed. */
async function copyWritable(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true });
  await run("chmod", ["-R", "u+w", to]);
}

async function needs(command: string, args: string[], env: NodeJS.ProcessEnv, message: string): Promise<void> {
  await run(command, args, { env }).catch((cause: unknown) => {
    throw new Error(message, { cause });
  });
}

/**
 * Runs the work under a lock: a file with the owner's process id. A lock left by a killed run is taken over. If two
 * runs take it over at the same instant, both build, which only costs time: results appear by rename.
 */
export async function withLock<T>(
  path: string,
  title: string,
  say: BuildOptions["say"],
  work: () => Promise<T>,
): Promise<T> {
  await mkdir(join(path, ".."), { recursive: true });
  for (let told = false; ; await delay(250)) {
    const file = await open(path, "wx").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "EEXIST") return undefined;
      throw error;
    });
    if (file !== undefined) {
      await file.writeFile(String(process.pid));
      await file.close();
      break;
    }
    const owner = Number(await readFile(path, "utf8").catch(() => ""));
    if (owner > 0 && !isAlive(owner)) await rm(path, { force: true });
    else if (!told) say(`waiting for process ${owner || "?"}, which holds the lock for ${title} …`);
    told = true;
  }
  try {
    return await work();
  } finally {
    await rm(path, { force: true });
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path, constants.F_OK).then(
    () => true,
    () => false,
  );
}
