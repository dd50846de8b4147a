/** The real Gitea for the conformance suite: a bot with the documented rights, and another user. */
import { onTestFinished, vi } from "vitest";
import { createGiteaForge } from "../../src/forge/gitea/forge.ts";
import type { CommitStatus } from "../../src/model.ts";
import { createGiteaClient, type GiteaClient } from "../../dev/parts/gitea-client.ts";
import type { ForgeHost } from "./forge-host.ts";
import { patience } from "./patience.ts";
import { uniqueName, useGitea } from "./world.ts";

interface PullRequest {
  readonly number: number;
  readonly title: string;
  readonly head: { readonly sha: string; readonly ref: string; readonly repo: { readonly full_name: string } };
}

interface Status {
  readonly context: string;
  readonly status: string;
  readonly description: string;
  readonly target_url: string;
}

const states = new Map<string, CommitStatus["state"]>([
  ["pending", "pending"],
  ["success", "success"],
  ["failure", "failure"],
]);

export interface GiteaHost extends ForgeHost {
  /** Calls the API as the administrator. */
  readonly call: GiteaClient["call"];
  /** A token of an account without any right in the repository, which is public. */
  readOnlyToken(): Promise<string>;
}

/** Connects to the real Gitea with a repository of this test. */
export async function useGiteaHost(): Promise<GiteaHost> {
  const { call, organization, login } = await useGitea();
  const repository = await createRepository(call, login.url, organization);
  onTestFinished(() => removeRepository(call, repository));
  return createHost(call, login, repository);
}

/** Connects to the real Gitea with a repository that the tests of a file share. */
export async function useSharedGiteaHost(): Promise<GiteaHost> {
  const { call, organization, login } = await useGitea();
  shared ??= createRepository(call, login.url, organization);
  return createHost(call, login, await shared);
}

async function createHost(
  call: GiteaClient["call"],
  login: Awaited<ReturnType<typeof useGitea>>["login"],
  { repoName, cloneUrl }: Repository,
): Promise<GiteaHost> {
  const apiUrl = `${login.url}/api/v1`;
  const { bot, somebody } = await (accounts ??= createAccounts(login.url, call));

  const read = (number: number) => somebody.call<PullRequest>("GET", `/repos/${repoName}/pulls/${number}`);
  const edit = (number: number, changes: object) =>
    somebody.call<PullRequest>("PATCH", `/repos/${repoName}/pulls/${number}`, changes);

  async function commit(repository: string, branch: object): Promise<string> {
    const content = Buffer.from("kind: ConfigMap\n").toString("base64");
    const file = `/repos/${repository}/contents/${uniqueName("file")}.yaml`;
    return (await somebody.call<{ commit: { sha: string } }>("POST", file, { content, ...branch })).commit.sha;
  }

  return {
    call,
    async readOnlyToken() {
      const scopes = ["read:repository", "read:issue", "read:user"];
      const { name, token } = await createAccount(login.url, call, scopes);
      onTestFinished(() => removeAccount(call, name));
      return token;
    },
    apiUrl,
    repoName,
    repoUrl: cloneUrl,
    secrets: [bot.token, login.token],
    connect: (options) => createGiteaForge({ id: "our-gitea", apiUrl, token: bot.token, ...options }),

    async openPullRequest({ fork = false, draft = false } = {}) {
      const branch = uniqueName("feature");
      const from = fork ? await forkOf(somebody, repoName) : repoName;
      const head = await commit(from, { branch: "main", new_branch: branch });
      const { number } = await somebody.call<PullRequest>("POST", `/repos/${repoName}/pulls`, {
        title: draft ? "WIP: change" : "Change",
        head: fork ? `${somebody.name}:${branch}` : branch,
        base: "main",
      });
      return { number, head };
    },
    async push(number) {
      const { head } = await read(number);
      return commit(head.repo.full_name, { branch: head.ref });
    },
    async retarget(number, base) {
      await edit(number, { base });
    },
    async setDraft(number, draft) {
      await edit(number, { title: draft ? "WIP: change" : "Change" });
    },
    async close(number) {
      await edit(number, { state: "closed" });
    },
    async merge(number) {
      // Gitea checks in the background whether it can be merged.
      const merge = () => somebody.call("POST", `/repos/${repoName}/pulls/${number}/merge`, { Do: "merge" });
      await vi.waitFor(merge, patience);
    },
    async somebodyComments(number, bodies) {
      for (const body of bodies) await somebody.call("POST", `/repos/${repoName}/issues/${number}/comments`, { body });
    },
    async comments(number) {
      type Comment = { readonly body: string; readonly user: { readonly login: string } };
      const comments = await somebody.call<Comment[]>("GET", `/repos/${repoName}/issues/${number}/comments`);
      return comments.map(({ body, user }) => ({ body, byForge: user.login === bot.name }));
    },
    async statuses(sha) {
      const combined = await somebody.call<{ statuses: Status[] | null }>(
        "GET",
        `/repos/${repoName}/commits/${sha}/status`,
      );
      return (combined.statuses ?? []).map(({ context, status, description, target_url }) => ({
        context,
        state: states.get(status) ?? "canceled",
        description,
        url: target_url || undefined,
      }));
    },
  };
}

