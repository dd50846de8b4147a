/** A stand-in for kluctl in tests that stage faults, and helpers shared with the tests of the real kluctl. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { chmod, cp, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { pino } from "pino";
import { createKluctl, type KluctlDeps, type KluctlProcesses } from "../../src/kluctl/kluctl.ts";
import {
  type Credentials,
  type DeployOptions,
  type GitCredential,
  type Held,
  noCredentials,
  type Run,
} from "../../src/model.ts";
import { monotonicNow } from "../../src/kit/monotonic.ts";

/**
 * Creates a shell script that reports version 2.22.1 of kluctl, or another one. For every other command it runs `body`,
 * where `$out` is the result file to write and `$here` a directory of the test.
 */
export async function createFakeKluctl(here: string, body: string, version = "2.22.1"): Promise<string> {
  const path = join(here, "kluctl");
  const script = `#!/bin/bash
here=${here}
if [ "$1" = version ]; then echo ${version}; exit; fi
for argument; do case $argument in yaml=*) out=\${argument#yaml=};; esac; done
${body}
`;
  await writeFile(path, script);
  await chmod(path, 0o755);
  return path;
}

export interface Logged {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export function collectLogs(): { log: KluctlDeps["log"]; lines: Logged[] } {
  const lines: Logged[] = [];
  const log = pino({ level: "debug" }, { write: (line: string) => void lines.push(JSON.parse(line) as Logged) });
  return { log, lines };
}

export function newKluctl(here: string, deps: Partial<KluctlDeps> & Pick<KluctlDeps, "binary">): KluctlProcesses {
  return createKluctl({
    cacheDir: join(here, "cache"),
    workDir: join(here, "work"),
    kubeconfigFor: () => "{}",
    env: { PATH: process.env["PATH"] },
    log: pino({ level: "silent" }),
    ...deps,
  });
}

/** Credentials with only git logins. */
export function gitLogins(...git: readonly GitCredential[]): Credentials {
  return { ...noCredentials, git };
}

export function newRun(run: Partial<Run>): Run {
  return {
    deployment: { namespace: "shop", name: "staging" },
    reconcileId: "3f0c8d3e-0000-4000-8000-000000000000",
    projectDir: "/nowhere",
    images: [],
    includeTags: [],
    excludeTags: [],
    includeDeploymentDirs: [],
    excludeDeploymentDirs: [],
    credentials: noCredentials,
    timeoutMs: 60_000,
    ...run,
  };
}

export const noDiffOptions = { forceApply: false, replaceOnError: false, forceReplaceOnError: false };
export const noDeployOptions: DeployOptions = {
  ...noDiffOptions,
  dryRun: false,
  noWait: false,
  abortOnError: false,
};

/** A lease that the test renews or loses. */
export function fakeHeld(): Held & { renew(): void; lose(): void } {
  const lost = new AbortController();
  const callbacks = new Set<(renewedAt: number) => void>();
  return {
    lost: lost.signal,
    onRenewed(callback) {
      callbacks.add(callback);
      callback(monotonicNow());
      return () => callbacks.delete(callback);
    },
    release: () => Promise.resolve(),
    renew: () => callbacks.forEach((callback) => callback(monotonicNow())),
    lose: () => lost.abort(),
  };
}

const run = promisify(execFile);

/** Creates a project as kluctl requires it: in a clone of a repository that is fetched over https. */
export async function createProject(dir: string, files: Record<string, string>): Promise<string> {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(dir, name, ".."), { recursive: true });
    await writeFile(join(dir, name), content);
  }
  await commit(dir);
  return dir;
}

export function createShop(dir: string): Promise<string> {
  return createExample("shop", dir);
}

/** Copies a directory of examples/. */
export async function createExample(name: string, dir: string): Promise<string> {
  await cp(join(import.meta.dirname, "../../examples", name), dir, { recursive: true });
  await commit(dir);
  return dir;
}

async function commit(dir: string): Promise<void> {
  const git = (...args: string[]) =>
    run("git", ["-c", "user.name=test", "-c", "user.email=test@test", ...args], { cwd: dir });
  await git("init", "--quiet", "--initial-branch=main");
  await git("remote", "add", "origin", "https://git.example.com/org/shop.git");
  await git("add", "--all");
  await git("commit", "--quiet", "--message=test");
}

/** Ids of the processes whose command line contains the text, except for this process. */
export async function findProcesses(text: string): Promise<number[]> {
  const { stdout } = await run("ps", ["-eo", "pid=,args=", "-ww"]);
  return stdout
    .split("\n")
    .filter((line) => line.includes(text) && !line.includes("ps -eo"))
    .map((line) => Number.parseInt(line, 10))
    .filter((pid) => pid !== process.pid);
}

/** A process that has ended but was not reaped by its parent does not count as running. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s*[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
