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
until wait "$child"; status=$?; ! kill -0 "$child" 2>/dev/null; do :; done
exit "$status"`;

export interface ProcessOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Where its output goes; without one, to our own terminal. */
  readonly logFile?: string | undefined;
  readonly env?: NodeJS.ProcessEnv | undefined;
  readonly cwd?: string | undefined;
  /** What the process has started in its group is left alone when it ends, until `stop`: as where nothing else ends them. */
  readonly leavesChildren?: boolean | undefined;
}

export interface RunningProcess {
  readonly name: string;
  readonly pid: number;
  /** Resolves once the process is gone, whoever ended it. */
  readonly exited: Promise<Exit>;
  /** Waits until `check` is true; fails with the end of the log if the process ends first or time runs out. */
  ready(check: () => Promise<boolean>, withinMs?: number): Promise<void>;
  /** SIGTERM, then SIGKILL for the whole group. */
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
  // The pipe only holds the process; it is nothing to wait for. It breaks when the process ends.
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
      if (leavesChildren) killGroup(pid); // our own shell is in it still, so that the number is nobody else's
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

async function openLog(path: string): Promise<number> {
  await mkdir(dirname(path), { recursive: true });
  return openSync(path, "a", 0o600);
}

/** What a person needs to see when a process did not do its work. */
export async function endOfLog(path: string | undefined): Promise<string> {
  if (path === undefined) return "";
  const log = await readFile(path, "utf8").catch(() => "");
  const tail = log.trimEnd().split("\n").slice(-20).join("\n");
  return ` The end of its log:\n${tail === "" ? "(empty)" : tail}`;
}
