/**
 * Pull requests on the local GitHub and GitLab, with commits in a real git repository. It is served on another port
 * than the API, at the path that the host uses for it: a repository's identity does not include the port.
 */
import type { ServerResponse } from "node:http";
import { expect } from "vitest";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import {
  type DeliveredPullRequest,
  type DeliveredPush,
  type DeliveredRepository,
  type Delivery,
  githubPullRequest,
  githubPushTo,
  githubSecret,
  gitlabMergeRequestOf,
  gitlabPushTo,
  gitlabSigningKey,
} from "./deliveries.ts";
import { type ForgeProxy, useForgeProxy } from "./forge-proxy.ts";
import { type GithubHost, useGithubHost } from "./github-host.ts";
import { type GitlabHost, useGitlabHost } from "./gitlab-host.ts";
import { latestJobs } from "./gitlab-state.ts";
import { previewVariables, type Towline, useTowline } from "./towline.ts";
import { patience } from "./patience.ts";
import { type TestRepository, type TestWorld, uniqueName } from "./world.ts";

type Action = "opened" | "updated" | "merged";

/** The differences between the hosts. */
interface LocalHost {
  readonly kind: "github" | "gitlab";
  readonly apiUrl: string;
  readonly repoName: string;
  readonly repoUrl: string;
  /** The server's login on the host. */
  readonly variables: Readonly<Record<string, string>>;
  /** The host's words for a failed status, and for one whose result will never be known. */
  readonly words: { readonly failure: string; readonly canceled: string };
  open(head: string | undefined, options: { fork: boolean }): Promise<DeliveredPullRequest>;
  push(number: number, head: string): unknown;
  merge(number: number): unknown;
  /** Records a commit on `main`. */
  take(commit: string): void;
  comments(number: number): readonly { readonly id: number; readonly body: string }[];
  /** `state: description` by context, in the host's own terms. */
  statuses(commit: string): Record<string, string>;
  tellPullRequest(action: Action, repository: DeliveredRepository, pull: DeliveredPullRequest): Delivery;
  tellPush(repository: DeliveredRepository, push: DeliveredPush): Delivery;
  /** Traces that a server must not leave: use of rights that it does not need, pipelines of its own on a commit. */
  flaws(): readonly unknown[];
  /** Answers with a rate limit in the form of this host. */
  refuse(res: ServerResponse, retryAfterSeconds: number): void;
}

export interface LocalGithub extends LocalHost {
  readonly host: GithubHost;
}

export interface LocalGitlab extends LocalHost {
  readonly host: GitlabHost;
}

export async function useLocalGithub(as: "app" | "token"): Promise<LocalGithub> {
  const host = await useGithubHost({ as, grants: "checks" });
  const { repository, logins } = host;
  const actions = { opened: "opened", updated: "synchronize", merged: "closed" } as const;
  const login: Record<string, string> =
    as === "token"
      ? { TOWLINE_GITHUB_TOKEN: logins.token }
      : { TOWLINE_GITHUB_APP_ID: logins.app.appId, TOWLINE_GITHUB_APP_PRIVATE_KEY: logins.app.privateKey };
  return {
    host,
    kind: "github",
    apiUrl: host.apiUrl,
    repoName: host.repoName,
    repoUrl: host.repoUrl,
    variables: {
      TOWLINE_GITHUB_WEBHOOK_SECRET: githubSecret,
      TOWLINE_GITHUB_DEPLOYMENTS: String(as === "app"),
      ...login,
    },
    words: { failure: "failure", canceled: as === "app" ? "cancelled" : "error" },
    open: (head, { fork }) => Promise.resolve({ ...repository.open({ fork, ...(head && { head }) }), fork }),
    push: (number, head) => repository.push(number, head),
    merge: (number) => repository.merge(number),
    take: (commit) => void repository.commits.add(commit),
    comments: (number) => repository.comments.filter((comment) => comment.number === number),
    statuses(commit) {
      const all = repository.statuses.filter(({ sha }) => sha === commit);
      const runs = repository.checkRuns.filter(({ sha }) => sha === commit);
      return Object.fromEntries([
        ...all.map((one) => [one.context, `${one.state}: ${one.description}`] as const),
        ...runs.map((one) => [one.name, `${wordOf(one)}: ${one.title}`] as const),
      ]);
    },
    tellPullRequest: (action, of, pull) => githubPullRequest(actions[action], of, pull),
    tellPush: githubPushTo,
    flaws: () =>
      logins.installationTokens.filter(({ repositories, permissions: { metadata: _, ...rights } }) => {
        const ofThis = repositories.length === 1 && repositories[0] === repository.name.toLowerCase();
        return !ofThis || Object.keys(rights).length !== 1;
      }),
    refuse(res, seconds) {
      const message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
      const headers = { "content-type": "application/json; charset=utf-8", "retry-after": String(seconds) };
      res.writeHead(403, headers).end(JSON.stringify({ message }));
    },
  };
}

