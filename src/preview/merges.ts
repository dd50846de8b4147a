/** What merging gives, once for each set of logins that the deployments name; nearly always there is one. */
import { SourceError } from "../errors.ts";
import { isBranchTip } from "../git-ref.ts";
import type { Ignored } from "../match.ts";
import { type Credentials, type GitDeployment, noCredentials, type PullRequest, type Repository } from "../model.ts";
import type { Merge, Merged, Secrets, Sources } from "../ports.ts";
import { credentialsKey, readCredentials } from "../reconcile/credentials.ts";
import { type Known, matchPullRequest } from "./match.ts";

interface Group {
  readonly deployments: readonly GitDeployment[];
  readonly credentials: Credentials;
}

export interface MergedGroup extends Group {
  readonly kind: "merged";
  readonly base: string;
  readonly known: Known;
  readonly merge: Merged;
}

export interface FailedGroup extends Group {
  readonly kind: "failed";
  readonly error: unknown;
}

export type MergedOrNot =
  | MergedGroup
  | FailedGroup
  | { readonly kind: "conflict"; readonly base: string; readonly paths: readonly string[] }
  /** Now that the default branch is known, nobody follows the base branch. */
  | { readonly kind: "nobody"; readonly base: string; readonly ignored: readonly Ignored[] };

/**
 * No branch of the repository points at the pull request's head. Nobody with write access may have pushed it, whatever the
 * forge says, so nothing of it is merged, let alone rendered. Another try reads the pull request again.
 */
export class HeadOnNoBranch extends SourceError {
  constructor(head: string) {
    super("ref-not-found", `no branch of the repository points at ${head.slice(0, 7)}`);
  }
}

/** The host's own ref of the pull request is at another commit than the one that somebody allowed, or there is none. */
export class HeadNotProposed extends SourceError {
  constructor({ key, head }: Pick<PullRequest, "key" | "head">) {
    super("ref-not-found", `git does not have ${head.slice(0, 7)} as the head of pull request ${key.number}`);
  }
}

export interface MergesDeps {
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads" | "commitsAt" | "merge">;
}

/** Never rejects, so that nothing is left behind: whoever calls releases the merges, also when some of them failed. */
export async function mergeForEachLogin(
  pullRequest: PullRequest,
  candidates: readonly GitDeployment[],
  deps: MergesDeps,
  signal: AbortSignal,
): Promise<MergedOrNot[]> {
  const groups = Map.groupBy(candidates, credentialsKey);
  return Promise.all([...groups.values()].map((group) => mergeForLogin(pullRequest, group, deps, signal)));
}

async function mergeForLogin(
  pullRequest: PullRequest,
  candidates: readonly GitDeployment[],
  { secrets, sources }: MergesDeps,
  signal: AbortSignal,
): Promise<MergedOrNot> {
  const { head, baseBranch } = pullRequest;
  let credentials = noCredentials;
  try {
    const [first] = candidates as [GitDeployment, ...GitDeployment[]];
    credentials = await readCredentials(first, secrets);
    const repository = { url: first.spec.source.url, credentials: credentials.git };
    // Asked afresh: a webhook of the pull request says nothing about where its base branch is.
    const heads = await sources.heads(repository, undefined, signal);
    const { defaultRef } = heads;
    const base = heads.commits.get(`refs/heads/${baseBranch}`);
    if (base === undefined) throw new SourceError("ref-not-found", `there is no branch ${baseBranch} to merge into`);
    const { concerned: deployments, ignored } = matchPullRequest(pullRequest, candidates, { defaultRef });
    if (deployments.length === 0) return { kind: "nobody", base, ignored };
    if (pullRequest.fork) await checkProposed(pullRequest, repository, sources, signal);
    else if (!isBranchTip(head, heads)) throw new HeadOnNoBranch(head);
    // Of this very commit, wherever its branch is by now.
    const merge: Merge = await sources.merge({ ...repository, head, base }, signal);
    if (merge.kind === "conflict") return { kind: "conflict", base, paths: merge.paths };
    const known = { defaultRef, changed: merge.changed };
    return { kind: "merged", deployments: candidates, credentials, base, known, merge };
  } catch (error) {
    return { kind: "failed", deployments: candidates, credentials, error };
  }
}

/**
 * Hosts put the head of a pull request there by themselves, also of forks: GitHub, Gitea and Forgejo the first, GitLab the
 * second. Where a host does not, it takes write access.
 */
async function checkProposed(
  pullRequest: PullRequest,
  repository: Repository,
  sources: MergesDeps["sources"],
  signal: AbortSignal,
): Promise<void> {
  const { number } = pullRequest.key;
  const names = [`refs/pull/${number}/head`, `refs/merge-requests/${number}/head`];
  const found = await sources.commitsAt(repository, names, signal);
  if (![...found.values()].includes(pullRequest.head)) throw new HeadNotProposed(pullRequest);
}
