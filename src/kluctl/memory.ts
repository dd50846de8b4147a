/**
 * Ends a run before it exhausts the container's memory and takes the server down. Kernel limits do not help: they apply
 * to each of a run's five processes separately, and when the container's limit is reached, Kubernetes has the kernel
 * kill all of its processes.
 */
import { totalmem } from "node:os";
import { type Memory, readMemory } from "../machine/available-memory.ts";
import { KilledError } from "../errors.ts";

export interface MemoryWatch {
  /** Aborts when memory runs out. */
  readonly signal: AbortSignal;
  stop(): void;
}

/** Four Python processes that fill their memory take some gigabytes per second. */
const everyMs = 25;
/** Fraction of the limit. */
const tooMuch = 0.85;

/** Returns `undefined` outside of a container with a memory limit. */
export function readContainerMemory(): Memory | undefined {
  const memory = readMemory();
  return memory.limitBytes < totalmem() ? memory : undefined;
}

/**
 * If several runs are in progress, all of them end: which one uses the memory cannot be determined in time. They are
 * retried.
 */
export function watchMemory(read: () => Memory | undefined): MemoryWatch {
  const out = new AbortController();
  const look = (): void => {
    const memory = read();
    if (memory === undefined) return clearInterval(timer);
    if (memory.usedBytes <= tooMuch * memory.limitBytes) return;
    clearInterval(timer);
    const most = `${Math.round(tooMuch * 100)} % of ${Math.round(memory.limitBytes / 1024 ** 2)} MiB`;
    out.abort(
      new KilledError("signal", `it was ended because the previews and the server used more memory than ${most}`),
    );
  };
  const timer = setInterval(look, everyMs);
  return { signal: out.signal, stop: () => clearInterval(timer) };
}
