/**
 * Whether a new commit has to be compared with the cluster before it is deployed. Where everything that was deployed
 * last is as that deploy left it, a comparison could only say whether the project renders the same objects as then. If
 * it does, deploying them changes nothing; if not, they are to be deployed. Either way the deploy alone tells, and the
 * project is rendered once. Pure.
 */
import { reasonUntouched } from "../../match.ts";
import {
  annotation,
  type ChangedPaths,
  type Deployment,
  type DeploymentSpec,
  type DeploymentStatus,
  type GitDeployment,
  type ObjectVersion,
} from "../../model.ts";
import type { AppliedObjects } from "../../ports.ts";
import { readyCondition } from "../conditions.ts";
import { isFoundByName } from "./moves.ts";
import { compareObjects } from "./objects.ts";

/** What a server saw when it deployed last, or compared since. */
export interface LastSeen {
  readonly uid: string;
  readonly generation: number;
  readonly deployResultId: string | undefined;
  readonly objectsHash: string;
  readonly objects: ReadonlyMap<string, ObjectVersion>;
  /** Whether they are all that it has in the cluster. */
  readonly complete: boolean;
  /** Hooks come and go. */
  readonly hooks: boolean;
  /** Deploying it waits until objects are ready, even if none of them changes. */
  readonly waits: boolean;
}

/** What the watches know of its objects. */
export type Cluster = ReturnType<AppliedObjects["find"]>;

/** Says why; `undefined`: the deploy alone tells. */
export function whyCompare(
  { uid, generation, spec, status, annotations }: Deployment,
  last: LastSeen,
  cluster: Cluster,
): string | undefined {
  // What is approved, or chosen by an annotation, is what a comparison has found.
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
  // These would run once more, though nothing changes.
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
 * Why a new commit may well render the same objects, by what git says has changed. To deploy them costs what a
 * comparison costs, but is told as a deploy as long as it runs.
 */
export function whyUnlikely(deployment: GitDeployment, changed: ChangedPaths): string | undefined {
  if (!changed.complete || changed.paths.length === 0) return "git does not report what changed";
  if (reasonUntouched(changed, deployment) !== undefined) return "no files of the project changed";
  const { path } = deployment.spec.source;
  const named = changed.paths.find((changedPath) => isFoundByName(changedPath, path));
  // .kluctl.yaml also has the discriminator, under which another deployment may have been there first.
  return named && `${named} changed`;
}
