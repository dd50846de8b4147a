/**
 * Ends a run before its memory ends the server. Limits of the kernel's are for each process, of which a run has five, and
 * where the container has no more, Kubernetes has the kernel end all of it.
 */
import { totalmem } from "node:os";
import { type Memory, readMemory } from "../config/available-memory.ts";
import { KilledError } from "../errors.ts";

export interface MemoryWatch {
  /** Aborts when memory runs out. */
  readonly signal: AbortSignal;
  stop(): void;
}

/** Four Pythons that fill their memory take some gigabytes in a second. */
const everyMs = 25;
/** Of the limit. */
const tooMuch = 0.85;

/** `undefined` without a container that limits it. */
export function readContainerMemory(): Memory | undefined {
  const memory = readMemory();
  return memory.limitBytes < totalmem() ? memory : undefined;
}

/** Of several runs, all end: which of them takes it cannot be known in time. Those are tried again. */
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
