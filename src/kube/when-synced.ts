/** Waits until the watch's memory is complete. */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";

export interface Syncing {
  synced(): boolean;
  /** Why the watch does not work at the moment, as text for users. */
  problem(): string | undefined;
}

/** A list of thousands takes a few seconds; if it takes longer, the caller retries. */
const longestMs = 30_000;

/** Throws ApiError if that takes too long or is aborted. */
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
