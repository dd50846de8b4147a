/** Pull requests, comments and statuses on Gitea or Forgejo, which share one API. */
import { z } from "zod";
import { ForgeError } from "../../errors.ts";
import type { CommitStatus, ForgeComment, PullRequestKey } from "../../model.ts";
import type { Forge } from "../../ports.ts";
import { type Answer, type Question, createAsk, pathOf, readAnswer, unlessGone } from "../ask.ts";
import type { ForgeOptions } from "../forge-options.ts";
import { createMemory } from "../memory.ts";
import { isClosedSince, lenientList } from "../payload.ts";
import { createRepoNames } from "../repo-name.ts";
import { shorten } from "../../kit/shorten.ts";
import { Account, Comment, PullRequestOf } from "./answers.ts";

/** Gitea itself accepts more; this is the limit of other forges, and what a page renders without effort. */
const maxCommentLength = 65_536;
/** Gitea has no limit; its page has room for about this much. */
const maxDescriptionLength = 255;
/** Gitea's maximum, unless configured otherwise; a page may have fewer. */
const pageSize = 50;
const maxPages = 1_000;

/**
 * The status of a canceled commit is final, and not a fault of the commit: Gitea shows a warning as an exclamation
 * mark.
 */
const states = { pending: "pending", success: "success", failure: "failure", canceled: "warning" } as const;

export function createGiteaForge({ id, apiUrl, token, timeoutMs, onAnswer }: GiteaForgeOptions): Forge {
  const hint = "it needs write access to the repository, and the scopes write:repository, write:issue and read:user";
  const headers = { authorization: `token ${token}` };
  const ask = createAsk({ apiUrl, headers, hint, token, timeoutMs, onAnswer });
  const PullRequest = PullRequestOf(id);
  const account = createMemory<number>(Infinity);

  async function readThing<T extends z.ZodType>(type: T, question: Question): Promise<z.infer<T>> {
    return readAnswer(type, await ask(question));
  }

  function findAccount(signal: AbortSignal | undefined): Promise<number> {
    return account.get("", async () => (await readThing(Account, { path: "/user", signal })).id);
  }

  /**
   * Gitea answers 500 instead of 404 for parts of a pull request or commit that does not exist. A request for the pull
   * request or commit itself is answered correctly.
   */
  async function askOf(thing: string, question: Question): Promise<Answer> {
    const answer = await ask({ ...question, excuses: ({ status }) => status === 500 });
    if (answer.status !== 500) return answer;
    await ask({ path: thing, signal: question.signal });
    throw new ForgeError("unreachable", `${answer.request}: response status 500`);
  }

  /** Reads all pages: the host reports the total, and may return smaller pages than requested. */
  async function askAll<T extends z.ZodType>(type: T, thing: string, question: Question): Promise<z.infer<T>[]> {
    const all: z.infer<T>[] = [];
    for (let page = 1; page <= maxPages; page++) {
      const answer = await askOf(thing, { ...question, query: { ...question.query, page, limit: pageSize } });
      const items = readAnswer(z.array(type), answer);
      all.push(...items);
      const total = Number(answer.headers.get("x-total-count") ?? 0);
      if (items.length === 0 || all.length >= total) return all;
    }
    throw new ForgeError("refused", `${question.path}: more than ${maxPages} pages`);
  }

  return {
    id,
    kind: "gitea",
    maxCommentLength,
    repoName: createRepoNames(apiUrl.replace(/\/api\/v1\/?$/, ""), (name) => name.split("/").length === 2),

    pullRequest(key, signal) {
      return unlessGone(() => readThing(PullRequest, { path: pullRequestPath(key), signal }));
    },

    openPullRequests(repoName, signal) {
      const query = { state: "open", sort: "oldest" };
      return askAll(PullRequest, repoPath(repoName), { path: `${repoPath(repoName)}/pulls`, query, signal });
    },

    async closedPullRequests(repoName, since, signal) {
      const query = { state: "closed", sort: "recentupdate", page: 1, limit: pageSize };
      const answer = await askOf(repoPath(repoName), { path: `${repoPath(repoName)}/pulls`, query, signal });
      return readAnswer(lenientList(PullRequest), answer).filter(isClosedSince(since));
    },

    async ownComments(key, signal) {
      const me = await findAccount(signal);
      const comments = await askAll(Comment, pullRequestPath(key), { path: commentsPath(key), signal });
      return comments.filter(({ author }) => author === me).map(toComment);
    },

    async createComment(key, body, signal) {
      const question = { method: "POST", path: commentsPath(key), body: { body }, signal } as const;
      return toComment(readAnswer(Comment, await askOf(pullRequestPath(key), question)));
    },

    async updateComment({ repoName }, commentId, body, signal) {
      const path = `${repoPath(repoName)}${pathOf`/issues/comments/${commentId}`}`;
      const comment = await unlessGone(() => readThing(Comment, { method: "PATCH", path, body: { body }, signal }));
      return comment && toComment(comment);
    },

    async deleteComment({ repoName }, comment, signal) {
      const path = `${repoPath(repoName)}${pathOf`/issues/comments/${comment}`}`;
      await unlessGone(() => ask({ method: "DELETE", path, signal }));
    },

    async setStatus({ repoName, commit }, status, signal) {
      const path = `${repoPath(repoName)}${pathOf`/statuses/${commit}`}`;
      const thing = `${repoPath(repoName)}${pathOf`/git/commits/${commit}`}`;
      await askOf(thing, { method: "POST", path, body: toStatus(status), signal });
      return "status";
    },
  };
}

export type GiteaForgeOptions = Pick<ForgeOptions, "id" | "timeoutMs" | "onAnswer"> & {
  readonly apiUrl: string;
  readonly token: string;
};

function repoPath(repoName: string): string {
  const [owner = "", ...rest] = repoName.split("/");
  return pathOf`/repos/${owner}/${rest.join("/")}`;
}

function pullRequestPath({ repoName, number }: PullRequestKey): string {
  return `${repoPath(repoName)}${pathOf`/pulls/${number}`}`;
}

function commentsPath({ repoName, number }: PullRequestKey): string {
  return `${repoPath(repoName)}${pathOf`/issues/${number}/comments`}`;
}

function toComment({ id, body, url }: ForgeComment): ForgeComment {
  return { id, body, url };
}

function toStatus({ context, state, description, url }: CommitStatus) {
  return {
    context,
    state: states[state],
    description: shorten(description, maxDescriptionLength),
    target_url: url ?? "",
  };
}
