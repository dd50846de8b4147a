/** Runs one command to its end, whatever becomes of it or of us, and leaves no process behind. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { KilledError } from "../errors.ts";
import type { Held } from "../ports.ts";
import { createLineReader, createTail, type LineLimits } from "./output.ts";
import { underWatch } from "./watchdog.ts";

export interface ProcessLimits extends LineLimits {
  readonly timeoutMs: number;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
  /** Without a heartbeat for so long the process is killed. */
  readonly silenceMs: number;
  /** How much of the end of stdout, and of stderr, is kept. */
  readonly keptBytes: number;
}

export interface ProcessSpec {
  /** For messages. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly limits: ProcessLimits;
  readonly signal: AbortSignal;
  /** A heartbeat is one renewal of the lease. Without one we beat by the clock, as long as our event loop turns. */
  readonly held?: Pick<Held, "lost" | "onRenewed"> | undefined;
  /** Gets each line of stderr, as plain text. */
  readonly onLine?: (line: string) => void;
}

export interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

type Why = KilledError["why"];

/** Resolves when the process ended by itself, whatever its exit status. Throws KilledError when a signal ended it. */
export async function runProcess(spec: ProcessSpec): Promise<Ended> {
  const { name, limits, signal, held } = spec;
  if (held && !held.lost.aborted && !signal.aborted) await freshlyRenewed(held, signal);
  if (held?.lost.aborted) throw killed(name, "lease-lost", limits);
  if (signal.aborted) throw killed(name, "stopped", limits);

  const [command, args] = underWatch(limits.silenceMs, spec.command, spec.args);
  const child = spawn(command, args, {
    cwd: spec.cwd,
    env: spec.env,
    detached: true, // leads a process group of its own
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  const ended = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const closed = once(child, "close");
  closed.catch(() => undefined); // `ended` tells
  if (child.pid === undefined) await ended; // rejects: it could not be spawned, and may not even have streams
  const output = collect(child, spec);
  const stopHeart = startHeart(child.stdio[3] as Writable, limits.silenceMs, held);
  const cut = startCutting(child, spec);
  try {
    const [code, endedBy] = await ended;
    killGroup(child, "SIGKILL"); // whatever it started and did not end
    await Promise.race([closed, delay(1_000, undefined, { ref: false })]); // unless somebody holds our pipes
    const exitCode = code ?? 128;
    if (endedBy !== null || exitCode >= 128) throw killed(name, cut.why() ?? "signal", limits, endedBy ?? exitCode);
    return { exitCode, ...output.end() };
  } finally {
    cut.stop();
    stopHeart();
    for (const stream of child.stdio) stream?.destroy();
  }
}

function collect({ stdout, stderr }: ChildProcess, { limits, onLine }: ProcessSpec) {
  const tails = { stdout: createTail(limits.keptBytes), stderr: createTail(limits.keptBytes) };
  const lines = createLineReader(limits, onLine ?? (() => undefined));
  stdout?.on("data", tails.stdout.push);
  stderr?.on("data", (chunk: Buffer) => {
    tails.stderr.push(chunk);
    lines.push(chunk);
  });
  return {
    end() {
      lines.end();
      return { stdout: tails.stdout.text(), stderr: tails.stderr.text() };
    },
  };
}

/** Resolves when the lease has been renewed just now, or when there is no use in waiting for that. */
async function freshlyRenewed({ onRenewed, lost }: NonNullable<ProcessSpec["held"]>, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<void>();
  const stop = onRenewed(resolve);
  const giveUp = () => resolve();
  // Taken off again: the one that ends all runs when the server stops would keep each of them until then.
  for (const ending of [lost, signal]) ending.addEventListener("abort", giveUp, { once: true });
  await promise;
  for (const ending of [lost, signal]) ending.removeEventListener("abort", giveUp);
  stop();
}

function startHeart(heart: Writable, silenceMs: number, held: ProcessSpec["held"]): () => void {
  heart.on("error", () => undefined); // it broke because the process is gone
  const beat = () => void heart.write("\n");
  if (held) return held.onRenewed(beat);
  beat();
  const timer = setInterval(beat, silenceMs / 4);
  return () => clearInterval(timer);
}

/** Ends the process at the time-out, at once when the lease is lost, and when nobody wants it any more. */
function startCutting(child: ChildProcess, { limits, signal, held }: ProcessSpec) {
  let why: Why | undefined;
  let late: NodeJS.Timeout | undefined;
  const end = (reason: Why) => {
    if (why !== undefined) return;
    why = reason;
    killGroup(child, "SIGTERM");
    late = setTimeout(() => killGroup(child, "SIGKILL"), limits.graceMs);
  };
  const onStopped = () => end("stopped");
  const onLost = () => {
    why = "lease-lost";
    killGroup(child, "SIGKILL");
  };
  // setTimeout takes 31 bits; a longer time-out would fire at once.
  const timer = setTimeout(() => end("timeout"), Math.min(limits.timeoutMs, 2 ** 31 - 1));
  signal.addEventListener("abort", onStopped, { once: true });
  held?.lost.addEventListener("abort", onLost, { once: true });
  return {
    why: () => why,
    stop() {
      clearTimeout(timer);
      clearTimeout(late);
      signal.removeEventListener("abort", onStopped);
      held?.lost.removeEventListener("abort", onLost);
    },
  };
}

function killGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return; // could not be spawned
  try {
    process.kill(-pid, signal);
  } catch {
    // Nobody is left in it.
  }
}

function killed(name: string, why: Why, { timeoutMs }: ProcessLimits, how?: string | number): KilledError {
  const words: Record<Why, string> = {
    timeout: `${name} was ended because it took longer than ${Math.round(timeoutMs / 1_000)} s`,
    "lease-lost": `${name} was ended because the lease of its deployment was lost`,
    stopped: `${name} was ended because the server stops or the work is not wanted any more`,
    signal: `${name} was killed (${typeof how === "number" ? `exit status ${how}` : how}): out of memory, or by somebody else`,
  };
  return new KilledError(why, words[why]);
}
