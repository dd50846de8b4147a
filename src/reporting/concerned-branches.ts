/** Decides which open pull requests a change of a deployment concerns: what they show may be different now. Pure. */
import { isDeepStrictEqual } from "node:util";
import { annotation, type AnyDeployment, type DeploymentChange, followsGit, type GitDeployment } from "../model.ts";
import { changedPreviews } from "../model/last-deploy.ts";
import { parseReads } from "../model/outside-reads.ts";
import { branchesShowing, librariesOf, ownBranchOf, type ShowingBranch } from "../preview/match-consumers.ts";

/** Some of the open pull requests into a branch. */
export interface ConcernedBranch extends ShowingBranch {
  /** `all`: those that do not show the deployment may do so now. `shown`: those that show it. */
  readonly which: "all" | "shown";
  /** Only those whose preview started before this time, in epoch milliseconds. */
  readonly startedBefore?: number | undefined;
}

/** The API server's clock may be ahead of ours. */
const clocksDifferMs = 10_000;

/** They decide which pull requests a deployment is shown in. Those that name libraries are compared by `librariesOf`. */
const deciding = [annotation.preview, annotation.paths];
/** They change what is shown of it. */
const shaping = [annotation.ignoreChanges, annotation.previewDecrypt, annotation.dependsOn];

export function findConcernedBranches({ kind, deployment, previous }: DeploymentChange): ConcernedBranch[] {
  const now = kind === "removed" ? undefined : previewable(deployment);
  const before = previewable(previous);
  if (now === undefined && before === undefined) return [];
  if (now === undefined || before === undefined) {
    const there = (now ?? before) as GitDeployment;
    const which: ConcernedBranch["which"] = now === undefined ? "shown" : "all";
    // A server that starts sees each deployment for the first time.
    const rest = kind === "added" ? { startedBefore: Date.parse(there.creationTimestamp ?? "") + clocksDifferMs } : {};
    return branchesShowing(there).map((one) => ({ ...one, which, ...rest }));
  }
  const isOther = now.generation !== before.generation || differ(now, before, deciding) || readsMore(now, before);
  const isChanged =
    differ(now, before, [...shaping, annotation.reads]) || foundOthers(now, before) || wasDeployed(now, before);
  const which: ConcernedBranch["which"] | undefined = isOther ? "all" : isChanged ? "shown" : undefined;
  const own = which === undefined ? [] : ownBranchOf(now).map((one) => ({ ...one, which }));
  const isMoved = !isDeepStrictEqual(ownBranchOf(now), ownBranchOf(before));
  const left = isMoved ? ownBranchOf(before).map((one) => ({ ...one, which: "shown" as const })) : [];
  const [libraries, earlier] = [librariesOf(now), librariesOf(before)];
  // What must not be shown any more is removed, too.
  const there: ConcernedBranch["which"] | undefined = isDeepStrictEqual(libraries, earlier) ? which : "all";
  const included = there === undefined ? [] : [...libraries, ...earlier].map((one) => ({ ...one, which: there }));
  return [...own, ...left, ...included];
}

/** No pull request shows a deployment that does not follow git, or is being deleted. */
function previewable(deployment: AnyDeployment | undefined): GitDeployment | undefined {
  if (deployment === undefined || !followsGit(deployment)) return undefined;
  return deployment.deletionTimestamp === undefined ? deployment : undefined;
}

function differ(now: GitDeployment, before: GitDeployment, names: readonly string[]): boolean {
  return names.some((name) => now.annotations[name] !== before.annotations[name]);
}

/** Whether it reads, or may read, what it did not before. What it is known not to read concerns only who shows it. */
function readsMore(now: GitDeployment, before: GitDeployment): boolean {
  const [places, earlier] = [now, before].map(({ spec, annotations }) =>
    parseReads(spec.source.path, annotations[annotation.reads]),
  );
  if (places === undefined || earlier === undefined) return places === undefined && earlier !== undefined;
  return places.some((place) => !earlier.includes(place));
}

function wasDeployed({ status: now }: GitDeployment, { status: before }: GitDeployment): boolean {
  return changedPreviews(now.lastDeployResult, before.lastDeployResult);
}

/** Whether the last check found other differences than the one before. The first check changes nothing that is shown. */
function foundOthers({ status: now }: GitDeployment, { status: before }: GitDeployment): boolean {
  const [next, last] = [now.lastDriftDetectionResult?.document, before.lastDriftDetectionResult?.document];
  if (next === undefined || last === undefined || next["id"] === last["id"]) return false;
  return !isDeepStrictEqual(next["objects"] ?? [], last["objects"] ?? []);
}
