/** What the audit log records. */
import type { Key } from "./key.ts";
import type { Cause } from "./request.ts";

/** One change in a cluster, or the end of the wait for its effect: its cause, target, commit and outcome. */
export interface Change {
  readonly action: "deploy" | "poke-images" | "prune" | "delete" | "health-check";
  /** The reason for the action; `requested`: a user requested the action itself. */
  readonly why: string;
  readonly cause: Cause;
  /** The pusher's account, as the git host names it. */
  readonly sender?: string | undefined;
  readonly delivery?: string | undefined;
  /** The value of the user's request. */
  readonly request?: string | undefined;
  readonly deployment: Key;
  /** UID of kube-system in the target cluster, if known. */
  readonly cluster?: string | undefined;
  readonly target?: string | undefined;
  readonly discriminator?: string | undefined;
  readonly serviceAccount?: string | undefined;
  /** The URL in the deployment's spec, without a login. */
  readonly repo: string;
  readonly ref: string;
  /** Empty for a working copy. */
  readonly commit: string;
  readonly objectsHash?: string | undefined;
  /** The approved hash, if changes need approval. */
  readonly approved?: string | undefined;
  readonly dryRun: boolean;
  /**
   * `interrupted`: kluctl was killed, and what it did is unknown. `superseded`: everything was applied, and the wait for
   * its health ended early.
   */
  readonly result: "ok" | "errors" | "interrupted" | "superseded";
  readonly objects?: ChangedObjects | undefined;
  readonly reconcileID: string;
  readonly ms: number;
}

export interface ChangedObjects {
  readonly new: number;
  readonly changed: number;
  readonly deleted: number;
  readonly errors: number;
}

export type Audit = (change: Change) => void;
