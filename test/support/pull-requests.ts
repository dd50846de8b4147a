/** Pull requests on the real Gitea, with the actions and the view of its users. */
import { expect, onTestFinished } from "vitest";
import { createWorkCopy, type FileChanges } from "../../dev/parts/work-copy.ts";
import { aProject, aSpec } from "./project.ts";
import { previewVariables, type Towline, useTowline } from "./towline.ts";
import { type TestForge, type TestRepository, type TestWorld, uniqueName, useGitea, useTempDir } from "./world.ts";
import { patience } from "./patience.ts";
import type { TestDeployment } from "./world-cluster.ts";

export interface PullRequestHost {
  readonly gitea: TestForge;
  readonly repo: TestRepository;
  /** API path of the repository. */
  readonly path: string;
  /** Registers a webhook for all events of the repository; returns a function that removes it. */
  tell(server: Pick<Towline, "webhooksUrl" | "webhookSecret">): Promise<() => Promise<void>>;
  /** Pushes the changes to a new branch and opens a pull request. */
  open(changes: FileChanges, options?: { base?: string; draft?: boolean }): Promise<OpenPullRequest>;
  /**
   * A user without rights on the repository proposes changes to `main` by a push to `refs/for/main`, without a branch
   * or fork (AGit); another push with the same topic replaces the proposed commit.
   */
  pushForReview(from: Somebody, topic: string, changes: FileChanges): Promise<OpenPullRequest>;
  /** A user without rights on the repository proposes one file from a fork. */
  openFromFork(file: string, content: string): Promise<OpenPullRequest>;
  /** State and description of a commit's statuses, by context. */
  statuses(commit: string): Promise<Record<string, string>>;
  /** All statuses ever written on a commit as `context state`, oldest first. */
  statusWrites(commit: string): Promise<string[]>;
  /** Creates an account without rights on the repository, which may still comment. */
  somebody(): Promise<Somebody>;
}

export interface Somebody {
  readonly name: string;
  /** URL of the repository with the account's login. */
  readonly remote: string;
  /** Calls the API as this account. */
  call<T = unknown>(method: string, path: string, body?: object): Promise<T>;
}

export interface PullRequests extends PullRequestHost {
  readonly towline: Towline;
}

export interface OpenPullRequest {
  readonly number: number;
  readonly branch: string;
  readonly head: string;
  /** The comments of Towline's account, oldest first. */
  comments(): Promise<readonly { readonly id: number; readonly body: string }[]>;
  /** Waits until there is exactly one comment of Towline, with a current result that contains the text; on failure reports the comments. */
  comment(text: string, withinMs?: number): Promise<string>;
  push(changes: FileChanges): Promise<string>;
  edit(changes: object): Promise<void>;
  merge(): Promise<void>;
}

/** The variables that a server needs to use this Gitea and to preview its pull requests. */
export function giteaVariables({ login }: TestForge): Record<string, string> {
  return {
    TOWLINE_GITEA_API_URL: `${login.url}/api/v1`,
    TOWLINE_GITEA_TOKEN: login.token,
    ...previewVariables,
  };
}

/** A repository on the real Gitea, which sends its events to a server by real webhooks. */
export async function usePullRequests(world: TestWorld, extra: Record<string, string> = {}): Promise<PullRequests> {
  const host = await usePullRequestHost();
  const towline = await useTowline(world, { ...giteaVariables(host.gitea), TOWLINE_CLUSTER_NAME: "eu-1", ...extra });
  await host.tell(towline);
  return { ...host, towline };
}

/** Pushes the project, by default one with a red ConfigMap, and deploys it as `shop`. */
export async function deployShop(
  { cluster }: TestWorld,
  { repo }: Pick<PullRequestHost, "repo">,
  project = aProject({ namespace: cluster.namespace }),
): Promise<TestDeployment> {
  await repo.push(project);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");
  return deployment;
}

