/** Which commit the status of what Flux applies is about. Pure. */
import { type FluxDeployment, type FluxSource, keyText } from "../model.ts";
import type { FluxDeployments, FluxSources } from "../ports.ts";

/** A resource of Flux, and the GitRepository whose commits it applies. */
export interface FluxMember {
  readonly deployment: FluxDeployment;
  readonly source: FluxSource;
  /** The commit that its status is about; `undefined`: none. */
  readonly about: string | undefined;
  /** The commit that it has applied, or would have applied by now if it could. */
  readonly applied: string | undefined;
  /** The Kustomization of the same source that contains it, and the commit that this one is done with. */
  readonly owner?: { readonly name: string; readonly applied: string | undefined } | undefined;
}

export interface FluxResources {
  readonly fluxSources: Pick<FluxSources, "find">;
  readonly fluxDeployments: Pick<FluxDeployments, "find">;
}

/** `undefined`: it applies no commits of a GitRepository that is known. */
export function memberOf(deployment: FluxDeployment, resources: FluxResources): FluxMember | undefined {
  if (deployment.kind === "HelmRelease") return releaseOf(deployment, resources);
  const source = deployment.source && resources.fluxSources.find(deployment.source);
  return source && { deployment, source, about: reportsOn(deployment, source), applied: deployment.applied };
}

/** The commit that a Kustomization's status is about. */
function reportsOn(
  { ready, isStalled, attempting, attempted }: FluxDeployment,
  { commit }: FluxSource,
): string | undefined {
  // These are found before an attempt begins.
  if (ready?.status === "False" && (ready.reason === "DependencyNotReady" || isStalled)) return commit;
  if (ready?.status === "False" && ready.reason === "ArtifactFailed") return attempting;
  return attempting ?? attempted;
}

/**
 * A HelmRelease records no commit. Its status is about the commit that its chart was built from, or that the Kustomization
 * has applied which contains it; about both if they have the same source.
 */
function releaseOf(
  deployment: FluxDeployment,
  { fluxSources, fluxDeployments }: FluxResources,
): FluxMember | undefined {
  const { source: chartSource, chart, attemptedVersion } = deployment;
  const owner = deployment.owner && fluxDeployments.find(deployment.owner);
  const sourceKey = chartSource ?? owner?.source;
  const source = sourceKey && fluxSources.find(sourceKey);
  if (source === undefined) return undefined;
  const built = chart !== undefined && chart.version === attemptedVersion ? chart.commit : undefined;
  const isOwned = owner?.source !== undefined && keyText(owner.source) === keyText(source.key);
  const container = isOwned ? { name: `Kustomization ${keyText(owner.key)}`, applied: doneBy(owner) } : undefined;
  const commits = [...(chartSource ? [built] : []), ...(container ? [container.applied] : [])];
  const commit = commits.every((one) => one === commits[0]) ? commits[0] : undefined;
  return { deployment, source, about: commit, applied: commit, owner: container };
}

/** The commit that a Kustomization has applied completely, unless it has begun with another one. */
function doneBy({
  applied,
  attempting,
  attempted,
  generation,
  observedGeneration,
}: FluxDeployment): string | undefined {
  return (attempting ?? attempted) === applied && observedGeneration === generation ? applied : undefined;
}