/** A run in the words of a status: what is neutral passes a required check. */
export function wordOf({
  status,
  conclusion,
}: {
  readonly status: string;
  readonly conclusion: string | null;
}): string {
  if (status !== "completed") return "pending";
  return conclusion === "neutral" ? "success" : String(conclusion);
}

/** A GitLab whose own CI runs for every pushed commit. */
export async function useLocalGitlab(): Promise<LocalGitlab> {
  const host = await useGitlabHost();
  const { project } = host;
  const attributes = {
    opened: { action: "open" },
    updated: { action: "update", oldrev: "95790bf891e76fee5e1747ab589903a6a1f80f22" },
    merged: { action: "merge", state: "merged" },
  };
  return {
    host,
    kind: "gitlab",
    apiUrl: host.apiUrl,
    repoName: host.repoName,
    repoUrl: host.repoUrl,
    variables: { TOWLINE_GITLAB_WEBHOOK_SECRET: gitlabSigningKey, TOWLINE_GITLAB_TOKEN: host.bot.token },
    words: { failure: "failed", canceled: "canceled" },
    async open(head, { fork }) {
      const opened = await host.openPullRequest({ fork, ...(head && { head }) });
      if (!fork) host.startPipeline(opened.head, "merge_request_event");
      return { ...opened, fork };
    },
    async push(number, head) {
      host.startPipeline(await host.push(number, head));
    },
    merge: (number) => host.merge(number),
    take(commit) {
      project.commits.add(commit);
      host.startPipeline(commit, "push", "main");
    },
    comments: (number) =>
      project.requests.find(({ iid }) => iid === number)?.notes.filter(({ author }) => author === host.bot) ?? [],
    statuses: (commit) =>
      Object.fromEntries(latestJobs(project, commit).map(({ job }) => [job.name, `${job.status}: ${job.description}`])),
    tellPullRequest: (action, of, pull) => gitlabMergeRequestOf(of, pull, attributes[action]),
    tellPush: gitlabPushTo,
    flaws: () => project.pipelines.filter(({ source }) => source === "external"),
    refuse: (res, seconds) => void res.writeHead(429, { "retry-after": String(seconds) }).end("Retry later\n"),
  };
}

export interface LocalPullRequests {
  readonly repo: TestRepository;
  readonly towline: Towline;
  /** The proxy between the server and the host. */
  readonly proxy: ForgeProxy;
  /**
   * Pushes a change to a new branch and opens a pull request. With `fork`, nothing is pushed to the repository itself.
   * `to`: pushes only to this ref, while the host claims that the commit is on a branch.
   */
  open(changes: FileChanges, options?: { fork?: boolean; to?: string }): Promise<LocalPullRequest>;
  /** Pushes to `main`. */
  push(changes: FileChanges): Promise<string>;
  /** The host's name and URL of the repository. */
  readonly repository: DeliveredRepository;
  /** Sends a delivery to the server, which has to accept it. */
  deliver(delivery: Delivery): Promise<void>;
  /** Delivers the push that moved `main` to its present commit from `before`. */
  tellMain(before: string, modified: readonly string[]): Promise<string>;
  /** Waits until the host shows such statuses on the commit. */
  shows(commit: string, statuses: Record<string, unknown>): Promise<void>;
}

export interface LocalPullRequest {
  readonly number: number;
  readonly head: string;
  readonly branch: string;
  comments(): readonly { readonly id: number; readonly body: string }[];
  /** Waits until there is exactly one comment and it contains the text. */
  comment(text: string): Promise<string>;
  push(changes: FileChanges): Promise<string>;
  /** Pushes the head to the branch, and delivers this as a new push. */
  putOnBranch(): Promise<void>;
  /** Merges the pull request; returns the merge commit. */
  merge(): Promise<string>;
}

