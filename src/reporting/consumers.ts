/**
 * What became of the merge into a library in the deployments that include it. Whether a deployment has the merge is decided by
 * git, from the commits that its reconciliations recorded.
 */
import { readGitCredentials } from "../access/credentials.ts";
import type { Logger } from "../log.ts";
import { SourceError, type SourceProblem } from "../errors.ts";
import type { BoundedMap } from "../kit/bounded-map.ts";
import {
  annotation,
  followsGit,
  type GitDeployment,
  keyText,
  type Leaving,
  type PullRequest,
  type Repository,
} from "../model.ts";
import { includedCommitsOf } from "../model/included-commits.ts";
import { includesFrom, isOf } from "../model/includes.ts";
import { wasDryRun } from "../model/last-deploy.ts";
import { reposOfUrls } from "../model/repo-url.ts";
import { matchPullRequest } from "../preview/match.ts";
import { matchConsumers, mostConsumers } from "../preview/match-consumers.ts";
import type { Deployments, Secrets, Sources } from "../ports.ts";
import { describeProgress, describeWaiting, sumOf } from "./deploy-statuses.ts";
import type { RolloutState } from "./rollout.ts";

export interface ConsumersDeps {
  readonly deployments: Pick<Deployments, "including">;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads" | "contains">;
  /** Whether a forge may report about the repository at this URL. */
  readonly speaksFor: (forge: string, url: string) => boolean;
  /** Commits that git did not have when a deployment's login asked for them lately. */
  readonly missing: Pick<BoundedMap<true>, "get" | "set">;
  readonly log: Logger;
}

/** Where a pull request was merged into. */
export type MergedInto = Pick<PullRequest, "key" | "baseBranch" | "repoUrls">;

/** A deployment and the merge: whether what it reconciled last contains it. */
export interface Consumer {
  readonly deployment: GitDeployment;
  /**
   * `lost`: the branch does not contain the merge any more. `unknown`: git did not answer. `unreadable`: it will not answer
   * until a person changes something.
   */
  readonly has: "merge" | "newer" | "older" | "lost" | "unknown" | "unreadable";
  /** The branch's commit that it reconciled last, or an older one. */
  readonly commit?: string | undefined;
}

/** A slow host must not occupy the workers that report to all hosts: until it answers, its state is unknown. */
const leaving: Leaving = { leaves: true };

/** Users write the record too. A project includes a repository under one URL, or perhaps a second one. */
const mostCommits = 3;

/** The names under which deployments include the repository, as far as its forge may report about them. */
export function namesOf({ key, repoUrls }: MergedInto, { speaksFor }: Pick<ConsumersDeps, "speaksFor">) {
  const urls = repoUrls.filter((url) => speaksFor(key.forge, url));
  return { repoUrls: urls, repos: reposOfUrls(urls) };
}

