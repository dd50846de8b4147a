/** A forge in memory, with Maps and lists that tests set up and inspect. */
import { ForgeError, type ForgeProblem } from "../../src/errors.ts";
import {
  type CommitKey,
  type CommitStatus,
  type ForgeComment,
  type HostDeployment,
  type PullRequest,
  type PullRequestKey,
  pullRequestText,
  type StatusForm,
} from "../../src/model.ts";
import type { Forge } from "../../src/ports.ts";

export interface FakeForge extends Forge {
  /** By `pullRequestText`. */
  readonly pullRequests: Map<string, PullRequest>;
  /** By `pullRequestText`; oldest first. */
  readonly comments: Map<string, ForgeComment[]>;
  /** All statuses ever written, in order. */
  readonly statuses: { readonly commit: CommitKey; readonly status: CommitStatus }[];
  /** All states of deployments ever written, in order; empty on a Gitea. */
  readonly deployments: { readonly commit: string; readonly id: string; readonly deployment: HostDeployment }[];
  /** The names of all calls, in order. */
  readonly calls: string[];
  /** Makes every call fail until it is called without a problem. */
  fail(problem?: ForgeProblem, retryAfterMs?: number): void;
  /** Creates an open pull request, or changes the existing one. */
  put(number: number, more?: Partial<PullRequest>): PullRequest;
}

/** Serves the repositories on `git.example.com`. */
export function fakeForge({
  id = "gitea",
  kind = "gitea" as Forge["kind"],
  host = "git.example.com",
  form = "status" as StatusForm,
} = {}): FakeForge {
  const pullRequests: FakeForge["pullRequests"] = new Map();
  const comments: FakeForge["comments"] = new Map();
  const statuses: FakeForge["statuses"] = [];
  const deployments: FakeForge["deployments"] = [];
  const calls: string[] = [];
  let failure: (() => ForgeError) | undefined;
  let written = 0;

  function call<T>(name: string, signal: AbortSignal | undefined, answer: () => T): Promise<T> {
    calls.push(name);
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return failure ? Promise.reject(failure()) : Promise.resolve(answer());
  }

  function commentsOf(key: PullRequestKey): ForgeComment[] {
    const there = comments.get(pullRequestText(key)) ?? [];
    comments.set(pullRequestText(key), there);
    return there;
  }

  return {
    id,
    kind,
    maxCommentLength: 65_536,
    ...(form === "check" && { maxDetailsBytes: 65_535 }),
    pullRequests,
    comments,
    statuses,
    deployments,
    calls,
    fail(problem, retryAfterMs) {
      failure = problem && (() => new ForgeError(problem, `${id} does not answer: ${problem}`, { retryAfterMs }));
    },
    put(number, more = {}) {
      const key = more.key ?? { forge: id, repoName: "org/shop", number };
      const pullRequest: PullRequest = {
        key,
        url: `https://${host}/${key.repoName}/pulls/${number}`,
        state: "open",
        draft: false,
        head: "1".repeat(40),
        baseBranch: "main",
        fork: false,
        repoUrls: [`https://${host}/${key.repoName}.git`],
        updatedAt: Date.now(),
        ...pullRequests.get(pullRequestText(key)),
        ...more,
      };
      pullRequests.set(pullRequestText(key), pullRequest);
      return pullRequest;
    },

    repoName: (repo) => (repo.startsWith(`${host}/`) ? repo.slice(host.length + 1) : undefined),
    pullRequest: (key, signal) => call("pullRequest", signal, () => pullRequests.get(pullRequestText(key))),
    openPullRequests: (repoName, signal) =>
      call("openPullRequests", signal, () =>
        [...pullRequests.values()].filter(({ key, state }) => key.repoName === repoName && state === "open"),
      ),
    closedPullRequests: (repoName, since, signal) =>
      call("closedPullRequests", signal, () =>
        [...pullRequests.values()]
          .filter(({ key, state, updatedAt }) => key.repoName === repoName && state !== "open" && updatedAt >= since)
          .toSorted((a, b) => b.updatedAt - a.updatedAt)
          .slice(0, 50),
      ),
    ownComments: (key, signal) => call("ownComments", signal, () => [...commentsOf(key)]),
    createComment: (key, body, signal) =>
      call("createComment", signal, () => {
        const commentId = String(++written);
        const url = `https://${host}/${key.repoName}/pulls/${key.number}#comment-${commentId}`;
        const comment: ForgeComment = { id: commentId, body, url };
        commentsOf(key).push(comment);
        return comment;
      }),
    updateComment: (key, commentId, body, signal) =>
      call("updateComment", signal, () => {
        const there = commentsOf(key);
        const index = there.findIndex((comment) => comment.id === commentId);
        const before = there[index];
        return before && (there[index] = { ...before, body });
      }),
    deleteComment: (key, commentId, signal) =>
      call("deleteComment", signal, () => {
        const left = commentsOf(key).filter((comment) => comment.id !== commentId);
        comments.set(pullRequestText(key), left);
      }),
    setStatus: (commit, status, signal) =>
      call("setStatus", signal, () => {
        statuses.push({ commit, status });
        return form;
      }),
    ...(kind !== "gitea" && {
      setDeployment: ({ commit }: CommitKey, deployment: HostDeployment, known?: string, signal?: AbortSignal) =>
        call("setDeployment", signal, () => {
          const id = known ?? String(++written);
          deployments.push({ commit, id, deployment });
          return id;
        }),
    }),
  };
}
