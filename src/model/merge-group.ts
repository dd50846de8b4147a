/** Groups of a merge queue: the host merges queued pull requests into one commit, and asks for its checks first. */
import type { CommitKey } from "./request.ts";

/** One group, by its branch and the commit that the base branch is moved to if all checks pass. */
export interface MergeGroupKey extends CommitKey {
  /** The queue's branch with that commit: `gh-readonly-queue/main/pr-7-<base>`. */
  readonly branch: string;
  /** What was told of the commit that the group was made on. The branch's name says it too, and that is git's. */
  readonly base: string;
}

/** What the name of a queue's branch says. */
export interface QueueBranch {
  readonly baseBranch: string;
  /** The last pull request of the group. */
  readonly pullRequest: number;
  readonly base: string;
}

const queuePrefix = "gh-readonly-queue/";

/** Whether the short name of a branch is one that only GitHub's merge queue writes to. */
export function isQueueBranch(branch: string): boolean {
  return branch.startsWith(queuePrefix);
}

/** `undefined` for other names. Names of base branches may contain slashes. */
export function parseQueueBranch(branch: string): QueueBranch | undefined {
  if (!isQueueBranch(branch)) return undefined;
  const match = /^(.+)\/pr-(\d{1,15})-([0-9a-f]{40}|[0-9a-f]{64})$/.exec(branch.slice(queuePrefix.length));
  const [, baseBranch, number, base] = match ?? [];
  if (baseBranch === undefined || base === undefined) return undefined;
  return { baseBranch, pullRequest: Number(number), base };
}
