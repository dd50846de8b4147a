/** The context of one reconciliation. */
import type { Logger } from "../log.ts";
import type { Freshness, Audit, Deployment, Held, Key, ManualKind, ManualRequest, ReconcileRequest } from "../model.ts";
import type { Clock, Deployments, Kluctl, Objects, Overrides, Results, Secrets, Sources } from "../ports.ts";
import { loopTimeoutMs } from "./decide.ts";
import type { ReadIdentity } from "../access/identity.ts";
import type { PruneGuard } from "../guards/pruning.ts";
import type { Parts } from "./parts.ts";
import { createStatusWriter, type StatusWriter } from "./status/status-writer.ts";

export interface Settings {
  readonly dryRun: boolean;
  /** Absent: no prune needs confirmation. */
  readonly pruneGuard?: PruneGuard | undefined;
}

export interface LoopDeps {
  readonly deployments: Deployments;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "checkout">;
  readonly kluctl: Kluctl;
  /** Absent: source overrides are disabled. */
  readonly overrides?: Overrides | undefined;
  readonly objects: Objects;
  readonly results: Results;
  /** UID of kube-system in the cluster where the KluctlDeployments live. */
  readonly clusterId: () => Promise<string>;
  readonly readIdentity: ReadIdentity;
  readonly settings: Settings;
  /** When the failed step is to be retried, see retries.ts. Absent: only the intervals decide. */
  readonly retryAt?: ((deployment: Deployment) => number | undefined) | undefined;
  readonly parts: Parts;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly log: Logger;
  readonly audit?: Audit | undefined;
  readonly observe?:
    | {
        pushToApplied(seconds: number): void;
        /** Time from a delivery until its commit is Ready. */
        pushToLive?(seconds: number): void;
        pruned?(deployment: Key, seconds: number): void;
      }
    | undefined;
}

export interface Loop {
  readonly deployment: Deployment;
  readonly request: ReconcileRequest;
  readonly freshness: Freshness | undefined;
  readonly retrying: boolean;
  readonly held: Held;
  readonly signal: AbortSignal;
}

/** One reconciliation in progress. Nothing in it changes but the status, which is written through its writer. */
export interface Work extends Loop {
  /** Absent: this is the reconciliation's own work, not a request. */
  readonly asked?: ({ readonly kind: ManualKind } & Pick<ManualRequest, "overridesPatch">) | undefined;
  readonly deps: LoopDeps;
  readonly log: Logger;
  readonly status: StatusWriter;
  readonly reconcileId: string;
  readonly timeLeftMs: () => number;
}

export function startWork(loop: Loop, deps: LoopDeps): Work {
  const { deployment, request, signal } = loop;
  const { clock, deployments } = deps;
  const reconcileId = deps.newId();
  // `kluctl gitops logs` filters by these field names.
  const log = deps.log.child({ ...deployment.key, reconcileID: reconcileId, delivery: request.delivery });
  const startedAt = clock.now();
  return {
    ...loop,
    deps,
    log,
    status: createStatusWriter(deployments, deployment, clock, log, signal),
    reconcileId,
    timeLeftMs: () => Math.max(startedAt + loopTimeoutMs(deployment.spec) - clock.now(), 1_000),
  };
}
