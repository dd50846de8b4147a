/** How long git and registries may take, and how much is kept. */
import { availableParallelism } from "node:os";
import type { TreeLimits } from "./tree-size.ts";

export interface SourceLimits {
  /** Concurrent conversations per host. */
  readonly callsPerHost: number;
  /** Concurrent local clones. */
  readonly clones: number;
  /** Silence after which listing refs is aborted, and the host paused. */
  readonly answerMs: number;
  /** Silence after which any other conversation is aborted. */
  readonly silenceMs: number;
  /** Maximum duration of one conversation. */
  readonly callMs: number;
  /** Duration after which callers that can be retried stop waiting for a conversation. */
  readonly slowMs: number;
  /**
   * The longest time that an answer to `heads` is kept: long enough for all deployments of one push to be reconciled.
   */
  readonly headsMs: number;
  /** Delay before git is asked again after it returned an older commit: a replica of a git host may lag behind. */
  readonly goesBackMs: number;
  /** Age after which `sweepStale` removes an unused mirror. */
  readonly mirrorIdleMs: number;
  /** How long an unused checkout is kept for later callers. */
  readonly checkoutIdleMs: number;
  /** How many unused checkouts are kept, at most one per repository. */
  readonly idleCheckouts: number;
  /** Size limits of a proposed commit that is to be merged; unlimited if left out. */
  readonly proposed?: TreeLimits | undefined;
}

export const defaultSourceLimits: SourceLimits = {
  callsPerHost: 4,
  clones: 2 * availableParallelism(),
  answerMs: 20_000,
  silenceMs: 60_000,
  callMs: 15 * 60_000,
  slowMs: 5_000,
  headsMs: 10 * 60_000,
  goesBackMs: 3_000,
  mirrorIdleMs: 24 * 60 * 60_000,
  checkoutIdleMs: 10 * 60_000,
  idleCheckouts: 32,
};
