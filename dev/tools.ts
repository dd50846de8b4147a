/**
 * Finds the programs of the local world, in this order: the variable, PATH if the version is accepted, the cache, and
 * finally Debian's package (Redis), the project's own release if its checksum is known, or a build from Go modules.
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { downloadTool, findDownloaded } from "./release/obtain.ts";
import { findRelease, type Release, readTable, type ReleaseTable } from "./release/releases.ts";
import { buildTool, findBuilt } from "./tool-build.ts";
import { type GoBuild, type Tool, type ToolName, tools } from "./tool-table.ts";

export type ToolPaths<Name extends ToolName = ToolName> = Readonly<Record<Name, string>>;

export interface FindOptions {
  /** Reports steps that take long to the user. */
  readonly say: (line: string) => void;
  /** `TOWLINE_DEMO_OFFLINE=1`: no release is downloaded, only packages and modules. */
  readonly env?: NodeJS.ProcessEnv;
  /** The programs that are published ready-made. */
  readonly releases?: ReleaseTable;
}

const run = promisify(execFile);

/**
 * Finds all of the programs. Missing ones are downloaded, all at once; what cannot be downloaded is installed or built,
 * one after the other.
 */
export async function findTools<Name extends ToolName>(
  names: readonly Name[],
  { say, env = process.env, releases = readTable() }: FindOptions,
): Promise<ToolPaths<Name>> {
  const found = await Promise.all(
    names.map(async (name) => {
      const release = findRelease(releases, name);
      const path = await findTool(tools[name], release, env);
      const mayDownload = release !== undefined && env["TOWLINE_DEMO_OFFLINE"] !== "1";
      return [name, path ?? (mayDownload ? await tryDownload(tools[name], release, say, env) : undefined)] as const;
    }),
  );
  const paths = new Map<ToolName, string>();
  for (const [name, path] of found) paths.set(name, path ?? (await obtain(tools[name], say, env)));
  return Object.fromEntries(paths) as ToolPaths<Name>;
}

/** Undefined if it has to be built, after saying why. */
async function tryDownload(tool: Tool, release: Release, say: FindOptions["say"], env: NodeJS.ProcessEnv) {
  try {
    const path = await downloadTool(tool.name, release, { say, env });
    if (await isUsable(tool, path)) return path;
    throw new Error("it does not run on this machine");
  } catch (error) {
    say(`No ready-made ${tool.name} ${release.version}: ${(error as Error).message}. It will be built.`);
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
  return (await findBuilt(name, foreign)) ?? buildTool(tool, foreign, { say, env });
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

async function obtain(tool: Tool, say: (line: string) => void, env: NodeJS.ProcessEnv): Promise<string> {
  if (tool.build) return buildTool(tool, tool.build, { say, env });
  const { name, versions, debian = name } = tool;
  const hint = `Install ${debian} (${name} ${versions.from} or newer), or set ${tool.variable}=/path/to/${name}.`;
  await installPackage(debian, hint, say);
  const path = await findOnPath(tool, env);
  if (path === undefined) throw new Error(`Debian's ${debian} is older than ${versions.from}. ${hint}`);
  return path;
}

/** Needs root and apt-get; `hint` says what to do without them. */
export async function installPackage(name: string, hint: string, say: (line: string) => void): Promise<void> {
  const isRoot = process.getuid?.() === 0;
  if (!isRoot || !(await isExecutable("/usr/bin/apt-get"))) throw new Error(`${name} was not found. ${hint}`);
  say(`installing ${name} from Debian's packages …`);
  const started = Date.now();
  // Waits for other installations: a new machine may still be being set up.
  const wait = "-o DPkg::Lock::Timeout=600";
  // The lock timeout does not apply to the lock on the package lists.
  const update = "n=0; until apt-get update -qq || [ $((n += 1)) -ge 24 ]; do sleep 5; done";
  const script = `${update}; apt-get install -y -qq ${wait} --no-install-recommends ${name}`;
  // apt-get's output goes to stderr, like all progress. RUNLEVEL keeps the service from being started.
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive", RUNLEVEL: "1" };
  const child = spawn("/bin/sh", ["-c", `{ ${script}; } 1>&2`], { stdio: ["ignore", "inherit", "inherit"], env });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`apt-get could not install ${name}. ${hint}`);
  say(`installed ${name} (${Math.round((Date.now() - started) / 1000)} s)`);
}

async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}
