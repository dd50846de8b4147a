/** The results of merging, one per set of credentials that the deployments use; nearly always there is only one. */
import { SourceError } from "../errors.ts";
import { isBranchTip } from "../model/git-ref.ts";
import type { Ignored } from "../model/receipt.ts";
import {
  type Credentials,
  type GitDeployment,
  type Heads,
  type Merge,
  type Merged,
  noCredentials,
  type PullRequest,
  type Repository,
} from "../model.ts";
import type { Secrets, Sources } from "../ports.ts";
import { credentialsKey, readCredentials } from "../access/credentials.ts";
import { type ConsumerMerges, createConsumerMerges } from "./consumer-merges.ts";
import { includesFrom } from "../model/includes.ts";
import { type RepositoryFacts, matchPullRequest } from "./match.ts";
import { type MatchedConsumers, matchConsumers } from "./match-consumers.ts";
import { reposOfUrls } from "../model/repo-url.ts";

interface Group {
  readonly deployments: readonly GitDeployment[];
  readonly credentials: Credentials;
  /** They do not follow the repository, but include it. */
  readonly includes?: true | undefined;
}

export interface MergedGroup extends Group {
  readonly kind: "merged";
  readonly base: string;
  /** The base branch's commit, if the base is a group ahead in a merge queue. */
  readonly tip?: string | undefined;
  readonly known: RepositoryFacts;
  /** The refs of the repository, as these logins see them. */
  readonly heads: Heads;
  readonly merge: Merged;
  /** For deployments that include the repository. */
  readonly consumers?: ConsumerMerges | undefined;
}

export interface FailedGroup extends Group {
  readonly kind: "failed";
  readonly error: unknown;
}

export type MergedOrNot =
  | MergedGroup
  | FailedGroup
  | { readonly kind: "conflict"; readonly base: string; readonly paths: readonly string[] }
  | Unconcerned;

/** Now that the default branch is known: no deployment follows the base branch. */
interface Unconcerned extends Partial<Pick<MatchedConsumers, "unshown">> {
  readonly kind: "nobody";
  readonly base: string;
  readonly ignored: readonly Ignored[];
}

/**
 * No branch of the repository points at the pull request's head. Perhaps no user with write access has pushed it,
 * whatever the forge claims, so it is not merged, let alone rendered. A retry reads the pull request again.
 */
export class HeadOnNoBranch extends SourceError {
  constructor(head: string) {
    super("ref-not-found", `no branch of the repository points at ${head.slice(0, 7)}`);
  }
}

/** The host's own ref of the pull request is missing, or points at another commit than the allowed one. */
export class HeadNotProposed extends SourceError {
  constructor({ key, head }: Pick<PullRequest, "key" | "head">) {
    super("ref-not-found", `git does not have ${head.slice(0, 7)} as the head of pull request ${key.number}`);
  }
}

export interface MergesDeps {
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads" | "commitsAt" | "merge">;
}

/** The deployments that a pull request may concern. */
export interface Candidates {
  /** They follow its repository. */
  readonly followers: readonly GitDeployment[];
  /** They include it, and may be shown. */
  readonly consumers: readonly GitDeployment[];
}

/** Deployments that read the repository at this URL with the same logins. */
export interface Readers extends Pick<Group, "deployments" | "includes"> {
  readonly url: string;
}

export function readersOf(
  { repoUrls }: Pick<PullRequest, "repoUrls">,
  { followers, consumers }: Candidates,
): readonly Readers[] {
  const following = Map.groupBy(followers, credentialsKey);
  const repos = reposOfUrls(repoUrls);
  const urlOf = (deployment: GitDeployment) => includesFrom(deployment, repos)?.[0]?.url ?? "";
  const including = Map.groupBy(consumers, (one) => JSON.stringify([credentialsKey(one), urlOf(one)]));
  return [
    ...[...following.values()].map((deployments) => ({ deployments, url: deployments[0]?.spec.source.url ?? "" })),
    ...[...including.values()].map((deployments) => ({
      deployments,
      url: deployments[0] === undefined ? "" : urlOf(deployments[0]),
      includes: true as const,
    })),
  ];
}

