/** Works on fewer deployments at once while memory runs out: a kluctl that the kernel ends is worse than one that waits. */
import type { Logger } from "../log.ts";
import type { Memory } from "../config/available-memory.ts";

export interface FittingDeps {
  readonly configured: () => number;
  readonly read: () => Memory;
  /** Takes effect for what is started from now on. */
  readonly allow: (concurrency: number) => void;
  readonly log: Logger;
}

export interface Fitting {
  /** Looks once. */
  look(): void;
  /** What is allowed now. */
  readonly allowed: number;
}

/** Of the limit: from here on fewer, and up to here one more again. */
const [tooMuch, enough] = [0.9, 0.75];

/** Halves at each look that finds too little memory, adds one at each that finds enough; never more than configured. */
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
