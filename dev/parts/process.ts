/** The processes of the local world. Each has its own process group and ends with this process, however that ends. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/**
 * Runs a command and forwards SIGTERM to it. Only this process holds the other end of descriptor 3: when it ends, even
 * by SIGKILL, the read returns and the whole group is killed.
 */
const supervisor = `
trap 'kill -TERM "$child" 2>/dev/null' TERM
"$@" 3<&- & child=$!
( trap - TERM; read -r _ <&3; kill -KILL 0 ) &
until wait "$child"; status=$?; ! kill -0 "$child" 2>/dev/null; do :; done
exit "$status"`;

export interface ProcessOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** File for its output; our own terminal if absent. */
  readonly logFile?: string | undefined;
  readonly env?: NodeJS.ProcessEnv | undefined;
  readonly cwd?: string | undefined;
  /**
   * Child processes in its group survive its end until `stop` is called, as in an environment in which nothing else
   * ends them.
   */
  readonly leavesChildren?: boolean | undefined;
}

export interface RunningProcess {
  readonly name: string;
  readonly pid: number;
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<Exit>;
  /**
   * Waits until `check` returns true; fails with the end of the log if the process exits first or the time limit is
   * reached.
   */
  ready(check: () => Promise<boolean>, withinMs?: number): Promise<void>;
  /** Sends SIGTERM, then SIGKILL to the whole group. */
  stop(graceMs?: number): Promise<void>;
}

export interface Exit {
  readonly ok: boolean;
  readonly reason: string;
}

export async function startProcess(options: ProcessOptions): Promise<RunningProcess> {
  const { name, command, args, logFile, env = process.env, cwd, leavesChildren = false } = options;
  const log = logFile === undefined ? "inherit" : await openLog(logFile);
  const child = spawn("/bin/sh", ["-c", supervisor, name, command, ...args], {
    detached: true,
    stdio: ["ignore", log, log, "pipe"],
    env,
    cwd,
  });
  if (typeof log === "number") closeSync(log);
  await once(child, "spawn");
  const pid = child.pid as number;
  // The pipe only keeps the process alive and must not be waited for. It breaks when the process ends.
  child.stdio[3]?.on("error", () => undefined);
  const exited = once(child, "exit").then(([code, signal]: unknown[]) => {
    if (!leavesChildren) killGroup(pid);
    return { ok: code === 0, reason: signal ? `ended by ${String(signal)}` : `exit status ${String(code)}` };
  });

  return {
    name,
    pid,
    exited,
    async ready(check, withinMs = 60_000) {
      const deadline = Date.now() + withinMs;
      let gone: string | undefined;
      void exited.then((exit) => (gone = exit.reason));
      while (!(await check().catch(() => false))) {
        const problem = gone ?? (Date.now() > deadline ? `not ready after ${withinMs / 1000} s` : undefined);
        if (problem !== undefined) throw new Error(`${name} did not start: ${problem}.${await endOfLog(logFile)}`);
        await delay(50);
      }
    },
    async stop(graceMs = 5_000) {
      if (child.exitCode === null && child.signalCode === null) await end(child, pid, graceMs);
      await exited;
      if (leavesChildren) killGroup(pid); // our shell is still in the group, so its number cannot have been reused
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
    // The group is empty.
  }
}

async function openLog(path: string): Promise<number> {
  await mkdir(dirname(path), { recursive: true });
  return openSync(path, "a", 0o600);
}

/** The end of the log, to explain why a process failed. */
export async function endOfLog(path: string | undefined): Promise<string> {
  if (path === undefined) return "";
  const log = await readFile(path, "utf8").catch(() => "");
  const tail = log.trimEnd().split("\n").slice(-20).join("\n");
  return ` The end of its log:\n${tail === "" ? "(empty)" : tail}`;
}
