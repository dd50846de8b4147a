/**
 * Finds the deployments that a pull request concerns because their projects include its repository, and decides whether its
 * comment may show them. Pure, and explains its decisions.
 */
import { compareText } from "../kit/compare-text.ts";
import { shortRef } from "../model/git-ref.ts";
import { type Include, includesFrom, isOf, parseIncludes } from "../model/includes.ts";
import type { Ignored } from "../model/receipt.ts";
import {
  annotation,
  type AnyDeployment,
  type Deployment,
  followsGit,
  type GitDeployment,
  isSwitchedOff,
  keyText,
  type PullRequest,
  type RepoId,
} from "../model.ts";
import { repoId, reposOfUrls } from "../model/repo-url.ts";
import type { RepositoryFacts } from "./match.ts";

/** Hundreds of deployments may include a library, each with a login of its own. The comment shows equal results once. */
export const mostConsumers = 50;

export interface MatchedConsumers {
  /** Sorted by name. */
  readonly concerned: readonly GitDeployment[];
  /** Those that may be shown, but cannot be rendered correctly; for everybody who reads the comment. */
  readonly unshown: readonly Ignored[];
  /** The others, for operators: their names are not for everybody who can read the repository. */
  readonly ignored: readonly Ignored[];
}

type Into = Pick<PullRequest, "repoUrls" | "baseBranch">;

/** `including`: the deployments that include the repository, on any ref. What is not known yet excludes no deployment. */
export function matchConsumers(
  pullRequest: Into,
  including: readonly Deployment[],
  known: RepositoryFacts = {},
): MatchedConsumers {
  const repos = reposOfUrls(pullRequest.repoUrls);
  const concerned: GitDeployment[] = [];
  const [unshown, ignored]: [Ignored[], Ignored[]] = [[], []];
  for (const deployment of including) {
    const name = keyText(deployment.key);
    const reason = reasonToIgnore(pullRequest.baseBranch, deployment, repos, known);
    const problem = reason ?? reasonNotToRender(pullRequest.baseBranch, deployment, repos, known);
    if (reason !== undefined) ignored.push({ deployment: name, reason });
    else if (problem !== undefined) unshown.push({ deployment: name, reason: problem });
    else if (followsGit(deployment)) concerned.push(deployment);
  }
  return { concerned: concerned.sort((a, b) => compareText(keyText(a.key), keyText(b.key))), unshown, ignored };
}

function reasonToIgnore(
  baseBranch: string,
  deployment: Deployment,
  repos: ReadonlySet<RepoId>,
  { defaultRef, changed }: RepositoryFacts,
): string | undefined {
  if (isSwitchedOff(deployment, annotation.preview)) return "previews are disabled by annotation";
  if (deployment.deletionTimestamp !== undefined) return "is being deleted";
  const included = parseIncludes(deployment.annotations[annotation.includes]).filter(({ url }) => isOf(url, repos));
  if (!included.some(({ refs }) => isAt(baseBranch, refs, defaultRef))) {
    return `includes ${included.map(describeRefs).join(", ")}, the pull request is into branch ${baseBranch}`;
  }
  if (!mayBeShown(deployment, repos)) {
    return `includes the branch, but its annotation ${annotation.previewIn} does not name this repository`;
  }
  return changed?.complete && changed.paths.length === 0 ? "the merge changes no file" : undefined;
}

/** kluctl replaces a repository as a whole, whatever ref of it is included where. */
function reasonNotToRender(
  baseBranch: string,
  deployment: Deployment,
  repos: ReadonlySet<RepoId>,
  { defaultRef }: RepositoryFacts,
): string | undefined {
  if (!followsGit(deployment)) return "its own source is an OCI artifact, and only git repositories can be previewed";
  const included = includesFrom(deployment, repos);
  if (included === undefined) return "it includes too many repositories to record them all";
  return describeOthers(otherIncludes(included, baseBranch, defaultRef));
}

