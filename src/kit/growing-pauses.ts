/** Pauses between attempts that grow with the time that has passed since the first one. */
import { createBoundedMap } from "./bounded-map.ts";

export interface PauseLimits {
  readonly leastMs: number;
  readonly mostMs: number;
  /** How long after the first attempt no more are worth it. */
  readonly forMs: number;
  /** The number of subjects that are remembered; one that was forgotten starts from the beginning. */
  readonly entries: number;
  /** Monotonic milliseconds. */
  readonly now?: (() => number) | undefined;
}

export interface GrowingPauses {
  /** The pause before the next attempt, in milliseconds: half of the time since the first one. `undefined`: give up. */
  next(subject: string): number | undefined;
  /** The next attempt is a first one. */
  end(subject: string): void;
}

export function createGrowingPauses(limits: PauseLimits): GrowingPauses {
  const { leastMs, mostMs, forMs, entries, now = () => performance.now() } = limits;
  const firsts = createBoundedMap<number>({ entries });
  return {
    next(subject) {
      const first = firsts.get(subject) ?? now();
      firsts.set(subject, first);
      const ageMs = now() - first;
      return ageMs < forMs ? Math.min(Math.max(ageMs / 2, leastMs), mostMs) : undefined;
    },
    end: (subject) => void firsts.delete(subject),
  };
}
