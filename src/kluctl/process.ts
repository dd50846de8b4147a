/** Runs one command to its end, whatever becomes of it or of us, and leaves no process behind. */
import { KilledError } from "../errors.ts";
import { monotonicNow } from "../monotonic.ts";
import type { Held } from "../ports.ts";
import {
  type StartWatched,
  startWatched,
  type Watched,
  type WatchedEnd,
  type WatchedLimits,
  type WatchedSpec,
} from "./watched.ts";

export interface ProcessLimits extends WatchedLimits {
  readonly timeoutMs: number;
  /** From SIGTERM to SIGKILL. */
  readonly graceMs: number;
}

export interface ProcessSpec extends Omit<WatchedSpec, "beatAt"> {
  /** For messages. */
  readonly name: string;
  readonly limits: ProcessLimits;
  readonly signal: AbortSignal;
  /** A heartbeat is one renewal of the lease. Without one we beat by the clock, as long as our event loop turns. */
  readonly held?: Pick<Held, "lost" | "onRenewed"> | undefined;
  /** Gets each line of stderr, as plain text. */
  readonly onLine?: (line: string) => void;
  /** By ourselves, if left out. */
  readonly start?: StartWatched | undefined;
}

export interface Ended extends Pick<WatchedEnd, "stdout" | "stderr"> {
  readonly exitCode: number;
}

type Why = KilledError["why"];

/** Resolves when the process ended by itself, whatever its exit status. Throws KilledError when a signal ended it. */
export async function runProcess({ start = startWatched, ...spec }: ProcessSpec): Promise<Ended> {
  const { name, command, args, env, cwd, limits, signal, held, onLine } = spec;
  const waits = held && !held.lost.aborted && !signal.aborted;
  const beatAt = (waits ? await freshlyRenewed(held, signal) : undefined) ?? monotonicNow();
  if (held?.lost.aborted) throw killed(name, "lease-lost", limits);
  if (signal.aborted) throw killed(name, "stopped", limits);

  const watched = start({ command, args, env, cwd, limits, beatAt }, (lines) => {
    for (const line of lines) onLine?.(line);
  });
  const stopHeart = startHeart(watched, limits.silenceMs, held);
  const cut = startCutting(watched, spec);
  try {
    const { code, signal: endedBy, stdout, stderr } = await watched.ended;
    const exitCode = code ?? 128;
    if (endedBy !== null || exitCode >= 128) throw killed(name, cut.why() ?? "signal", limits, endedBy ?? exitCode);
    return { exitCode, stdout, stderr };
  } finally {
    cut.stop();
    stopHeart();
  }
}

/** Resolves when the lease has been renewed just now, to when that was, or when there is no use in waiting for it. */
async function freshlyRenewed({ onRenewed, lost }: NonNullable<ProcessSpec["held"]>, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const stop = onRenewed(resolve);
  const giveUp = () => resolve(undefined);
  // Taken off again: the one that ends all runs when the server stops would keep each of them until then.
  for (const ending of [lost, signal]) ending.addEventListener("abort", giveUp, { once: true });
  const renewedAt = await promise;
  for (const ending of [lost, signal]) ending.removeEventListener("abort", giveUp);
  stop();
  return renewedAt;
}

function startHeart({ beat }: Watched, silenceMs: number, held: ProcessSpec["held"]): () => void {
  if (held) return held.onRenewed(beat);
  const timer = setInterval(() => beat(monotonicNow()), silenceMs / 4);
  return () => clearInterval(timer);
}

/** Ends the process at the time-out, at once when the lease is lost, and when nobody wants it any more. */
function startCutting({ kill }: Watched, { limits, signal, held }: ProcessSpec) {
  let why: Why | undefined;
  let late: NodeJS.Timeout | undefined;
  const end = (reason: Why) => {
    if (why !== undefined) return;
    why = reason;
    kill("SIGTERM");
    late = setTimeout(() => kill("SIGKILL"), limits.graceMs);
  };
  const onStopped = () => end("stopped");
  const onLost = () => {
    why = "lease-lost";
    kill("SIGKILL");
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

function killed(name: string, why: Why, { timeoutMs }: ProcessLimits, how?: string | number): KilledError {
  const words: Record<Why, string> = {
    timeout: `${name} was ended because it took longer than ${Math.round(timeoutMs / 1_000)} s`,
    "lease-lost": `${name} was ended because the lease of its deployment was lost`,
    stopped: `${name} was ended because the server is stopping or the result is no longer needed`,
    signal: `${name} was killed (${typeof how === "number" ? `exit status ${how}` : how}): out of memory, or by another process`,
  };
  return new KilledError(why, words[why]);
}
