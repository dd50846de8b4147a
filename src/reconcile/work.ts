/** What one loop has in its hands. Types only. */
import type { Logger } from "../log.ts";
import type { Deployment, ReconcileRequest } from "../model.ts";
import type { Clock, Deployments, Held, Kluctl, Results, Secrets, Sources } from "../ports.ts";
import type { StatusWriter } from "./status-writer.ts";

export interface LoopDeps {
  readonly deployments: Deployments;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "checkout">;
  readonly kluctl: Kluctl;
  readonly results: Results;
  /** UID of kube-system where the KluctlDeployments live. */
  readonly clusterId: () => Promise<string>;
  readonly settings: { readonly dryRun: boolean; readonly defaultServiceAccount?: string | undefined };
  readonly clock: Clock;
  readonly newId: () => string;
  readonly log: Logger;
  readonly observe?: { pushToApplied(seconds: number): void } | undefined;
}

export interface Loop {
  readonly deployment: Deployment;
  readonly request: ReconcileRequest;
  /** The repository's last known move, see Sources.heads. */
  readonly asOf: string | undefined;
  readonly retrying: boolean;
  readonly held: Held;
  readonly signal: AbortSignal;
}

/** What a failure would be a failure of. */
export type Phase = "prepare" | "deploy" | "validate";

/** What the steps of one loop share. */
export interface Work extends Loop {
  readonly deps: LoopDeps;
  readonly log: Logger;
  readonly status: StatusWriter;
  readonly reconcileId: string;
  readonly timeLeftMs: () => number;
  phase: Phase;
  /** What must not be read in any message. */
  secrets: readonly string[];
}
