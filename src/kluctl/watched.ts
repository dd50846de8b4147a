/** A process that watchdog.ts watches over, in a group of its own: fed with heartbeats, listened to, ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { createLineReader, createTail, type LineLimits } from "./output.ts";
import { underWatch } from "./watchdog.ts";

export interface WatchedLimits extends LineLimits {
  /** Without a heartbeat for so long the process is killed. */
  readonly silenceMs: number;
  /** How much of the end of stdout, and of stderr, is kept. */
  readonly keptBytes: number;
}

export interface WatchedSpec {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly limits: WatchedLimits;
}

export interface Watched {
  /** Of the group's leader, as soon as it is known. */
  readonly pid?: number | undefined;
  /** Resolves when nothing of its group is left. Rejects if it could not be started. */
  readonly ended: Promise<WatchedEnd>;
  beat(): void;
  /** Signals the whole group, as far as there is one. */
  kill(signal: EndingSignal): void;
}

export type EndingSignal = "SIGTERM" | "SIGKILL";

export interface WatchedEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Calls back with lines of stderr, as plain text. */
export type StartWatched = (spec: WatchedSpec, onLines: (lines: readonly string[]) => void) => Watched;

export const startWatched: StartWatched = ({ command, args, env, cwd, limits }, onLines) => {
  const [watchdog, watched] = underWatch(limits.silenceMs, command, args);
  const child = spawn(watchdog, watched, {
    cwd,
    env,
    detached: true, // leads a process group of its own
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const heart = child.stdio[3] as Writable | undefined;
  heart?.on("error", () => undefined); // it broke because the process is gone
  return {
    pid: child.pid,
    ended: gather(child, limits, onLines),
    beat: () => void heart?.write("\n"),
    kill: (signal) => killGroup(child.pid, signal),
  };
};

async function gather(child: ChildProcess, limits: WatchedLimits, onLines: Parameters<StartWatched>[1]) {
  const exit = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const closed = once(child, "close");
  closed.catch(() => undefined); // `exit` tells
  if (child.pid === undefined) await exit; // rejects: it could not be spawned, and may not even have streams
  const [stdout, stderr] = [createTail(limits.keptBytes), createTail(limits.keptBytes)];
  let lines: string[] = [];
  const reader = createLineReader(limits, (line) => lines.push(line));
  const tell = () => {
    if (lines.length > 0) onLines(lines);
    lines = [];
  };
  child.stdout?.on("data", stdout.push);
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr.push(chunk);
    reader.push(chunk);
    tell();
  });
  try {
    const [code, signal] = await exit;
    killGroup(child.pid, "SIGKILL"); // whatever it started and did not end
    await Promise.race([closed, delay(1_000, undefined, { ref: false })]); // unless somebody holds our pipes
    reader.end();
    tell();
    return { code, signal, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    for (const stream of child.stdio) stream?.destroy();
  }
}

export function killGroup(pid: number | undefined, signal: EndingSignal): void {
  if (pid === undefined) return; // could not be started
  try {
    process.kill(-pid, signal);
  } catch {
    // Nobody is left in it.
  }
}
