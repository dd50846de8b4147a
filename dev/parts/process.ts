/** The processes of the local world. Each has a process group of its own and ends with us, whatever ends us. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/**
 * Runs a command and hands SIGTERM on to it. The other end of descriptor 3 is ours alone: when we are gone, even by
 * SIGKILL, the read ends and takes the whole group with it.
 */
const supervisor = `
trap 'kill -TERM "$child" 2>/dev/null' TERM
"$@" 3<&- & child=$!
( trap - TERM; read -r _ <&3; kill -KILL 0 ) &
while kill -0 "$child" 2>/dev/null; do wait "$child"; status=$?; done
exit "$status"`;

export interface ProcessOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly logFile: string;
  readonly env?: NodeJS.ProcessEnv | undefined;
  readonly cwd?: string | undefined;
}

export interface RunningProcess {
  readonly name: string;
  readonly pid: number;
  readonly logFile: string;
  /** Resolves with the reason once the process is gone, whoever ended it. */
  readonly exited: Promise<string>;
  /** Waits until `check` is true; fails with the end of the log if the process ends first or time runs out. */
  ready(check: () => Promise<boolean>, withinMs?: number): Promise<void>;
  /** SIGTERM, then SIGKILL for the whole group. */
  stop(graceMs?: number): Promise<void>;
}

export async function startProcess(options: ProcessOptions): Promise<RunningProcess> {
  const { name, command, args, logFile, env = process.env, cwd } = options;
  await mkdir(dirname(logFile), { recursive: true });
  const log = openSync(logFile, "a", 0o600);
  const child = spawn("/bin/sh", ["-c", supervisor, name, command, ...args], {
    detached: true,
    stdio: ["ignore", log, log, "pipe"],
    env,
    cwd,
  });
  closeSync(log);
  await once(child, "spawn");
  const pid = child.pid as number;
  // The pipe only holds the process; it is nothing to wait for. It breaks when the process ends.
  child.stdio[3]?.on("error", () => undefined);
  const exited = once(child, "exit").then(([code, signal]: unknown[]) => {
    killGroup(pid);
    return signal ? `ended by ${String(signal)}` : `exit status ${String(code)}`;
  });

  return {
    name,
    pid,
    logFile,
    exited,
    async ready(check, withinMs = 60_000) {
      const deadline = Date.now() + withinMs;
      let gone: string | undefined;
      void exited.then((reason) => (gone = reason));
      while (!(await check().catch(() => false))) {
        const problem = gone ?? (Date.now() > deadline ? `not ready after ${withinMs / 1000} s` : undefined);
        if (problem !== undefined) throw new Error(await explain(name, problem, logFile));
        await delay(50);
      }
    },
    async stop(graceMs = 5_000) {
      if (child.exitCode === null && child.signalCode === null) await end(child, pid, graceMs);
      await exited;
    },
  };
}

async function end(child: ChildProcess, pid: number, graceMs: number): Promise<void> {
  child.kill("SIGTERM");
  const late = setTimeout(() => killGroup(pid), graceMs);
  if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  clearTimeout(late);
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // Nobody is left in it.
  }
}

/** What a person needs to see when a part does not start. */
async function explain(name: string, problem: string, logFile: string): Promise<string> {
  const log = await readFile(logFile, "utf8").catch(() => "");
  const tail = log.trimEnd().split("\n").slice(-20).join("\n");
  return `${name} did not start: ${problem}. The end of ${logFile}:\n${tail === "" ? "(empty)" : tail}`;
}
