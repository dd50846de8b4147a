/** What one loop has in its hands. */
import type { Logger } from "../log.ts";
import type { AsOf, Deployment, Key, ManualKind, ManualRequest, ReconcileRequest } from "../model.ts";
import type {
  Audit,
  Clock,
  Deployments,
  Held,
  Kluctl,
  Objects,
  Overrides,
  Results,
  Secrets,
  Sources,
} from "../ports.ts";
import { loopTimeoutMs } from "./decide.ts";
import type { ReadIdentity } from "./identity.ts";
import type { PruneGuard } from "./pruning.ts";
import type { Skipping } from "./skip/skipping.ts";
import type { Validations } from "./skip/validations.ts";
import { createStatusWriter, type StatusWriter } from "./status-writer.ts";

export interface Settings {
  readonly dryRun: boolean;
  /** Absent: nothing that is pruned has to be confirmed. */
  readonly pruneGuard?: PruneGuard | undefined;
}

export interface LoopDeps {
  readonly deployments: Deployments;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "checkout">;
  readonly kluctl: Kluctl;
  /** Absent: nobody can offer any. */
  readonly overrides?: Overrides | undefined;
  readonly objects: Objects;
  readonly results: Results;
  /** UID of kube-system where the KluctlDeployments live. */
  readonly clusterId: () => Promise<string>;
  readonly readIdentity: ReadIdentity;
  readonly settings: Settings;
  /** When what failed is to be tried again, see retries.ts. Absent: as the intervals alone say. */
  readonly retryAt?: ((deployment: Deployment) => number | undefined) | undefined;
  /** Absent: no loop is left out. */
  readonly skipping?: Skipping | undefined;
  /** Absent: each is run. */
  readonly validations?: Validations | undefined;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly log: Logger;
  readonly audit?: Audit | undefined;
  readonly observe?:
    | {
        pushToApplied(seconds: number): void;
        /** A pushed commit is Ready, so long after its delivery. */
        pushToLive?(seconds: number): void;
        pruned?(deployment: Key, seconds: number): void;
      }
    | undefined;
}

export interface Loop {
  readonly deployment: Deployment;
  readonly request: ReconcileRequest;
  readonly asOf: AsOf | undefined;
  readonly retrying: boolean;
  readonly held: Held;
  readonly signal: AbortSignal;
}

/** What a failure would be a failure of. */
export type Phase = "prepare" | "diff" | "deploy" | "prune" | "validate";

/** What the steps of one loop share. */
export interface Work extends Loop {
  /** Absent: nobody asked for this, it is the loop's own work. */
  readonly asked?: ({ readonly kind: ManualKind } & Pick<ManualRequest, "overridesPatch">) | undefined;
  readonly deps: LoopDeps;
  readonly log: Logger;
  readonly status: StatusWriter;
  readonly reconcileId: string;
  readonly timeLeftMs: () => number;
  phase: Phase;
  /** What must not be read in any message. */
  secrets: readonly string[];
  /** What `Ready` says besides what the results add up to. */
  readonly notes: string[];
}

export function startWork(loop: Loop, deps: LoopDeps): Work {
  const { deployment, request, signal } = loop;
  const { clock, deployments } = deps;
  const reconcileId = deps.newId();
  // The names of these fields are what `kluctl gitops logs` filters by.
  const log = deps.log.child({ ...deployment.key, reconcileID: reconcileId, delivery: request.delivery });
  const startedAt = clock.now();
  return {
    ...loop,
    deps,
    log,
    status: createStatusWriter(deployments, deployment, clock, log, signal),
    reconcileId,
    phase: "prepare",
    secrets: [],
    notes: [],
    timeLeftMs: () => Math.max(startedAt + loopTimeoutMs(deployment.spec) - clock.now(), 1_000),
  };
}
