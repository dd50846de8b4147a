/** GitHub and GitHub Enterprise, as a user or as an App: https://docs.github.com/rest */
import type { PullRequest, PullRequestKey, RepoId, StatusForm } from "../../model.ts";
import type { Forge } from "../../ports.ts";
import type { ForgeOptions } from "../forge-options.ts";
import { isClosedSince } from "../payload.ts";
import { createBoundedMap } from "../../kit/bounded-map.ts";
import {
  type CommentAnswer,
  commentAnswer,
  commentAnswers,
  pullRequestAnswer,
  closedPullRequestAnswers,
  pullRequestAnswers,
  toForgeComment,
  toPullRequest,
} from "./answers.ts";
import { createAppLogin } from "./app-login.ts";
import { maxSummaryBytes } from "./checks.ts";
import { type GithubCall, createClient } from "./client.ts";
import { createSetDeployment } from "./deployments.ts";
import { createTokenLogin } from "./login.ts";
import { createGithubSetStatuses } from "./set-status.ts";
import { createWire } from "./wire.ts";

/**
 * GitHub documents 65 536 characters. In tests comments were measured in bytes, four per character, and descriptions of
 * pull requests in code points: this many code points fit either way.
 */
const maxCommentLength = 65_536;
const perPage = 100;
/** Ten thousand entries of any list. A conversation has at most 2 500 comments. */
const maxPages = 100;

interface ListedPage {
  /** GitHub's identifier for this state of the page. */
  readonly etag: string;
  readonly pullRequests: readonly PullRequest[];
  readonly isLast: boolean;
}

