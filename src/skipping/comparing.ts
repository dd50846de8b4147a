/**
 * Decides whether a new commit has to be compared with the cluster before it is deployed. If all objects are as the
 * last deploy left them, a comparison could only show whether the project renders the same objects as before. If it
 * does, deploying them changes nothing; if not, they have to be deployed. Either way the deploy alone gives the answer,
 * and the project is rendered only once. Pure.
 */
import { touchesKnown } from "../intake/touched-files.ts";
import {
  annotation,
  type ChangedPaths,
  type Deployment,
  type DeploymentSpec,
  type DeploymentStatus,
  type GitDeployment,
  type ObjectVersion,
} from "../model.ts";
import type { AppliedObjects } from "../ports.ts";
import { readyCondition } from "../reconcile/status/conditions.ts";
import { isFoundByName } from "./moves.ts";
import { compareObjects } from "./objects.ts";

/** What this server saw at its last deploy, or at a later comparison. */
export interface LastSeen {
  readonly uid: string;
  readonly generation: number;
  readonly deployResultId: string | undefined;
  readonly objectsHash: string;
  readonly objects: ReadonlyMap<string, ObjectVersion>;
  /** Whether these are all of the deployment's objects in the cluster. */
  readonly complete: boolean;
  /** Whether it has hooks, whose objects come and go. */
  readonly hooks: boolean;
  /** Whether a deploy waits until objects are ready, even if none of them changes. */
  readonly waits: boolean;
}

/** The state of its objects according to the watches. */
export type Cluster = ReturnType<AppliedObjects["find"]>;

/** Returns the reason to compare first; `undefined`: the deploy alone is enough. */
export function whyCompare(
  { uid, generation, spec, status, annotations }: Deployment,
  last: LastSeen,
  cluster: Cluster,
): string | undefined {
  // Approvals and confirmations refer to the result of a comparison.
  if (spec.manual) return "its changes need approval";
  if (annotations[annotation.confirmPrune] !== undefined) return annotation.confirmPrune;
  if (spec.deployOnChanges === false) return "it is not deployed because of changes";
  if (spec.deployMode !== "full-deploy") return `spec.deployMode is ${spec.deployMode}`;
  if (spec.dryRun || spec.sourceOverrides.length > 0) return "a dry run, or a working copy";

  const { lastDeployResult: deployed, lastObjectsHash, lastDriftDetectionResultMessage: drift } = status;
  const stands =
    uid === last.uid &&
    deployed !== undefined &&
    deployed.errors === 0 &&
    deployed.id === last.deployResultId &&
    lastObjectsHash === last.objectsHash &&
    status.observedGeneration === last.generation &&
    generation === last.generation;
  if (!stands) return "another server or a user has reconciled it since";
  if (drift !== "no drift") return `it differs: ${drift ?? "unknown"}`;
  if (!last.complete) return "kluctl did not report all of its objects";
  // A deploy would run the hooks again although nothing changes.
  if (last.hooks) return "it has hooks";
  if (last.waits && !isKnownReady(spec, status)) return "it would wait for objects that may not be ready";

  if (cluster.objects === undefined) return cluster.unknown;
  const difference = compareObjects(last.objects, cluster.objects);
  const isAsLeft = difference.kind === "same" || difference.kind === "status";
  return isAsLeft ? undefined : `${difference.id}: ${difference.kind}`;
}

function isKnownReady(spec: DeploymentSpec, status: DeploymentStatus): boolean {
  return spec.validate && status.lastValidateResult?.errors === 0 && readyCondition(status)?.status === "True";
}

/**
 * Why the new commit may well render the same objects, judging by the files that changed in git. Deploying them costs
 * as much as a comparison, but is reported as a deploy while it runs.
 */
export function whyUnlikely(deployment: GitDeployment, changed: ChangedPaths): string | undefined {
  if (!changed.complete || changed.paths.length === 0) return "git does not report what changed";
  if (!touchesKnown(changed, deployment)) return "no files of the project changed";
  const { path } = deployment.spec.source;
  const named = changed.paths.find((changedPath) => isFoundByName(changedPath, path));
  // .kluctl.yaml also contains the discriminator, and another deployment may already use the new one.
  return named && `${named} changed`;
}
