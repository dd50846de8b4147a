/** The state of what Flux applies at a glance, for lists. Pure. */
import { type FluxDeployment, type FluxSource, followedBy } from "../model.ts";
import { inOneLine } from "../reconcile/status/first-error.ts";
import type { DeploymentState } from "./state.ts";

export interface FluxState extends DeploymentState {
  readonly kind: FluxDeployment["kind"];
  /** Towline neither deploys nor changes it. */
  readonly appliedBy: "Flux";
}

/** `source`: absent if it could not be read, or is none that has commits. */
export function fluxStateOf(deployment: FluxDeployment, source: FluxSource | undefined): FluxState {
  const { kind, key, ready, attempting, attempted, applied, appliedAt, suspended, path } = deployment;
  return {
    ...key,
    ...{ kind, appliedBy: "Flux", suspended, path },
    ready: ready?.status,
    commit: attempting ?? attempted,
    deployedCommit: applied,
    deployedAt: appliedAt,
    drift: undefined,
    nextCheckAt: undefined,
    why: whyOf(deployment),
    target: undefined,
    source: source?.url,
    ref: source && refOf(source),
  };
}

function whyOf({ suspended, ready, generation, observedGeneration }: FluxDeployment): string | undefined {
  if (suspended) return "suspended";
  if (ready?.status === "False") return inOneLine(ready.message) || ready.reason;
  if (ready === undefined) return "Flux has not applied it yet";
  return ready.status === "Unknown" || observedGeneration !== generation ? "is being applied by Flux" : undefined;
}

/** In the form in which refs of deployments are shown. */
function refOf({ ref }: FluxSource): string {
  const followed = followedBy(ref);
  if (followed.kind === "commit") return `commit ${followed.commit}`;
  if (followed.kind === "versions") return `versions ${followed.range}`;
  return followed.name.replace(/^refs\/heads\//, "branch ").replace(/^refs\/tags\//, "tag ");
}
