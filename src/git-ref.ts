/** Which commit a ref means, given what the remote has. Pure. */
import { type GitRef, type Heads, isQueueBranch } from "./model.ts";

/** The full name of the ref that is followed, as far as it has one: a pinned commit has none. */
export function refName(ref: GitRef, heads: Pick<Heads, "defaultRef">): string | undefined {
  if (ref.commit !== undefined) return undefined;
  if (ref.tag !== undefined) return `refs/tags/${ref.tag}`;
  if (ref.branch !== undefined) return `refs/heads/${ref.branch}`;
  return heads.defaultRef;
}

/** The commit the ref points to on the remote; `undefined` when the remote has no such ref. */
export function commitOf(ref: GitRef, heads: Heads): string | undefined {
  if (ref.commit !== undefined) return ref.commit;
  const name = refName(ref, heads);
  return name === undefined ? undefined : heads.commits.get(name);
}

/** Where Bitbucket's merge queue puts what it is about to merge. */
const bitbucketQueue = "bitbucket-merge-queue-";

/**
 * Whether somebody with write access to the repository has pushed the commit to a branch that still points at it. What a merge
 * queue is about to merge is the host's own commit, also of forks. GitLab's (`refs/merge-requests/7/train`) are no branches.
 */
export function isBranchTip(commit: string, { commits }: Heads): boolean {
  return [...commits].some(([name, tip]) => tip === commit && isPushedBranch(name));
}

function isPushedBranch(name: string): boolean {
  if (!name.startsWith("refs/heads/")) return false;
  const branch = name.slice("refs/heads/".length);
  return !isQueueBranch(branch) && !branch.startsWith(bitbucketQueue);
}

/** For people: `branch main`, `tag v1`, `commit 3f2c1ab…`, `the default branch`. */
export function describeRef(ref: GitRef): string {
  if (ref.commit !== undefined) return `commit ${ref.commit}`;
  if (ref.tag !== undefined) return `tag ${ref.tag}`;
  if (ref.branch !== undefined) return `branch ${ref.branch}`;
  return "the default branch";
}