/** Never rejects, so that no merge is leaked: the caller releases the merges even if some of them failed. */
export async function mergeForEachLogin(
  pullRequest: PullRequest,
  candidates: Candidates,
  deps: MergesDeps,
  signal: AbortSignal,
): Promise<MergedOrNot[]> {
  return Promise.all(readersOf(pullRequest, candidates).map((one) => mergeForLogin(pullRequest, one, deps, signal)));
}

async function mergeForLogin(
  pullRequest: PullRequest,
  { deployments: candidates, url, includes }: Readers,
  { secrets, sources }: MergesDeps,
  signal: AbortSignal,
): Promise<MergedOrNot> {
  const { head } = pullRequest;
  let credentials = noCredentials;
  try {
    const [first] = candidates as [GitDeployment, ...GitDeployment[]];
    credentials = await readCredentials(first, secrets);
    const repository = { url, credentials: credentials.git };
    const { heads, base } = await readRefs(pullRequest, repository, sources, signal);
    const { defaultRef } = heads;
    const match = includes ? matchConsumers : matchPullRequest;
    const { concerned, ...others } = match(pullRequest, candidates, { defaultRef });
    if (concerned.length === 0) return { kind: "nobody", base, ...others };
    if (pullRequest.fork) await checkProposed(pullRequest, repository, sources, signal);
    else if (!isBranchTip(head, heads)) throw new HeadOnNoBranch(head);
    const merge = await mergeHead(pullRequest, { ...repository, base }, sources, signal);
    if (merge.kind === "conflict") return { kind: "conflict", base, paths: merge.paths };
    const known = { defaultRef, changed: merge.changed };
    const group = { deployments: candidates, credentials, includes };
    const repos = reposOfUrls(pullRequest.repoUrls);
    const consumers = includes && createConsumerMerges({ library: merge, repos, credentials, sources });
    return { kind: "merged", ...group, base, known, heads, merge, consumers };
  } catch (error) {
    return { kind: "failed", deployments: candidates, credentials, includes, error };
  }
}

/** Always fetched: a webhook about the pull request does not contain the current commit of the base branch. */
async function readRefs(
  { baseBranch }: PullRequest,
  repository: Repository,
  sources: Pick<Sources, "heads">,
  signal: AbortSignal,
) {
  const heads = await sources.heads(repository, undefined, signal);
  const base = heads.commits.get(`refs/heads/${baseBranch}`);
  if (base === undefined) throw new SourceError("ref-not-found", `there is no branch ${baseBranch} to merge into`);
  return { heads, base };
}

/** Merges exactly this commit, wherever its branch is by now. */
function mergeHead(
  { head }: PullRequest,
  into: Repository & { readonly base: string },
  sources: Pick<Sources, "merge">,
  signal: AbortSignal,
): Promise<Merge> {
  return sources.merge({ ...into, head }, signal);
}

/**
 * The merge of a branch of the repository, with no other login than those of the server itself. Throws SourceError; also
 * HeadOnNoBranch.
 */
export async function mergeBranch(
  pullRequest: PullRequest,
  url: string,
  sources: Pick<Sources, "heads" | "merge">,
  signal: AbortSignal,
): Promise<{ readonly base: string; readonly merge: Merge }> {
  const repository = { url, credentials: noCredentials.git };
  const { heads, base } = await readRefs(pullRequest, repository, sources, signal);
  if (pullRequest.fork || !isBranchTip(pullRequest.head, heads)) throw new HeadOnNoBranch(pullRequest.head);
  return { base, merge: await mergeHead(pullRequest, { ...repository, base }, sources, signal) };
}

/**
 * Hosts themselves write the head of a pull request to these refs, including those of forks: GitHub, Gitea and Forgejo
 * to the first, GitLab to the second. On other hosts only users with write access can create them.
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
