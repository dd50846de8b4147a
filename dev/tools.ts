/**
 * Finds the programs of the local world, in this order: the variable, PATH if the version is accepted, the cache, and
 * finally Debian's package (Redis), the project's own release if its checksum is known, or a build from Go modules.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { createLines, type Part, type Progress } from "./progress.ts";
import { downloadTool, findDownloaded } from "./release/obtain.ts";
import { findRelease, type Release, readTable, type ReleaseTable } from "./release/releases.ts";
import { buildTool, findBuilt } from "./tool-build.ts";
import { type GoBuild, type Tool, type ToolName, tools } from "./tool-table.ts";

export type ToolPaths<Name extends ToolName = ToolName> = Readonly<Record<Name, string>>;

export interface FindOptions {
  /** Reports steps that take long to the user. */
  readonly say: (line: string) => void;
  /** Shows the programs that are downloaded or built; lines for `say` if absent. */
  readonly progress?: Progress;
  /** `TOWLINE_DEMO_OFFLINE=1`: no release is downloaded, only packages and modules. */
  readonly env?: NodeJS.ProcessEnv;
  /** The programs that are published ready-made. */
  readonly releases?: ReleaseTable;
}

const run = promisify(execFile);

export interface FoundTools<Name extends ToolName> {
  readonly paths: Readonly<Record<Name, Promise<string>>>;
  /** Those that are still to be downloaded, installed or built. */
  readonly missing: readonly Name[];
}

/** Finds all of the programs and obtains those that are missing. */
export async function findTools<Name extends ToolName>(
  names: readonly Name[],
  options: FindOptions,
): Promise<ToolPaths<Name>> {
  const { paths } = await findEachTool(names, options);
  const entries = await Promise.all(names.map(async (name): Promise<[Name, string]> => [name, await paths[name]]));
  return Object.fromEntries(entries) as ToolPaths<Name>;
}

/**
 * Resolves when it is known which programs are missing. These are downloaded, all at once; what cannot be downloaded is
 * installed or built, one after the other in this order. If one fails, those after it fail too.
 */
export async function findEachTool<Name extends ToolName>(
  names: readonly Name[],
  { say, progress = createLines(say), env = process.env, releases = readTable() }: FindOptions,
): Promise<FoundTools<Name>> {
  const found = await Promise.all(
    names.map(async (name) => {
      const release = findRelease(releases, name);
      return { name, release, path: await findTool(tools[name], release, env) };
    }),
  );
  const obtained: Promise<string>[] = [];
  const paths = found.map(({ name, release, path }) => {
    if (path !== undefined) return [name, Promise.resolve(path)] as const;
    const published = env["TOWLINE_DEMO_OFFLINE"] === "1" ? undefined : release;
    const part = progress.expect(name, published ? undefined : tools[name].build?.aboutSeconds);
    const before = Promise.all(obtained);
    const missing = obtain(tools[name], published, before, { say: progress.say, part, env });
    missing.catch(() => undefined); // reported by the caller that needs the program
    obtained.push(missing);
    return [name, missing] as const;
  });
  return {
    paths: Object.fromEntries(paths) as Record<Name, Promise<string>>,
    missing: found.filter(({ path }) => path === undefined).map(({ name }) => name),
  };
}

interface ObtainOptions {
  readonly say: (line: string) => void;
  readonly part: Part;
  readonly env: NodeJS.ProcessEnv;
}

async function obtain(
  tool: Tool,
  release: Release | undefined,
  before: Promise<unknown>,
  options: ObtainOptions,
): Promise<string> {
  before.catch(() => undefined); // awaited later, or not at all
  try {
    let path = release && (await tryDownload(tool, release, options));
    if (path === undefined) {
      await before;
      path = tool.build ? await buildTool(tool, tool.build, options) : await install(tool, options);
    }
    options.part.end("there");
    return path;
  } catch (error) {
    options.part.end("failed");
    throw error;
  }
}

/** Undefined if it has to be built, after saying why. */
async function tryDownload(tool: Tool, release: Release, options: ObtainOptions) {
  try {
    const path = await downloadTool(tool.name, release, options);
    if (await isUsable(tool, path)) return path;
    throw new Error("it does not run on this machine");
  } catch (error) {
    options.part.wait(tool.build?.aboutSeconds);
    options.say(`No ready-made ${tool.name} ${release.version}: ${(error as Error).message}. It will be built.`);
    return undefined;
  }
}