interface Repository {
  readonly repoName: string;
  readonly cloneUrl: string;
}

let shared: Promise<Repository> | undefined;

/** Creates it with the branches `main` and `release`, and both accounts as collaborators. */
async function createRepository(call: GiteaClient["call"], url: string, organization: string): Promise<Repository> {
  const name = "Shop.it_v-2";
  const repoName = `${organization}/${name}`;
  const repo = { name, auto_init: true, default_branch: "main" };
  const [{ bot, somebody }, { clone_url: cloneUrl }] = await Promise.all([
    (accounts ??= createAccounts(url, call)),
    call<{ clone_url: string }>("POST", `/orgs/${organization}/repos`, repo),
  ]);
  await call("POST", `/repos/${repoName}/branches`, { new_branch_name: "release", old_branch_name: "main" });
  for (const account of [bot, somebody]) {
    await call("PUT", `/repos/${repoName}/collaborators/${account.name}`, { permission: "write" });
  }
  return { repoName, cloneUrl };
}

const removeRepository = (call: GiteaClient["call"], { repoName }: Repository) =>
  call<void>("DELETE", `/repos/${repoName}`);

type Account = GiteaClient & { readonly name: string; readonly token: string };

interface Accounts {
  readonly bot: Account;
  readonly somebody: Account;
  /** Removes the shared repository as well. */
  remove(): Promise<void>;
}

/** Shared by the tests of a file: creating an account costs Gitea more than everything a test does with it. */
let accounts: Promise<Accounts> | undefined;

async function createAccounts(url: string, call: GiteaClient["call"]): Promise<Accounts> {
  const [bot, somebody] = await Promise.all([
    createAccount(url, call, ["write:repository", "write:issue", "read:user"]),
    createAccount(url, call, ["all"]),
  ]);
  return {
    bot,
    somebody,
    async remove() {
      if (shared) await removeRepository(call, await shared);
      shared = undefined;
      await Promise.all([bot, somebody].map(({ name }) => removeAccount(call, name)));
    },
  };
}

/** Removes what the tests of a file share; for `afterAll`. */
export async function removeSharedInGitea(): Promise<void> {
  await (await accounts)?.remove();
  accounts = undefined;
}

const removeAccount = (call: GiteaClient["call"], name: string) =>
  call<void>("DELETE", `/admin/users/${name}?purge=true`);

/** Creates an account and a token with these scopes. */
async function createAccount(url: string, call: GiteaClient["call"], scopes: readonly string[]): Promise<Account> {
  const name = uniqueName("user");
  const password = uniqueName("Password1");
  const email = `${name}@example.com`;
  await call("POST", "/admin/users", { username: name, email, password, must_change_password: false });
  const answer = await fetch(`${url}/api/v1/users/${name}/tokens`, {
    method: "POST",
    headers: {
      authorization: `Basic ${Buffer.from(`${name}:${password}`).toString("base64")}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ name: "tests", scopes }),
  });
  if (!answer.ok) throw new Error(`Gitea gave ${name} no token: ${answer.status} ${await answer.text()}`);
  const { sha1: token } = (await answer.json()) as { sha1: string };
  return { name, token, ...createGiteaClient({ url, user: name, token }) };
}

async function forkOf(somebody: Account, repoName: string): Promise<string> {
  const name = `${somebody.name}/${repoName.split("/")[1]}`;
  const there = await somebody.call("GET", `/repos/${name}`).catch(() => undefined);
  if (there === undefined) {
    await somebody.call("POST", `/repos/${repoName}/forks`, {});
    onTestFinished(() => somebody.call<void>("DELETE", `/repos/${name}`).catch(() => undefined)); // a test may have removed it
  }
  return name;
}
