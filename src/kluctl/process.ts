/** Runs one command to its end and leaves no process behind, even if the server crashes. */
import { KilledError } from "../errors.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import type { Held } from "../model.ts";
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
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
}

export interface ProcessSpec extends Omit<WatchedSpec, "beatAt"> {
  /** Used in messages. */
  readonly name: string;
  readonly limits: ProcessLimits;
  readonly signal: AbortSignal;
  /**
   * Each renewal of the lease is a heartbeat. Without a lease, a timer beats as long as the event loop is not blocked.
   */
  readonly held?: Pick<Held, "lost" | "onRenewed"> | undefined;
  /** Called with each line of stderr, as plain text. */
  readonly onLine?: (line: string) => void;
  /** Starts the process; by default as a child of this process. */
  readonly start?: StartWatched | undefined;
}

export interface Ended extends Pick<WatchedEnd, "stdout" | "stderr"> {
  readonly exitCode: number;
}

type Why = Exclude<KilledError["why"], "idle">;

/** Resolves when the process exits by itself, whatever its exit status. Throws KilledError if a signal ended it. */
export async function runProcess({ start = startWatched, ...spec }: ProcessSpec): Promise<Ended> {
  const { name, command, args, env, cwd, input, limits, signal, held, onLine } = spec;
  const waits = held && !held.lost.aborted && !signal.aborted;
  const beatAt = (waits ? await freshlyRenewed(held, signal) : undefined) ?? monotonicNow();
  if (held?.lost.aborted) throw killed(name, "lease-lost", limits);
  if (signal.aborted) throw killed(name, "stopped", limits);

  const watched = start({ command, args, env, cwd, input, limits, beatAt }, (lines) => {
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

/**
 * Waits for the next renewal of the lease and resolves to its time; `undefined` if the lease is lost or the run is
 * cancelled first.
 */
async function freshlyRenewed({ onRenewed, lost }: NonNullable<ProcessSpec["held"]>, signal: AbortSignal) {
  const { promise, resolve } = Promise.withResolvers<number | undefined>();
  const stop = onRenewed(resolve);
  const giveUp = () => resolve(undefined);
  // The listeners are removed again: the signal that ends all runs at shutdown would otherwise hold on to each of them.
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

/** Ends the process at the timeout, when the run is cancelled, and, without a grace period, when the lease is lost. */
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
  // setTimeout takes 31 bits; a longer timeout would fire at once.
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
    stopped: `${name} was ended because the server is stopping or its result is no longer needed; a run that is still needed is repeated`,
    signal: `${name} was killed (${typeof how === "number" ? `exit status ${how}` : how}): out of memory, or by another process`,
  };
  return new KilledError(why, words[why]);
}
