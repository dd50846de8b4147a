/** What a confined run can reach outside of its jail: a cluster, and other hosts. */
import type { AnyRun } from "./job-files.ts";

export interface Confine {
  /**
   * Called once for each confined run. `slot` is the directory with the clone: besides `localOverrides`, the only
   * files of the server that the run may read. If it throws, the run fails with that error.
   */
  readonly open: (run: AnyRun, slot: string, signal: AbortSignal) => Promise<ConfinedAccess>;
}

export interface ConfinedAccess {
  /** The text of a kubeconfig whose only context is "default". */
  readonly kubeconfig: string;
  /** Variables for kluctl only, such as `HTTPS_PROXY`. Projects can read them. */
  readonly env: Readonly<Record<string, string>>;
  /** TCP ports on loopback that kluctl may connect to. */
  readonly ports: readonly number[];
  /** Values that were masked on their way to kluctl, so that copies of them can be masked in its output. */
  maskedValues?(): readonly string[];
  /** Whether it serves the run now: a run that waits for the cluster or a host is not idle. */
  isServing?(): boolean;
  /** Requests that were refused, in words for users: they may explain why the run failed. */
  refusals?(): readonly string[];
  close(): Promise<void>;
}