/** A repository on the real Gitea without a server. */
export async function usePullRequestHost(): Promise<PullRequestHost> {
  const gitea = await useGitea();
  const repo = await gitea.repo("shop");
  const path = `/repos/${gitea.organization}/shop`;

  async function propose(branch: string, head: string, more: { base?: string; draft?: boolean; from?: Somebody } = {}) {
    const { base = "main", draft = false, from } = more;
    const proposal = { title: draft ? "WIP: Change" : "Change", head: from ? `${from.name}:${branch}` : branch, base };
    const { number } = await (from ?? gitea).call<{ number: number }>("POST", `${path}/pulls`, proposal);
    return onPullRequest(gitea, path, repo, { number, branch, head });
  }

  const host: PullRequestHost = {
    gitea,
    repo,
    path,
    async tell({ webhooksUrl: url, webhookSecret: secret }) {
      const events = ["push", "create", "delete", "pull_request"];
      const id = await gitea.registerWebhook(repo, { url, secret, events });
      return async () => void (await gitea.call("DELETE", `${path}/hooks/${id}`));
    },
    async open(changes, options = {}) {
      const branch = uniqueName("feature");
      await repo.git("fetch", "--quiet", "origin", options.base ?? "main");
      await repo.git("checkout", "--quiet", "-b", branch, "FETCH_HEAD");
      return propose(branch, await repo.push(changes, { branch }), options);
    },
    async pushForReview(from, topic, changes) {
      const copy = await createWorkCopy(await useTempDir(), from.remote);
      await copy.git("fetch", "--quiet", "origin", "main");
      await copy.git("checkout", "--quiet", "-b", "main", "FETCH_HEAD");
      const head = await copy.commit(changes);
      await copy.git(
        "push",
        "--quiet",
        "-o",
        `topic=${topic}`,
        "-o",
        "force-push=true",
        "origin",
        "HEAD:refs/for/main",
      );
      type Pull = { number: number; head: { sha: string } };
      const open = await gitea.call<Pull[]>("GET", `${path}/pulls?state=open`);
      const pull = open.find(({ head: { sha } }) => sha === head);
      if (pull === undefined) throw new Error(`Gitea has no pull request of ${head}`);
      return onPullRequest(gitea, path, repo, { number: pull.number, branch: "", head });
    },
    async openFromFork(file, text) {
      const from = await host.somebody();
      const branch = uniqueName("feature");
      // Gitea records a first push after git has ended; a fork made before that stays empty.
      const isEmpty = () => gitea.call<{ empty: boolean }>("GET", path).then(({ empty }) => empty);
      await expect.poll(isEmpty, patience).toBe(false);
      await from.call("POST", `${path}/forks`, {});
      const at = `/repos/${from.name}/shop/contents/${file}`;
      const { sha } = await from.call<{ sha: string }>("GET", `${at}?ref=main`);
      const change = { sha, content: Buffer.from(text).toString("base64"), branch: "main", new_branch: branch };
      const { commit } = await from.call<{ commit: { sha: string } }>("PUT", at, change);
      return propose(branch, commit.sha, { from });
    },
    async statuses(commit) {
      const { statuses } = await gitea.call<{ statuses: Status[] | null }>("GET", `${path}/commits/${commit}/status`);
      return Object.fromEntries((statuses ?? []).map((one) => [one.context, `${one.status}: ${one.description}`]));
    },
    async statusWrites(commit) {
      const all: Status[] = [];
      for (let page = 1, more = true; more; page++) {
        const query = `sort=oldest&limit=50&page=${page}`;
        const found = await gitea.call<Status[]>("GET", `${path}/commits/${commit}/statuses?${query}`);
        all.push(...found);
        more = found.length > 0;
      }
      return all.map(({ context, status }) => `${context} ${status}`);
    },
    async somebody() {
      const name = uniqueName("user");
      const account = { username: name, email: `${name}@example.com`, password: uniqueName("Password1") };
      await gitea.call("POST", "/admin/users", { ...account, must_change_password: false });
      onTestFinished(() => gitea.call("DELETE", `/admin/users/${name}?purge=true`));
      const remote = new URL(repo.url);
      remote.username = name;
      remote.password = account.password;
      const as = (at: string) => `${at}${at.includes("?") ? "&" : "?"}sudo=${name}`;
      return { name, remote: remote.href, call: (method, at, body) => gitea.call(method, as(at), body) };
    },
  };
  return host;
}

interface Status {
  readonly context: string;
  readonly status: string;
  readonly description: string;
}

function onPullRequest(
  gitea: TestForge,
  path: string,
  repo: TestRepository,
  { number, branch, head }: Pick<OpenPullRequest, "number" | "branch" | "head">,
): OpenPullRequest {
  const comments = async () => {
    type Comment = { id: number; body: string; user: { login: string } };
    const all = await gitea.call<Comment[]>("GET", `${path}/issues/${number}/comments`);
    return all.filter(({ user }) => user.login === gitea.login.user);
  };
  return {
    number,
    branch,
    head,
    comments,
    async comment(text, timeout = patience.timeout) {
      let bodies: string[] = [];
      await expect
        .poll(
          async () => {
            bodies = (await comments()).map(({ body }) => body);
            const [body = "", ...others] = bodies;
            // While it is compared again, the comment still shows the last result.
            return others.length === 0 && body.includes(text) && !body.includes("**Comparing again**");
          },
          { ...patience, timeout },
        )
        .toBe(true)
        .catch((cause: unknown) => {
          throw new Error(`there is no one comment with ${JSON.stringify(text)}: ${bodies.join("\n---\n")}`, { cause });
        });
      return bodies[0] ?? "";
    },
    push: (changes) => repo.push(changes, { branch }),
    async edit(changes) {
      await gitea.call("PATCH", `${path}/pulls/${number}`, changes);
    },
    async merge() {
      // Gitea checks in the background whether it can be merged.
      const merge = () => gitea.call("POST", `${path}/pulls/${number}/merge`, { Do: "merge" }).then(() => true);
      await expect.poll(() => merge().catch(() => false), patience).toBe(true);
    },
  };
}

/**
 * A ConfigMap `slow` whose rendering takes as long as the file exists, five minutes at most. An isolated template
 * cannot read the file, but can see whether it exists.
 */
export function rendersWhile(file: string, { namespace }: { namespace: string }): string {
  const os = "lipsum.__globals__.os";
  const wait = `{% for _ in range(3000) if ${os}.path.exists('${file}') %}{{ ${os}.sys.modules.time.sleep(0.1) or '' }}{% endfor %}`;
  return [
    "apiVersion: v1",
    "kind: ConfigMap",
    `metadata: { name: slow, namespace: ${namespace} }`,
    "data:",
    `  was: "${wait}done"`,
    "",
  ].join("\n");
}
