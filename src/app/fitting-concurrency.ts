/** Reduces the concurrency while memory is low: a kluctl killed by the kernel is worse than one that waits. */
import type { Logger } from "../log.ts";
import type { Memory } from "../machine/available-memory.ts";

export interface FittingDeps {
  readonly configured: () => number;
  readonly read: () => Memory;
  /** Applies to jobs that start from now on. */
  readonly allow: (concurrency: number) => void;
  readonly log: Logger;
}

export interface Fitting {
  /** Checks the memory once. */
  look(): void;
  /** The concurrency allowed now. */
  readonly allowed: number;
}

/** Shares of the memory limit: above the first, the concurrency is reduced; below the second, it is raised. */
const [tooMuch, enough] = [0.9, 0.75];

/**
 * Each check halves the concurrency if memory is low and raises it by one if there is enough, up to the configured
 * value.
 */
export function createFitting({ configured, read, allow, log }: FittingDeps): Fitting {
  let cut = 0;
  const allowed = () => Math.max(1, configured() - cut);

  return {
    get allowed() {
      return allowed();
    },
    look() {
      const before = allowed();
      const { limitBytes, usedBytes } = read();
      const share = usedBytes / limitBytes;
      if (share > tooMuch) cut = configured() - Math.max(1, Math.floor(before / 2));
      else if (share < enough) cut = Math.max(0, Math.min(cut, configured() - 1) - 1);
      const now = allowed();
      if (now === before) return;
      allow(now);
      const fields = { concurrency: now, configured: configured(), memory: `${Math.round(share * 100)} %` };
      if (now < before) log.warn(fields, "memory is low: concurrency reduced");
      else if (now === configured()) log.info(fields, "memory sufficient again: concurrency restored");
    },
  };
}
