/** A time line at the terminal, woven of several strands: whoever sees something adds it, and it is printed in order. */
import { setTimeout as delay } from "node:timers/promises";

export interface Step {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly what: string;
  readonly detail?: string | undefined;
}

export interface Strand {
  /** Grows while it is looked at. */
  readonly steps: readonly Step[];
  /** What is still to come, in words; empty when all is there. Throws if it will not come. */
  missing(): readonly string[];
  /** Looks no longer. */
  end(): void;
}

/** What the demo itself has done. */
export function moment(at: number, what: string, detail?: string): Strand {
  return { steps: [{ at, what, detail }], missing: () => [], end: () => undefined };
}

/** Two sources tell of one moment, one a little later than the other: a step is printed when none before it can come. */
const settleMs = 200;
const patienceMs = 60_000;

/** Prints the steps as they come, until none is missing or time is up. Throws if it does not get there. */
export async function tellTimeLine(
  strands: readonly Strand[],
  startedAt: number,
  print: (line: string) => void,
): Promise<void> {
  const deadline = Date.now() + patienceMs;
  const printed = new Set<Step>();
  const show = (before: number) => {
    const due = strands.flatMap(({ steps }) => steps).filter((step) => step.at < before && !printed.has(step));
    for (const step of due.toSorted((a, b) => a.at - b.at)) {
      print(formatStep(step, startedAt));
      printed.add(step);
    }
  };
  try {
    for (;;) {
      const missing = strands.flatMap((strand) => strand.missing());
      show(Date.now() - settleMs);
      if (missing.length === 0) break;
      if (Date.now() > deadline) throw new Error(`Not finished after ${patienceMs / 1_000} s: ${missing.join(", ")}.`);
      await delay(10);
    }
    await delay(settleMs);
  } finally {
    for (const strand of strands) strand.end();
    show(Infinity);
  }
}

function formatStep({ at, what, detail = "" }: Step, startedAt: number): string {
  const seconds = ((at - startedAt) / 1_000).toFixed(2).padStart(6);
  return `  ${seconds} s  ${what.padEnd(18)}${detail}`.trimEnd();
}
