/** Resolves refs to commits, given the refs of the remote. Pure. */
import { type GitRef, type Heads, isQueueBranch } from "../model.ts";

/** The full name of the followed ref; `undefined` for a pinned commit, which has none. */
export function refName(ref: GitRef, heads: Pick<Heads, "defaultRef">): string | undefined {
  if (ref.commit !== undefined) return undefined;
  if (ref.tag !== undefined) return `refs/tags/${ref.tag}`;
  if (ref.branch !== undefined) return `refs/heads/${ref.branch}`;
  return heads.defaultRef;
}

/** The commit the ref points to on the remote; `undefined` if the remote has no such ref. */
export function commitOf(ref: GitRef, heads: Heads): string | undefined {
  if (ref.commit !== undefined) return ref.commit;
  const name = refName(ref, heads);
  return name === undefined ? undefined : heads.commits.get(name);
}

/** The branches that Bitbucket's merge queue creates. */
const bitbucketQueue = "bitbucket-merge-queue-";

/**
 * Whether the commit is the tip of a branch, so that a user with write access must have pushed it. The branches of
 * merge queues do not count: their commits are created by the host, also for forks. GitLab's merge trains
 * (`refs/merge-requests/7/train`) are not branches.
 */
export function isBranchTip(commit: string, { commits }: Heads): boolean {
  return [...commits].some(([name, tip]) => tip === commit && isPushedBranch(name));
}

function isPushedBranch(name: string): boolean {
  if (!name.startsWith("refs/heads/")) return false;
  const branch = name.slice("refs/heads/".length);
  return !isQueueBranch(branch) && !branch.startsWith(bitbucketQueue);
}

/** For display: `branch main`, `tag v1`, `commit 3f2c1ab…`, `the default branch`. */
export function describeRef(ref: GitRef): string {
  if (ref.commit !== undefined) return `commit ${ref.commit}`;
  if (ref.tag !== undefined) return `tag ${ref.tag}`;
  if (ref.branch !== undefined) return `branch ${ref.branch}`;
  return "the default branch";
}

/** For display as well, from the full name: `refs/tags/v1` → `tag v1`. Other refs keep their name. */
export function describeRefName(name: string): string {
  const [, kind, short] = /^refs\/(heads|tags)\/(.+)$/.exec(name) ?? [];
  return short === undefined ? name : `${kind === "tags" ? "tag" : "branch"} ${short}`;
}

/** The name of a branch or tag as people know it: `refs/heads/main` → `main`. */
export function shortRef(ref: string): string {
  return ref.replace(/^refs\/(?:heads|tags)\//, "");
}
