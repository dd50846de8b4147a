/** A merge queue's group in git: whether it still exists, whose code it contains, and its merges. */
import { isBranchTip } from "../model/git-ref.ts";
import {
  type Credentials,
  type GitDeployment,
  type Heads,
  type MergeGroupKey,
  type MergeGroupRequest,
  noCredentials,
  parseQueueBranch,
  type QueueBranch,
  type RepoId,
} from "../model.ts";
import type { Forge, Reports } from "../ports.ts";
import { readCredentials, readGitCredentials } from "../access/credentials.ts";
import { reposOfUrls } from "../model/repo-url.ts";
import { createConsumerMerges } from "./consumer-merges.ts";
import type { FailedGroup, MergedOrNot, MergesDeps, Readers } from "./merges.ts";

/** A group, and what the server knows about its repository. */
export interface GroupAtHost {
  readonly group: MergeGroupKey;
  readonly queue: QueueBranch;
  /** Its URLs, as deployments name it. */
  readonly repoUrls: readonly string[];
  readonly forge: Pick<Forge, "pullRequest">;
  readonly renderForks: boolean;
}

export type OpenedGroup =
  /** The queue's branch was deleted, or points at another commit. */
  | { readonly kind: "ended" }
  /** It may contain code that no user with write access has seen. */
  | { readonly kind: "refused"; readonly why: string }
  /** `members`: the pull requests in it, as far as they are known, including those of the groups ahead. */
  | { readonly kind: "opened"; readonly merges: readonly MergedOrNot[]; readonly members: readonly number[] };

/** Whether git has the group's branch at its commit. Throws if no credentials can read the repository. */
export async function isInGit(
  { branch, commit }: MergeGroupKey,
  readers: readonly Readers[],
  { secrets, sources }: MergesDeps,
  signal: AbortSignal,
): Promise<boolean> {
  let failure: unknown;
  for (const { url, deployments } of readers) {
    try {
      const [first] = deployments as [GitDeployment, ...GitDeployment[]];
      const credentials = await readGitCredentials(first, secrets);
      const { commits } = await sources.heads({ url, credentials }, undefined, signal);
      return commits.get(`refs/heads/${branch}`) === commit;
    } catch (error) {
      signal.throwIfAborted();
      failure ??= error;
    }
  }
  throw failure;
}

/** The caller releases the merges. Throws if no credentials can read the repository. */
export async function openGroup(
  { group, queue, repoUrls, forge, renderForks }: GroupAtHost,
  candidates: readonly Readers[],
  { secrets, sources }: MergesDeps,
  signal: AbortSignal,
): Promise<OpenedGroup> {
  const readable: (Readers & { credentials: Credentials; heads: Heads })[] = [];
  const failed: FailedGroup[] = [];
  for (const readers of candidates) {
    const { deployments, url, includes } = readers;
    let credentials = noCredentials;
    try {
      const [first] = deployments as [GitDeployment, ...GitDeployment[]];
      credentials = await readCredentials(first, secrets);
      const heads = await sources.heads({ url, credentials: credentials.git }, undefined, signal);
      readable.push({ ...readers, credentials, heads });
    } catch (error) {
      failed.push({ kind: "failed", deployments, credentials, includes, error });
    }
  }
  if (readable.length === 0) throw failed[0]?.error;
  let members: readonly number[] | undefined;
  // Each set of credentials is checked by itself, as everywhere.
  for (const { heads } of readable) {
    if (heads.commits.get(`refs/heads/${group.branch}`) !== group.commit) return { kind: "ended" };
    // The base in a delivery is only a claim, which could hide groups ahead; the branch's name is git's.
    members = findMembers(queue.base, queue, heads);
    const why = renderForks ? undefined : await whyNotRendered(members, group, heads, forge, signal);
    if (why !== undefined) return { kind: "refused", why };
  }
  const merges = readable.map(async ({ deployments, url, includes, credentials, heads }): Promise<MergedOrNot> => {
    const { commits, defaultRef } = heads;
    const { commit: head } = group;
    const { base } = queue;
    const repository = { url, credentials: credentials.git };
    try {
      const tip = commits.get(`refs/heads/${queue.baseBranch}`);
      const merge = await sources.merge({ ...repository, head, base, isMerged: true, tip }, signal);
      if (merge.kind === "conflict") return { kind: "conflict", base, paths: merge.paths };
      const known = { defaultRef, changed: merge.changed };
      const library = { ...merge, base: tip ?? base };
      const repos = reposOfUrls(repoUrls);
      const consumers = includes && createConsumerMerges({ library, repos, credentials, sources });
      return { kind: "merged", deployments, credentials, includes, base, tip, known, heads, merge, consumers };
    } catch (error) {
      return { kind: "failed", deployments, credentials, includes, error };
    }
  });
  return {
    kind: "opened",
    merges: [...(await Promise.all(merges)), ...failed],
    members: members ?? [queue.pullRequest],
  };
}

