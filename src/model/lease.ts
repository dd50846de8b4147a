/** The leases of deployments. */
import type { DeploymentRef } from "./deployment.ts";

/** A lease that is renewed until it is released or lost. */
export interface Held {
  /** Aborts when the lease was not renewed in time, before another worker can take it. */
  readonly lost: AbortSignal;
  /**
   * Calls back after each successful renewal with the time when it was requested (`monotonicNow()`), and immediately if
   * the last one is recent; returns a function that stops it.
   */
  onRenewed(callback: (renewedAt: number) => void): () => void;
  /**
   * When this process released the lease, if it was the last holder (`monotonicNow()`): no other worker has changed the
   * deployment's state since then.
   */
  readonly untouchedSince?: number | undefined;
  release(): Promise<void>;
}

export type LeaseOwner = Omit<DeploymentRef, "key"> & { readonly deletionTimestamp?: string | undefined };