/** The includes of the repository that a merge into this branch does not change. */
export function otherIncludes(
  included: readonly Include[],
  baseBranch: string,
  defaultRef: string | undefined,
): Include[] {
  return included.filter(({ refs }) => !isAt(baseBranch, refs, defaultRef));
}

/** Why it cannot be rendered with them; `undefined` if there are none. */
export function describeOthers(others: readonly Include[]): string | undefined {
  if (others.length === 0) return undefined;
  const refs = [...new Set(others.map(quoteRefs))].join(", ");
  return `it also includes this repository at ${refs}, and kluctl cannot replace one without the other`;
}

/**
 * What a deployment renders may be shown where everybody reads it who reads its own repository anyway, and where its
 * resource says so: readers of a library need not be readers of what includes it.
 */
function mayBeShown(deployment: Deployment, repos: ReadonlySet<RepoId>): boolean {
  if (deployment.repo !== undefined && repos.has(deployment.repo)) return true;
  return shownIn(deployment).some((repo) => repos.has(repo));
}

/** The repositories that the deployment's annotation names, as URLs or as `host/path`. */
function shownIn({ annotations }: Pick<AnyDeployment, "annotations">): RepoId[] {
  const words = (annotations[annotation.previewIn] ?? "").split(/[\s,]+/).filter(Boolean);
  const repos = words.map((word) => repoId(word) ?? repoId(`https://${word}`));
  return repos.filter((repo) => repo !== undefined);
}

/** A branch whose pull requests may show a deployment. `branch`: absent for the default branch, whose name only the remote knows. */
export interface ShowingBranch {
  readonly repo: RepoId;
  readonly branch?: string | undefined;
}

/** What the deployment includes of repositories whose pull requests may show it. */
export function shownIncludesOf(deployment: Deployment): readonly (Include & { readonly repo: RepoId })[] {
  if (deployment.annotations[annotation.includes] === undefined) return [];
  if (isSwitchedOff(deployment, annotation.preview) || !followsGit(deployment)) return [];
  return parseIncludes(deployment.annotations[annotation.includes]).flatMap((include) => {
    const repo = repoId(include.url);
    return repo === undefined || !mayBeShown(deployment, new Set([repo])) ? [] : [{ ...include, repo }];
  });
}

/** The repositories and branches that the deployment includes, and whose pull requests may show it. */
export function librariesOf(deployment: Deployment): readonly ShowingBranch[] {
  return shownIncludesOf(deployment).flatMap(({ repo, refs }): ShowingBranch[] => {
    if (refs.length === 0) return [{ repo }];
    const branches = refs.filter((ref) => ref.startsWith("refs/heads/"));
    return branches.map((ref) => ({ repo, branch: shortRef(ref) }));
  });
}

/** All branches whose pull requests may show the deployment: none of its own if it is pinned to a tag or a commit. */
export function branchesShowing(deployment: Deployment): readonly ShowingBranch[] {
  return [...ownBranchOf(deployment), ...librariesOf(deployment)];
}

export function ownBranchOf(deployment: Deployment): readonly ShowingBranch[] {
  if (!followsGit(deployment)) return [];
  const { branch, tag, commit } = deployment.spec.source.ref;
  return tag !== undefined || commit !== undefined ? [] : [{ repo: deployment.repo, branch }];
}

function isAt(branch: string, refs: Include["refs"], defaultRef: string | undefined): boolean {
  const name = `refs/heads/${branch}`;
  return refs.length > 0 ? refs.includes(name) : defaultRef === undefined || defaultRef === name;
}

function describeRefs({ refs: [ref] }: Include): string {
  return ref === undefined ? "the default branch" : shortRef(ref);
}

/** For comments: whatever a project names, nothing in it ends the code. */
function quoteRefs({ refs: [ref] }: Include): string {
  if (ref === undefined) return "the default branch";
  return `\`${shortRef(ref)
    .replace(/[^\w./@+-]/g, "?")
    .slice(0, 40)}\``;
}