/** The deployments that the comment of this pull request may name, and that include the branch that it was merged into. */
export async function findConsumers(
  pullRequest: MergedInto,
  mergeCommit: string,
  deps: ConsumersDeps,
  signal: AbortSignal | undefined,
): Promise<readonly Consumer[]> {
  const { baseBranch } = pullRequest;
  const { repoUrls, repos } = namesOf(pullRequest, deps);
  const including = [...new Set([...repos].flatMap((repo) => deps.deployments.including(repo)))].filter(followsGit);
  // Those that follow the branch have statuses of their own.
  const followers = new Set(matchPullRequest({ repoUrls, baseBranch }, including).concerned);
  const { concerned } = matchConsumers(
    { repoUrls, baseBranch },
    including.filter((one) => !followers.has(one)),
  );
  const found = await Promise.all(concerned.slice(0, mostConsumers).map(findConsumer));
  return found.filter((one) => one !== undefined);

  /** `undefined`: it includes the default branch, and this is another one. */
  async function findConsumer(deployment: GitDeployment): Promise<Consumer | undefined> {
    const url = includesFrom(deployment, repos)?.[0]?.url ?? "";
    const branch = `refs/heads/${baseBranch}`;
    try {
      const library = { url, credentials: await readGitCredentials(deployment, deps.secrets) };
      const { defaultRef } = await deps.sources.heads(library, {}, signal, leaving);
      if (!matchConsumers({ repoUrls, baseBranch }, [deployment], { defaultRef }).concerned.includes(deployment)) {
        return undefined;
      }
      const recorded = includedCommitsOf(deployment).filter((one) => isOf(one.url, repos) && one.ref === branch);
      // Under several URLs, it may have several commits of the branch: the merge is deployed where all contain it.
      const commits = [...new Set(recorded.map(({ commit }) => commit))].slice(0, mostCommits);
      const contain = await Promise.all(commits.map((commit) => contains(deployment, library, commit)));
      const commit = commits.find((_, at) => !contain[at]) ?? commits.find((one) => one !== mergeCommit) ?? commits[0];
      if (commits.length > 0 && !contain.includes(false)) {
        return { deployment, has: commit === mergeCommit ? "merge" : "newer", commit };
      }
      const { commits: now } = await deps.sources.heads(library, undefined, signal, leaving);
      const tip = now.get(branch);
      const isThere = tip !== undefined && (await deps.sources.contains(library, tip, mergeCommit, signal, leaving));
      return { deployment, has: isThere ? "older" : "lost", commit };
    } catch (error) {
      signal?.throwIfAborted();
      deps.log.debug({ ...deployment.key, error: (error as Error).message }, "could not find what it includes");
      return { deployment, has: error instanceof SourceError && lasting.has(error.problem) ? "unreadable" : "unknown" };
    }
  }

  /** A commit that git has no more is not known to contain anything. */
  async function contains(deployment: GitDeployment, library: Repository, commit: string): Promise<boolean> {
    const asked = `${keyText(deployment.key)} ${library.url} ${commit}`;
    if (deps.missing.get(asked)) return false;
    try {
      return await deps.sources.contains(library, commit, mergeCommit, signal, leaving);
    } catch (error) {
      if (!(error instanceof SourceError && error.problem === "ref-not-found")) throw error;
      deps.missing.set(asked, true);
      return false;
    }
  }
}

/** These last until a person changes a login, the repository or the configuration; then the deployment's status changes too. */
export const lasting: ReadonlySet<SourceProblem> = new Set<SourceProblem>([
  "unauthorized",
  "not-found",
  "empty",
  "refused",
]);

/** One state for each of them, as far as it is known. */
export function statesOf(consumers: readonly Consumer[]): RolloutState[] {
  return consumers.flatMap((one) => {
    const line = lineOf(one);
    return line === undefined ? [] : [{ ...line, deployment: keyText(one.deployment.key), includes: true as const }];
  });
}

/** One state for all of them together. */
export function sumOfStates(states: readonly RolloutState[]): RolloutState {
  return { ...sumOf(states), deployment: "", includes: true };
}

/** `undefined`: there is nothing new to say. */
function lineOf({ deployment, has, commit = "" }: Consumer): ReturnType<typeof describeProgress> | undefined {
  if (has === "unknown") return undefined;
  if (has === "unreadable") return { state: "pending", description: "not known: it cannot read this repository" };
  if (has === "older") return describeWaiting(deployment);
  if (has === "lost") return { state: "canceled", description: "the branch no longer contains this commit" };
  const line = describeProgress(deployment);
  const isNewer = has === "newer";
  // Whether this commit or a newer one is the reason is not known, and the newer one has a record of its own.
  if (line.state === "failure" && isNewer) return { state: "canceled", description: "superseded by a newer commit" };
  if (line.state !== "success" || wasDryRun(deployment.status.lastDeployResult)) return line;
  const healthy = deployment.annotations[annotation.healthChecks] === undefined ? "" : ", healthy";
  return { state: "success", description: `deployed${isNewer ? ` with ${commit.slice(0, 7)}` : ""}${healthy}` };
}

/** Whether it may still deploy the merge. */
export function isWaiting(consumer: Consumer): boolean {
  const line = lineOf(consumer);
  return consumer.has !== "lost" && (line?.state !== "success" || line.neutral === true);
}