export function createGithubForge(options: ForgeOptions): Forge {
  const { id, apiUrl, login, log, timeoutMs = 10_000, onAnswer, reportAs = "auto" } = options;
  const url = (apiUrl ?? "https://api.github.com").replace(/\/+$/, "");
  const wire = createWire({ apiUrl: url, timeoutMs, log, onAnswer });
  const as =
    "app" in login
      ? createAppLogin(createWire({ apiUrl: url, timeoutMs, log, app: login.app }))
      : createTokenLogin(login.token, wire);
  const client = createClient(wire, as);
  const hosts = repositoryHosts(new URL(url));
  /**
   * An unchanged page is not sent again, and does not count against the rate limit. GitHub's ETags depend on the token:
   * for an App, all pages count once an hour.
   */
  const listed = {
    open: createBoundedMap<ListedPage>({ entries: 200 }),
    closed: createBoundedMap<ListedPage>({ entries: 200 }),
  };

  interface Page {
    readonly state: keyof typeof listed;
    readonly order: Readonly<Record<"sort" | "direction", string>>;
    readonly page: number;
    /** Pull requests that were last updated before this are not kept; epoch milliseconds. */
    readonly since?: number;
  }

  async function listPage(repoName: string, asked: Page, signal?: AbortSignal): Promise<ListedPage> {
    const { state, order, page, since = 0 } = asked;
    const known = listed[state];
    const kept = known.get(`${repoName} ${page}`);
    const call = onPullRequests(repoName, `list the ${state} pull requests of ${repoName}`, signal);
    const answer = await client.ask(
      "GET /repos/{owner}/{repo}/pulls",
      { state, ...order, per_page: perPage, page, ...(kept && { headers: { "if-none-match": kept.etag } }) },
      call,
    );
    if (kept !== undefined && answer.status === 304) return kept;
    const found = client.read(state === "closed" ? closedPullRequestAnswers : pullRequestAnswers, answer, call);
    const fresh = {
      etag: String(answer.headers["etag"] ?? ""),
      pullRequests: found.map((one) => toPullRequest(id, one)).filter(({ updatedAt }) => updatedAt >= since),
      // A full page does not change when another page is added after it, so the next page has to be requested.
      isLast: !hasNext(answer.headers["link"]) && found.length < perPage,
    };
    if (fresh.etag !== "") known.set(`${repoName} ${page}`, fresh);
    return fresh;
  }

  const setStatuses = createGithubSetStatuses({ client, reportAs, log });
  return {
    id,
    kind: "github",
    maxCommentLength,
    ...("app" in login && reportAs !== "statuses" && { maxDetailsBytes: maxSummaryBytes }),

    repoName(repo: RepoId) {
      const [host = "", owner, name, ...rest] = repo.split("/");
      return hosts.includes(host) && owner && name && rest.length === 0 ? `${owner}/${name}` : undefined;
    },

    async pullRequest(key, signal) {
      const call = on(key, "read", signal);
      const answer = await client.find(
        "GET /repos/{owner}/{repo}/pulls/{pull_number}",
        { pull_number: key.number },
        call,
      );
      return answer && toPullRequest(id, client.read(pullRequestAnswer, answer, call));
    },

    async openPullRequests(repoName, signal) {
      const all: PullRequest[] = [];
      for (let page = 1; page <= maxPages; page++) {
        // Oldest first: a pull request that is opened meanwhile does not move others to another page.
        const asked = { state: "open", order: { sort: "created", direction: "asc" }, page } as const;
        const { pullRequests, isLast } = await listPage(repoName.toLowerCase(), asked, signal);
        all.push(...pullRequests);
        if (isLast) break;
      }
      return all;
    },

    async closedPullRequests(repoName, since, signal) {
      const asked = { state: "closed", order: { sort: "updated", direction: "desc" }, page: 1, since } as const;
      const { pullRequests } = await listPage(repoName.toLowerCase(), asked, signal);
      return pullRequests.filter(isClosedSince(since));
    },

    async ownComments(key, signal) {
      const call = on(key, "list the comments on", signal);
      const isOwn = await client.ownership(call);
      const own: CommentAnswer[] = [];
      for (let page = 1; page <= maxPages; page++) {
        const answer = await client.ask(
          "GET /repos/{owner}/{repo}/issues/{issue_number}/comments",
          { issue_number: key.number, per_page: perPage, page },
          call,
        );
        own.push(...client.read(commentAnswers, answer, call).filter(isOwn));
        if (!hasNext(answer.headers["link"])) break;
      }
      return own.map(toForgeComment);
    },

    async createComment(key, body, signal) {
      const call = on(key, "write a comment on", signal);
      const answer = await client.ask(
        "POST /repos/{owner}/{repo}/issues/{issue_number}/comments",
        { issue_number: key.number, body },
        call,
      );
      return toForgeComment(client.read(commentAnswer, answer, call));
    },

    async updateComment(key, comment, body, signal) {
      const call = on(key, "change a comment on", signal);
      const answer = await client.find(
        "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
        { comment_id: comment, body },
        call,
      );
      return answer && toForgeComment(client.read(commentAnswer, answer, call));
    },

    async deleteComment(key, comment, signal) {
      const call = on(key, "delete a comment on", signal);
      await client.find("DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}", { comment_id: comment }, call);
    },

    async setStatus(commit, status, signal) {
      let shownAs: StatusForm = "status";
      await setStatuses(commit, [status], (_status, form) => (shownAs = form), signal);
      return shownAs;
    },
    // Only for check runs something has to be read before and after.
    ...(client.app && { setStatuses }),

    setDeployment: createSetDeployment(client),
  };
}

function on({ repoName, number }: PullRequestKey, what: string, signal: AbortSignal | undefined): GithubCall {
  return onPullRequests(repoName, `${what} ${repoName}#${number}`, signal);
}

function onPullRequests(repoName: string, what: string, signal: AbortSignal | undefined): GithubCall {
  return { what, repoName, permission: "pull_requests", signal };
}

/**
 * Repositories are on the API's host or next to it: github.com, a self-hosted one, or a company's at GitHub
 * (`*.ghe.com`).
 */
function repositoryHosts(api: URL): readonly string[] {
  const host = api.pathname === "/" ? api.hostname.replace(/^api\./, "") : api.hostname;
  return [host, `www.${host}`, `ssh.${host}`];
}

function hasNext(link: unknown): boolean {
  return typeof link === "string" && /;\s*rel="next"/.test(link);
}
