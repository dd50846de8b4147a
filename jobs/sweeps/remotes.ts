/** The remotes that the sweep asks for their refs: those that deployments follow, and those that their projects include. Pure. */
import {
  type AnyDeployment,
  type Deployment,
  followsGit,
  type GitDeployment,
  isMalformed,
  type RepoId,
} from "../../src/model.ts";
import { type IncludedCommit, includedCommitsOf } from "../../src/model/included-commits.ts";
import { parseIncludes } from "../../src/model/includes.ts";
import { annotation } from "../../src/model/deployment.ts";
import { repoId } from "../../src/model/repo-url.ts";

/** A remote, and a deployment that follows it or whose project includes it. */
export type UsedRemote = FollowedRemote | IncludedRemote;

interface Remote {
  readonly url: string;
  readonly repo: RepoId;
}

export interface FollowedRemote extends Remote {
  readonly use: "source";
  readonly deployment: GitDeployment;
}

export interface IncludedRemote extends Remote {
  readonly use: "include";
  readonly deployment: Deployment;
  /** What its last reconciliation rendered of it. */
  readonly recorded: readonly IncludedCommit[];
}

/** The remotes whose moves can affect the deployment. */
export function remotesOf(deployment: AnyDeployment): UsedRemote[] {
  if (isMalformed(deployment)) return [];
  const own = isTracked(deployment)
    ? [{ use: "source" as const, deployment, url: deployment.spec.source.url, repo: deployment.repo }]
    : [];
  return [...own, ...includedRemotesOf(deployment)];
}

/** Whether a move of its remote can affect the deployment. One that has never been reconciled is due anyway. */
export function isTracked(deployment: AnyDeployment): deployment is GitDeployment {
  if (!followsGit(deployment) || deployment.deletionTimestamp !== undefined) return false;
  const { spec, status, recordsChecks } = deployment;
  if (spec.suspend && recordsChecks === false) return false; // the newer commit would never be recorded
  return spec.source.ref.commit === undefined && status.observedGeneration !== undefined;
}

/**
 * Only what has a record can be compared. There is none of what is pinned to a commit, nor while the resource replaces
 * sources: an earlier record is out of date then.
 */
function includedRemotesOf(deployment: Deployment): IncludedRemote[] {
  const { annotations, spec, status, deletionTimestamp } = deployment;
  if (annotations[annotation.includedCommits] === undefined || deletionTimestamp !== undefined) return [];
  if (spec.suspend || spec.sourceOverrides.length > 0 || status.observedGeneration === undefined) return [];
  const included = new Set(parseIncludes(annotations[annotation.includes]).map(({ url }) => url));
  const recorded = includedCommitsOf(deployment).filter(({ url }) => included.has(url));
  return [...Map.groupBy(recorded, ({ url }) => url)].flatMap(([url, commits]) => {
    const repo = repoId(url);
    return repo === undefined ? [] : [{ use: "include" as const, deployment, url, repo, recorded: commits }];
  });
}
