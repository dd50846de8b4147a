/** Waits for what an episode's servers do, for a limited time. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Fault } from "../faults.ts";
import type { Push } from "../history.ts";
import { type Real, seconds } from "./command.ts";

/** Limit for waiting on an event that an earlier fault may have made impossible. */
export const patienceMs = 8 * seconds;
/** The same for faults that would otherwise not strike at all, because no command follows; for a busy machine. */
export const longPatienceMs = 30 * seconds;
const silenceMs = 12 * seconds;

/**
 * Waits longer than the interval of the deployments that are checked often, so that all of their checks are skipped.
 */
export async function waitForSilence({ stage: { journal } }: Real): Promise<void> {
  const from = performance.now();
  let [words, since] = [journal.words(), from];
  while (performance.now() - since < silenceMs && performance.now() - from < 4 * silenceMs) {
    await sleep(100);
    if (journal.words() !== words) [words, since] = [journal.words(), performance.now()];
  }
}

export async function waitForStrike(fault: Fault, { faults }: Real, withinMs = patienceMs): Promise<void> {
  const from = performance.now();
  while (faults.isArmed(fault) && performance.now() - from < withinMs) await sleep(20);
}

export async function waitForRun(real: Real, name: string, { commit }: Push, until: string): Promise<void> {
  if (until === "nothing") return;
  const from = performance.now();
  const isThere = () =>
    real.stage.journal
      .runs()
      .some(
        (run) =>
          run.deployment === name && run.commit === commit && run.mutating && (until === "a run" || run.wrote > 0),
      );
  while (!isThere() && performance.now() - from < patienceMs) await sleep(20);
}

export async function waitForWords({ stage }: Real, count: number): Promise<void> {
  const wanted = stage.journal.words() + count;
  const from = performance.now();
  while (stage.journal.words() < wanted && performance.now() - from < patienceMs / 2) await sleep(20);
}
