/** Waiting for a condition of an episode, with a limit. */
import { setTimeout as sleep } from "node:timers/promises";

/** Long enough for a busy machine. */
const patienceMs = 180_000;
/** No episode takes longer. */
export const episodeMs = 1_800_000;

export async function waitFor(
  what: string,
  is: () => Promise<boolean> | boolean,
  withinMs = patienceMs,
): Promise<void> {
  const until = performance.now() + withinMs;
  while (!(await is())) {
    if (performance.now() > until) throw new Error(`waited ${withinMs / 1_000} s for ${what}`);
    await sleep(100);
  }
}
