/** What a confined run gets from outside of its jail: access to a cluster, and to what else it may reach. */
import type { AnyRun } from "./job-files.ts";

export interface Confine {
  /**
   * Called once for each confined run. `slot` is the directory that holds the clone: all that the run may read of the
   * server's. What it throws is why there is no such run.
   */
  readonly open: (run: AnyRun, slot: string, signal: AbortSignal) => Promise<ConfinedAccess>;
}

export interface ConfinedAccess {
  /** The text of a kubeconfig whose only context is "default". */
  readonly kubeconfig: string;
  /** For kluctl alone: `HTTPS_PROXY` and its like. Projects can read it. */
  readonly env: Readonly<Record<string, string>>;
  /** Of loopback: the TCP ports that kluctl may connect to. */
  readonly ports: readonly number[];
  /** Values that were masked on their way to kluctl, so that copies of them can be masked in what it says. */
  maskedValues?(): readonly string[];
  /** What it asked for and was refused, in words for people: why a run may have failed. */
  refusals?(): readonly string[];
  close(): Promise<void>;
}
