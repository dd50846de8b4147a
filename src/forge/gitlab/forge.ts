/** Merge requests, notes and commit statuses on a GitLab. */
import type { z } from "zod";
import type { ForgeComment, PullRequestKey } from "../../model.ts";
import type { Forge } from "../../ports.ts";
import { createAsk, readAnswer, unlessGone } from "../ask.ts";
import type { ForgeOptions } from "../forge-options.ts";
import { createMemory } from "../memory.ts";
import { isClosedSince, lenientList } from "../payload.ts";
import { createRepoNames } from "../repo-name.ts";
import { Account, MergeRequest, Note, Project, toPullRequest } from "./answers.ts";
import { type AskPage, createGitlabApi, perPage, readPages } from "./api.ts";
import { createSetDeployment } from "./deployments.ts";
import { createSetStatus } from "./statuses.ts";

/** https://docs.gitlab.com/api/notes/ */
const maxCommentLength = 1_000_000;
/** A project's addresses seldom change. */
const projectLifetimeMs = 10 * 60_000;

export type GitlabForgeOptions = Pick<ForgeOptions, "id" | "apiUrl" | "timeoutMs" | "onAnswer"> & {
  readonly token: string;
};

export function createGitlabForge(options: GitlabForgeOptions): Forge {
  const { id, apiUrl = "https://gitlab.com/api/v4", token, timeoutMs, onAnswer } = options;
  const hint =
    "GitLab answers in the same way if the token has no access: the token needs the role Developer in the project, and the scope api";
  const ask = createAsk({ apiUrl, headers: { "private-token": token }, hint, token, timeoutMs, onAnswer });
  const webUrl = apiUrl.replace(/\/api\/v4\/?$/, "");
  const account = createMemory<number>(Infinity);
  const projects = createMemory<z.infer<typeof Project>>(projectLifetimeMs);

  function findAccount(signal: AbortSignal | undefined): Promise<number> {
    const { users } = createGitlabApi(ask, { signal });
    return account.get("", async () => read(Account, await users.showCurrentUser(), "the token's account").id);
  }

  function findProject(repoName: string, signal: AbortSignal | undefined): Promise<z.infer<typeof Project>> {
    return projects.get(repoName, async () =>
      read(Project, await createGitlabApi(ask, { signal }).projects.show(repoName), `project ${repoName}`),
    );
  }

  function read<T extends z.ZodType>(type: T, json: unknown, what: string): z.infer<T> {
    return readAnswer(type, { json, request: `${what} at ${new URL(webUrl).host}` });
  }

  function readAll<T extends z.ZodType>(type: T, what: string, askPage: AskPage): Promise<z.infer<T>[]> {
    return readPages(type, `${what} at ${new URL(webUrl).host}`, askPage);
  }

  /** A note does not contain its URL: it is an anchor on the merge request's page. */
  async function findAddress(
    key: PullRequestKey,
    signal: AbortSignal | undefined,
  ): Promise<(note: Note) => ForgeComment> {
    const { web_url } = await findProject(key.repoName, signal);
    return ({ id, body }) => ({ id: String(id), body, url: `${web_url}/-/merge_requests/${key.number}#note_${id}` });
  }

  const noteOf = ({ repoName, number }: PullRequestKey) => `a note of ${repoName}!${number}`;

  async function readRequest({ repoName, number }: PullRequestKey, signal: AbortSignal | undefined) {
    const { requests } = createGitlabApi(ask, { signal });
    const request = read(MergeRequest, await requests.show(repoName, number), `${repoName}!${number}`);
    return toPullRequest(id, request, await findProject(repoName, signal));
  }

  async function rewriteNote(key: PullRequestKey, note: number, body: string, signal: AbortSignal | undefined) {
    const toComment = await findAddress(key, signal);
    const { notes } = createGitlabApi(ask, { signal });
    return toComment(read(Note, await notes.edit(key.repoName, key.number, note, { body }), noteOf(key)));
  }

  return {
    id,
    kind: "gitlab",
    maxCommentLength,
    repoName: createRepoNames(webUrl, (name) => name.split("/").length >= 2),

    pullRequest(key, signal) {
      return unlessGone(() => readRequest(key, signal));
    },

    async openPullRequests(repoName, signal) {
      const { requests } = createGitlabApi(ask, { signal });
      const query = { projectId: repoName, state: "opened", scope: "all", orderBy: "created_at", sort: "asc" } as const;
      const what = `the merge requests of ${repoName}`;
      const open = await readAll(MergeRequest, what, (page) => requests.all({ ...query, ...page }));
      const project = await findProject(repoName, signal);
      return open.map((request) => toPullRequest(id, request, project)).filter((request) => request !== undefined);
    },

    async closedPullRequests(repoName, since, signal) {
      const { requests } = createGitlabApi(ask, { signal });
      // GitLab filters by one state or by none, and closed and merged are two states.
      const lately = { orderBy: "updated_at", sort: "desc", updatedAfter: new Date(since).toISOString() } as const;
      const query = { projectId: repoName, scope: "all", ...lately, page: 1, perPage } as const;
      const Page = lenientList(MergeRequest);
      const updated = read(Page, await requests.all(query), `the merge requests of ${repoName}`);
      const project = await findProject(repoName, signal);
      return updated
        .map((request) => toPullRequest(id, request, project))
        .filter((request) => request !== undefined)
        .filter(({ state }) => state !== "open")
        .filter(isClosedSince(since));
    },

    async ownComments(key, signal) {
      const me = await findAccount(signal);
      const toComment = await findAddress(key, signal);
      const { notes } = createGitlabApi(ask, { signal });
      const oldestFirst = { orderBy: "created_at", sort: "asc" } as const;
      const all = await readAll(Note, noteOf(key), (page) =>
        notes.all(key.repoName, key.number, { ...oldestFirst, ...page }),
      );
      return all.filter(({ system, author }) => !system && author.id === me).map(toComment);
    },

    async createComment(key, body, signal) {
      const toComment = await findAddress(key, signal);
      const { notes } = createGitlabApi(ask, { signal });
      return toComment(read(Note, await notes.create(key.repoName, key.number, body), noteOf(key)));
    },

    updateComment(key, comment, body, signal) {
      return unlessGone(() => rewriteNote(key, Number(comment), body, signal));
    },

    async deleteComment({ repoName, number }, comment, signal) {
      const { notes } = createGitlabApi(ask, { signal });
      await unlessGone(() => notes.remove(repoName, number, Number(comment)));
    },

    setStatus: createSetStatus(ask),
    setDeployment: createSetDeployment({ ask, findAccount }),
  };
}