export interface UnansweredDeps {
  readonly forges: ReadonlyMap<string, Pick<Forge, "id" | "repoName">>;
  readonly reports: Pick<Reports, "groupStatuses">;
}

/**
 * Finds the groups of a repository that wait for a status, including those whose comparison was started but may have
 * been lost. Queues leave branches behind: only those that lead down to the current base branch count.
 */
export async function findUnansweredGroups(
  { forges, reports }: UnansweredDeps,
  repo: RepoId,
  heads: Heads,
): Promise<MergeGroupRequest[]> {
  const groups = [...heads.commits].flatMap(([ref, commit]) => {
    const branch = ref.replace(/^refs\/heads\//, "");
    const queue = parseQueueBranch(branch);
    if (queue === undefined || findMembers(queue.base, queue, heads) === undefined) return [];
    return [...forges.values()].flatMap(({ id: forge, repoName: nameOf }): MergeGroupKey[] => {
      const repoName = nameOf(repo);
      return repoName === undefined ? [] : [{ forge, repoName, commit, branch, base: queue.base }];
    });
  });
  const found = await Promise.all(
    groups.map(async (group) => {
      const known = (await reports.groupStatuses(group)).get(group.branch);
      return known === undefined || known.state === "pending" ? [group] : [];
    }),
  );
  return found.flat().map((group) => ({ kind: "merge-group", group, ended: false }));
}

/**
 * Returns the pull requests between the base branch and the group's commit, in order. A group is based on the one ahead
 * until that is merged. `undefined` if the queue's branches do not lead down to the base branch.
 */
function findMembers(base: string, { baseBranch, pullRequest }: QueueBranch, { commits }: Heads) {
  const tip = commits.get(`refs/heads/${baseBranch}`);
  const ahead = new Map(
    [...commits].flatMap(([ref, commit]) => {
      const queued = parseQueueBranch(ref.replace(/^refs\/heads\//, ""));
      return queued?.baseBranch === baseBranch ? [[commit, queued] as const] : [];
    }),
  );
  const members = [pullRequest];
  for (let at = base; at !== tip;) {
    const next = ahead.get(at);
    if (next === undefined || members.length > ahead.size) return undefined;
    members.unshift(next.pullRequest);
    at = next.base;
  }
  return members;
}

/** As for a pull request: its head has to be on a branch of the repository, which requires write access. */
async function whyNotRendered(
  members: readonly number[] | undefined,
  { forge: id, repoName }: MergeGroupKey,
  heads: Heads,
  forge: Pick<Forge, "pullRequest">,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (members === undefined) return "the groups ahead of it in the merge queue are not known";
  for (const number of members) {
    const pullRequest = await forge.pullRequest({ forge: id, repoName, number }, signal);
    if (pullRequest?.fork) return `#${number} comes from a fork`;
    if (pullRequest === undefined || !isBranchTip(pullRequest.head, heads)) {
      return `no branch of the repository points at the head of #${number}`;
    }
  }
  return undefined;
}
