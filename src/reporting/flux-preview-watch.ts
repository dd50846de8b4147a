/**
 * Queues new previews when something that open pull requests were compared with has changed in Flux's resources: the spec or the
 * settings of a Kustomization, what it applied last, or the spec of its GitRepository.
 */
import { annotation, type FluxDeployment, type FluxSource, followedBranch } from "../model.ts";
import type { FluxDeployments, FluxSources } from "../ports.ts";
import { kustomizationName } from "../preview/flux/kustomization.ts";
import type { ConcernedBranch } from "./concerned-branches.ts";
import { type PreviewRequestsDeps, startPreviewRequests } from "./preview-watch.ts";

export interface FluxPreviewWatchDeps extends PreviewRequestsDeps {
  readonly fluxSources: Pick<FluxSources, "find" | "onChange" | "synced">;
  readonly fluxDeployments: Pick<FluxDeployments, "onChange" | "synced">;
}

/** Returns a function that stops it. */
export function startFluxPreviewWatch({ fluxSources, fluxDeployments, ...deps }: FluxPreviewWatchDeps): () => void {
  const { add, stop } = startPreviewRequests(deps);

  function branchesOf(deployment: FluxDeployment, which: ConcernedBranch["which"]): readonly ConcernedBranch[] {
    const source = deployment.source && fluxSources.find(deployment.source);
    return source === undefined ? [] : branchOf(source).map((branch) => ({ ...branch, which }));
  }

  fluxDeployments.onChange((before, after) => {
    const one = after ?? before;
    if (one?.kind !== "Kustomization") return;
    const name = kustomizationName(one.key);
    // At the start, each is seen for the first time.
    if (before === undefined && !fluxDeployments.synced("Kustomization")) return;
    if (before === undefined || after === undefined || specOf(before) !== specOf(after)) {
      const all = [before, after].flatMap((each) => (each === undefined ? [] : branchesOf(each, "all")));
      return add({ name, branches: all });
    }
    if (before.applied !== after.applied) add({ name, branches: branchesOf(after, "shown") });
  });
  fluxSources.onChange((before, after) => {
    if (before === undefined && !fluxSources.synced()) return;
    const [was, is] = [before, after].map((one) => (one === undefined ? [] : branchOf(one)));
    const isSame = JSON.stringify(was) === JSON.stringify(is) && before?.generation === after?.generation;
    if (isSame) return;
    const branches = [...(was ?? []), ...(is ?? [])].map((branch) => ({ ...branch, which: "all" as const }));
    add({ name: `GitRepository ${(after ?? before)?.uid ?? ""}`, branches });
  });
  return stop;
}

/** What its preview depends on, as far as the watch shows it. */
function specOf({ generation, uid, source, annotations = {} }: FluxDeployment): string {
  const settings = [annotation.preview, annotation.ignoreChanges].map((name) => annotations[name]);
  return JSON.stringify([uid, generation, source, settings]);
}

/** The branch whose pull requests it concerns. */
function branchOf({ repo, ref }: FluxSource): readonly { repo: FluxSource["repo"]; branch: string }[] {
  const branch = followedBranch(ref);
  return branch === undefined ? [] : [{ repo, branch }];
}