/** Finds a tool for another architecture; it is always built. */
export async function findForeignTool(
  name: ToolName,
  architecture: GoBuild["architecture"],
  { say, env = process.env }: FindOptions,
): Promise<string> {
  const { build, ...tool } = tools[name];
  if (build === undefined) throw new Error(`${name} is not built by this project.`);
  const foreign = { ...build, architecture };
  const found = await findBuilt(name, foreign);
  if (found !== undefined) return found;
  const part = createLines(say).expect(name);
  const path = await buildTool(tool, foreign, { say, part, env });
  part.end("there");
  return path;
}

async function findTool(tool: Tool, release: Release | undefined, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const named = env[tool.variable];
  if (named !== undefined && named !== "") {
    if (await isExecutable(named)) return named;
    throw new Error(`${tool.variable}: ${named} is not an executable file.`);
  }
  const onPath = await findOnPath(tool, env);
  if (onPath !== undefined) return onPath;
  const published = release && (await findDownloaded(tool.name, release));
  // Once downloaded, it may turn out not to run on this machine.
  if (published !== undefined && (await isUsable(tool, published))) return published;
  return tool.build && findBuilt(tool.name, tool.build);
}

async function findOnPath(tool: Tool, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const command of tool.commands) {
    for (const folder of (env["PATH"] ?? "").split(delimiter)) {
      const path = join(folder, command);
      if (folder !== "" && (await isExecutable(path)) && (await isUsable(tool, path))) return path;
    }
  }
  return undefined;
}

/** Merging two commits without a working copy needs git 2.38. */
export async function requireGit(): Promise<void> {
  const git = { versionArgs: ["--version"], versions: { from: "2.38.0", below: "100.0.0" } };
  if (!(await isUsable(git, "git"))) throw new Error("No git 2.38 or newer on PATH: install git.");
}

async function isUsable(tool: Pick<Tool, "versionArgs" | "versions" | "needs">, path: string): Promise<boolean> {
  const output = await run(path, [...tool.versionArgs], { timeout: 10_000 }).then(
    ({ stdout, stderr }) => stdout + stderr,
    () => "",
  );
  const version = /\d+\.\d+(\.\d+)?/.exec(output)?.[0];
  if (version === undefined || (tool.needs && !tool.needs.test(output))) return false;
  return compareVersions(version, tool.versions.from) >= 0 && compareVersions(version, tool.versions.below) < 0;
}

export function compareVersions(one: string, other: string): number {
  const [a, b] = [one.split(".").map(Number), other.split(".").map(Number)];
  for (let i = 0; i < 3; i++) {
    const difference = (a[i] ?? 0) - (b[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

async function install(tool: Tool, { part, env }: ObtainOptions): Promise<string> {
  const { name, versions, debian = name } = tool;
  const hint = `Install ${debian} (${name} ${versions.from} or newer), or set ${tool.variable}=/path/to/${name}.`;
  await runInstallation(debian, hint, part);
  const path = await findOnPath(tool, env);
  if (path === undefined) throw new Error(`Debian's ${debian} is older than ${versions.from}. ${hint}`);
  return path;
}

/** Needs root and apt-get; `hint` says what to do without them. */
export async function installPackage(name: string, hint: string, say: (line: string) => void): Promise<void> {
  const part = createLines(say).expect(name);
  await runInstallation(name, hint, part);
  part.end("there");
}

async function runInstallation(name: string, hint: string, part: Part): Promise<void> {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || !(await isExecutable("/usr/bin/apt-get"))) throw new Error(`${name} was not found. ${hint}`);
  part.begin({ doing: "installing", title: name, from: "from Debian's packages" });
  // Waits for other installations: a new machine may still be being set up.
  const wait = "-o DPkg::Lock::Timeout=600";
  // The lock timeout does not apply to the lock on the package lists.
  const update = "n=0; until apt-get update -qq || [ $((n += 1)) -ge 24 ]; do sleep 5; done";
  const script = `${update}; apt-get install -y -qq ${wait} --no-install-recommends ${name}`;
  // RUNLEVEL keeps the service from being started.
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const child = spawn("/bin/sh", ["-c", `{ ${script}; } 2>&1`], { stdio: ["ignore", "pipe", "ignore"], env });
  const closed = once(child, "close");
  const output = await text(child.stdout);
  const [code] = (await closed) as [number | null];
  if (code !== 0) throw new Error(`apt-get could not install ${name}. ${hint} Its output:\n${output.trimEnd()}`);
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
