/**
 * A process under the watchdog of watchdog.ts, in a process group of its own: sends heartbeats, reads output, ends it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { within } from "../kit/deadline.ts";
import { createLineReader, createTail, type LineLimits } from "./output.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import { underWatch, watchLine } from "./watchdog.ts";

export interface WatchedLimits extends LineLimits {
  /** The process is killed this long after the time of the last heartbeat. */
  readonly silenceMs: number;
  /** How many bytes of the end of stdout, and of stderr, are kept. */
  readonly keptBytes: number;
}

export interface WatchedSpec {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** What the process reads from stdin; nothing if absent. */
  readonly input?: string | undefined;
  readonly limits: WatchedLimits;
  /** Time of the first heartbeat (`monotonicNow()`): the process is not started if it is too long ago. */
  readonly beatAt: number;
}

export interface Watched {
  /** Pid of the group's leader, once it is known. */
  readonly pid?: number | undefined;
  /** Resolves when its process group has been killed. Rejects if the process could not be started. */
  readonly ended: Promise<WatchedEnd>;
  /** `at`: when the lease was renewed (`monotonicNow()`). A heartbeat that is too late is dropped. */
  beat(at: number): void;
  /** Signals the whole group, if there is one. */
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

export const startWatched: StartWatched = ({ command, args, env, cwd, input, limits, beatAt }, onLines) => {
  // Computed here, right before use: any delay on the way shortens the remaining time.
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
    stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe", "pipe"],
  });
  child.stdin?.on("error", () => undefined); // the process did not read all of it; how it ended says why
  child.stdin?.end(input);
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
  closed.catch(() => undefined); // `exit` reports the failure
  if (child.pid === undefined) await exit; // rejects: it could not be spawned, and may not even have streams
  const [stdout, stderr] = [createTail(limits.keptBytes), createTail(limits.keptBytes)];
  let lines: string[] = [];
  const reader = createLineReader(limits, (line) => lines.push(line));
  const flush = () => {
    if (lines.length > 0) onLines(lines);
    lines = [];
  };
  child.stdout?.on("data", stdout.push);
  child.stderr?.on("data", (chunk: Buffer) => {
    stderr.push(chunk);
    reader.push(chunk);
    flush();
  });
  try {
    const [code, signal] = await exit;
    killGroup(child.pid, "SIGKILL"); // processes that it started and did not end
    await within(1_000, closed, () => undefined, { ref: false }); // unless another process holds our pipes
    reader.end();
    flush();
    return { code, signal, stdout: stdout.text(), stderr: stderr.text() };
  } finally {
    for (const stream of child.stdio) stream?.destroy();
  }
}

/**
 * Resolves when a killed group has no processes left, or after `atMostMs`: zombies that are not reaped stay in the
 * group.
 */
export async function groupGone(pid: number, atMostMs: number): Promise<void> {
  const until = performance.now() + atMostMs;
  try {
    while (performance.now() < until) {
      process.kill(-pid, 0);
      await delay(20);
    }
  } catch {
    // No process is left in it.
  }
}

export function killGroup(pid: number | undefined, signal: EndingSignal): void {
  if (pid === undefined) return; // it could not be started
  try {
    process.kill(-pid, signal);
  } catch {
    // No process is left in it.
  }
}
