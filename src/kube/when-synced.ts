/** Waits until the memory of a watch is all there is. */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";

export interface Syncing {
  synced(): boolean;
  /** Why the watch does not work at the moment, for people. */
  problem(): string | undefined;
}

/** A list of thousands takes a few seconds; what takes longer is tried again by whoever waits. */
const longestMs = 30_000;

/** Throws ApiError if that takes too long, or is broken off. */
export async function whenSynced(watch: Syncing, log: Logger, signal: AbortSignal): Promise<void> {
  const whyNot = () => watch.problem() ?? (watch.synced() ? undefined : "not listed yet");
  if (whyNot() === undefined) return;
  log.info({ why: whyNot() }, "waiting until all KluctlDeployments are listed");
  const until = performance.now() + longestMs;
  for (let why = whyNot(); why !== undefined; why = whyNot()) {
    const isOver = performance.now() > until || signal.aborted;
    if (isOver) throw new ApiError(0, `nothing is deleted, because not all KluctlDeployments are listed: ${why}`);
    await sleep(50);
  }
}
