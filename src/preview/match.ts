/** Finds the deployments that merging a pull request would affect. Pure, and explains its decisions. */
import { describeRef } from "../model/git-ref.ts";
import { reasonUntouched } from "../intake/touched-files.ts";
import type { Ignored } from "../model/receipt.ts";
import {
  type ChangedPaths,
  type GitDeployment,
  type PullRequest,
  annotation,
  isSwitchedOff,
  keyText,
} from "../model.ts";
import { repoId } from "../model/repo-url.ts";

export interface MatchedPullRequest {
  readonly concerned: readonly GitDeployment[];
  /** The deployments of the same repository that the merge does not affect, and why. */
  readonly ignored: readonly Ignored[];
}

/** What has been read from the repository so far. */
export interface RepositoryFacts {
  /** Full name of the repository's default branch. */
  readonly defaultRef?: string | undefined;
  /** The files in which the merge differs from the base branch. */
  readonly changed?: ChangedPaths | undefined;
}

/**
 * The same rules as for a push to the base branch: what is not known yet excludes no deployment. Suspended deployments
 * are previewed; whether they react to webhooks is another matter.
 */
export function matchPullRequest(
  pullRequest: Pick<PullRequest, "repoUrls" | "baseBranch">,
  deployments: readonly GitDeployment[],
  known: RepositoryFacts = {},
): MatchedPullRequest {
  const repos = new Set(pullRequest.repoUrls.map(repoId));
  const concerned: GitDeployment[] = [];
  const ignored: Ignored[] = [];
  for (const deployment of deployments) {
    if (!repos.has(deployment.repo)) continue;
    const reason = reasonToIgnore(pullRequest.baseBranch, deployment, known);
    if (reason === undefined) concerned.push(deployment);
    else ignored.push({ deployment: keyText(deployment.key), reason });
  }
  return { concerned, ignored };
}

/** Returns the first reason that applies; permanent reasons come before those of this pull request. */
function reasonToIgnore(baseBranch: string, deployment: GitDeployment, known: RepositoryFacts): string | undefined {
  const { spec, deletionTimestamp } = deployment;
  const { ref } = spec.source;
  if (isSwitchedOff(deployment, annotation.preview)) {
    return "previews are disabled by annotation";
  }
  if (deletionTimestamp !== undefined) return "is being deleted";
  if (ref.commit !== undefined || ref.tag !== undefined) return `is pinned to ${describeRef(ref)}`;
  if (!follows(baseBranch, ref.branch, known.defaultRef)) {
    return `follows ${describeRef(ref)}, the pull request is into branch ${baseBranch}`;
  }
  const { changed } = known;
  if (changed === undefined) return undefined;
  // An empty list of a host may be incomplete, but git's own is reliable: the base branch already contains everything.
  if (changed.complete && changed.paths.length === 0) return "the merge changes no file";
  return reasonUntouched(changed, deployment);
}

function follows(baseBranch: string, branch: string | undefined, defaultRef: string | undefined): boolean {
  if (branch !== undefined) return branch === baseBranch;
  return defaultRef === undefined || defaultRef === `refs/heads/${baseBranch}`;
}
