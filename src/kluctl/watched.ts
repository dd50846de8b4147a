/** A process that watchdog.ts watches over, in a group of its own: fed with heartbeats, listened to, ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { createLineReader, createTail, type LineLimits } from "./output.ts";
import { monotonicNow } from "../monotonic.ts";
import { underWatch, watchLine } from "./watchdog.ts";

export interface WatchedLimits extends LineLimits {
  /** So long after what the last heartbeat stands for the process is killed. */
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
  /** What the first heartbeat stands for (`monotonicNow()`): the process is not started if that is too long ago. */
  readonly beatAt: number;
}

export interface Watched {
  /** Of the group's leader, as soon as it is known. */
  readonly pid?: number | undefined;
  /** Resolves when nothing of its group is left. Rejects if it could not be started. */
  readonly ended: Promise<WatchedEnd>;
  /** `at`: when the lease was renewed that it stands for (`monotonicNow()`). One that comes too late is dropped. */
  beat(at: number): void;
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

export const startWatched: StartWatched = ({ command, args, env, cwd, limits, beatAt }, onLines) => {
  // Counted here, right before it is handed on: however long it took to get here shortens what is left.
  const leftOf = (at: number) => limits.silenceMs - (monotonicNow() - at);
  const left = leftOf(beatAt);
  if (left <= 0) {
    const late = new Error(`${command} was not started: the start took longer than its lease allows`);
    return { ended: Promise.reject(late), beat: () => undefined, kill: () => undefined };
  }
  const [watchdog, watched] = underWatch(left, command, args);
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
    beat(at) {
      const left = leftOf(at);
      if (left > 0) heart?.write(watchLine(left));
    },
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

/** Resolves when nobody is left in a group that was killed, at the latest after so long: what nobody reaps stays in it. */
export async function groupGone(pid: number, atMostMs: number): Promise<void> {
  const until = performance.now() + atMostMs;
  try {
    while (performance.now() < until) {
      process.kill(-pid, 0);
      await delay(20);
    }
  } catch {
    // Nobody is left in it.
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