interface LocalPullRequestsOptions {
  /** Further variables of the server, which reaches the API at this URL. */
  readonly variables?: (apiUrl: string) => Record<string, string>;
  /** The repository's URL in deliveries, if it differs from the real one. */
  readonly deliveredUrl?: string;
}

/** A server for the host, and a repository whose changes are all delivered to the server with signatures. */
export async function useLocalPullRequests(
  world: TestWorld,
  local: LocalHost,
  { variables = () => ({}), deliveredUrl }: LocalPullRequestsOptions = {},
): Promise<LocalPullRequests> {
  const { kind } = local;
  const repo = await world.repo(new URL(local.repoUrl).pathname.slice(1).replace(/\.git$/, ""));
  const repository = { name: local.repoName, url: deliveredUrl ?? repo.url };
  const proxy = await useForgeProxy(local.apiUrl);
  const apiUrl = { [`TOWLINE_${kind.toUpperCase()}_API_URL`]: proxy.apiUrl };
  const more = { ...previewVariables, TOWLINE_CLUSTER_NAME: "eu-1", ...variables(proxy.apiUrl) };
  const towline = await useTowline(world, { ...local.variables, ...apiUrl, ...more });

  async function deliver({ rawHeaders, body }: Delivery): Promise<void> {
    const headers = Array.from({ length: rawHeaders.length / 2 }, (_, i) => rawHeaders.slice(2 * i, 2 * i + 2));
    const url = new URL(`/webhooks/${kind}`, towline.webhooksUrl);
    const answer = await fetch(url, { method: "POST", headers: headers as [string, string][], body });
    expect(answer.status).toBe(202);
  }

  async function tellMain(before: string, modified: readonly string[]): Promise<string> {
    const after = await repo.git("rev-parse", "main");
    local.take(after);
    await deliver(local.tellPush(repository, { before, after, modified }));
    return after;
  }

  const mainNow = () => repo.git("rev-parse", "--quiet", "--verify", "main").catch(() => "0".repeat(40));

  function onPullRequest(pull: DeliveredPullRequest, branch: string): LocalPullRequest {
    const { number } = pull;
    const tell = (action: Action, head: string) =>
      deliver(local.tellPullRequest(action, repository, { ...pull, head }));
    let { head } = pull;
    return {
      number,
      head,
      branch,
      comments: () => local.comments(number),
      async comment(text) {
        const bodies = () => local.comments(number).map(({ body }) => body);
        await expect.poll(bodies, patience).toEqual([expect.stringContaining(text)]);
        return bodies()[0] ?? "";
      },
      async push(changes) {
        head = await repo.push(changes, { branch });
        await local.push(number, head);
        await tell("updated", head);
        return head;
      },
      async putOnBranch() {
        await repo.git("push", "--quiet", "origin", `${head}:refs/heads/${branch}`);
        await tell("updated", head);
      },
      async merge() {
        const before = await mainNow();
        await repo.git("checkout", "--quiet", "main");
        await repo.git("merge", "--quiet", "--no-ff", branch);
        await repo.git("push", "--quiet", "origin", "main");
        local.merge(number);
        await tell("merged", head);
        return tellMain(before, (await repo.git("diff", "--name-only", before, "main")).split("\n"));
      },
    };
  }

  return {
    repo,
    towline,
    proxy,
    repository,
    deliver,
    tellMain,
    async open(changes, { fork = false, to } = {}) {
      const branch = uniqueName("feature");
      const head = fork ? undefined : await pushFrom(repo, branch, changes, to);
      const pull = await local.open(head, { fork });
      await deliver(local.tellPullRequest("opened", repository, pull));
      return onPullRequest(pull, branch);
    },
    async push(changes) {
      const before = await mainNow();
      await repo.push(changes);
      return tellMain(before, Object.keys(changes));
    },
    async shows(commit, statuses) {
      await expect.poll(() => local.statuses(commit), patience).toMatchObject(statuses);
    },
  };
}

async function pushFrom(repo: TestRepository, branch: string, changes: FileChanges, to?: string): Promise<string> {
  await repo.git("checkout", "--quiet", "-b", branch, "main");
  if (to === undefined) return repo.push(changes, { branch });
  const head = await repo.commit(changes);
  await repo.git("push", "--quiet", "origin", `HEAD:${to}`);
  return head;
}
