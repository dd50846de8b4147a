/**
 * Groups of a merge queue: the host merges queued pull requests into one commit and requires its checks to pass first.
 */
import type { CommitKey } from "./request.ts";

/** One group, identified by its branch and by the commit that the base branch will point to if all checks pass. */
export interface MergeGroupKey extends CommitKey {
  /** The queue's branch at that commit: `gh-readonly-queue/main/pr-7-<base>`. */
  readonly branch: string;
  /**
   * The commit the group is based on, according to the event. The branch name, which comes from git, contains it too.
   */
  readonly base: string;
}

/** The parts of a queue branch's name. */
export interface QueueBranch {
  readonly baseBranch: string;
  /** The last pull request of the group. */
  readonly pullRequest: number;
  readonly base: string;
}

const queuePrefix = "gh-readonly-queue/";

/** Whether this is the short name of a branch that only GitHub's merge queue writes to. */
export function isQueueBranch(branch: string): boolean {
  return branch.startsWith(queuePrefix);
}

/** Returns `undefined` for other names. Names of base branches may contain slashes. */
export function parseQueueBranch(branch: string): QueueBranch | undefined {
  if (!isQueueBranch(branch)) return undefined;
  const match = /^(.+)\/pr-(\d{1,15})-([0-9a-f]{40}|[0-9a-f]{64})$/.exec(branch.slice(queuePrefix.length));
  const [, baseBranch, number, base] = match ?? [];
  if (baseBranch === undefined || base === undefined) return undefined;
  return { baseBranch, pullRequest: Number(number), base };
}
