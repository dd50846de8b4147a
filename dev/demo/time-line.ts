/**
 * A time line in the terminal, merged from several strands: each source adds its steps, and they are printed in order.
 */
import { setTimeout as delay } from "node:timers/promises";

export interface Step {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly what: string;
  readonly detail?: string | undefined;
}

export interface Strand {
  /** Grows while it is followed. */
  readonly steps: readonly Step[];
  /** What is still to come, in words; empty if nothing is missing. Throws if it cannot come any more. */
  missing(): readonly string[];
  /** Stops following. */
  end(): void;
}

/** A strand with one step of the demo itself. */
export function moment(at: number, what: string, detail?: string): Strand {
  return { steps: [{ at, what, detail }], missing: () => [], end: () => undefined };
}

/** Two sources may report one moment with some delay: a step is printed only when no earlier one can follow. */
const settleMs = 200;
const patienceMs = 60_000;

/** Prints the steps as they arrive until none is missing or the time limit is reached. Throws if a strand fails. */
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
