/** The actions of the demo and the tests on the git host, through its API. */
import { randomBytes } from "node:crypto";
import type { GiteaLogin } from "./gitea.ts";

export interface GiteaRepository {
  readonly owner: string;
  readonly name: string;
  readonly cloneUrl: string;
  /** Contains the login: for our own working copies, never for a server. */
  readonly pushUrl: string;
}

export interface GiteaWebhook {
  readonly url: string;
  readonly secret: string;
  readonly events?: readonly string[];
}

/** The scopes that a server's token needs to report on pull requests. */
export const reporterScopes = ["write:repository", "write:issue", "read:user"] as const;

export interface GiteaClient {
  createOrganization(name: string): Promise<void>;
  /** Creates an empty repository, public by default. */
  createRepository(owner: string, name: string, options?: { private?: boolean }): Promise<GiteaRepository>;
  /** Creates an account that may write to the repository, and a token limited to these scopes. */
  createCollaborator(repository: GiteaRepository, name: string, scopes: readonly string[]): Promise<GiteaLogin>;
  /** Returns the id of the webhook. */
  registerWebhook(repository: GiteaRepository, webhook: GiteaWebhook): Promise<number>;
  /** Any other API call; throws with the host's answer unless the status is 2xx. */
  call<T = unknown>(method: string, path: string, body?: object): Promise<T>;
}

export function createGiteaClient({ url, user, token }: GiteaLogin): GiteaClient {
  const call = <T>(method: string, path: string, body?: object) => ask<T>(`token ${token}`, method, path, body);

  async function ask<T>(authorization: string, method: string, path: string, body?: object): Promise<T> {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization, "content-type": "application/json" },
      signal: AbortSignal.timeout(30_000),
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`Gitea answered ${response.status} to ${method} ${path}: ${text.slice(0, 300)}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  const pathOf = ({ owner, name }: GiteaRepository) => `/repos/${owner}/${name}`;
  return {
    call,
    async createOrganization(name) {
      await call("POST", "/orgs", { username: name });
    },
    async createRepository(owner, name, options = {}) {
      const path = owner === user ? "/user/repos" : `/orgs/${owner}/repos`;
      const { clone_url } = await call<{ clone_url: string }>("POST", path, {
        name,
        private: options.private ?? false,
        default_branch: "main",
      });
      const push = new URL(clone_url);
      push.username = user;
      push.password = token;
      return { owner, name, cloneUrl: clone_url, pushUrl: push.href };
    },
    async createCollaborator(repository, name, scopes) {
      const password = randomBytes(18).toString("base64url");
      const account = { username: name, email: `${name}@example.com`, password, must_change_password: false };
      await call("POST", "/admin/users", account);
      await call("PUT", `${pathOf(repository)}/collaborators/${name}`, { permission: "write" });
      // Gitea lets an account create tokens only for itself, and only with its password.
      const basic = `Basic ${Buffer.from(`${name}:${password}`).toString("base64")}`;
      const { sha1 } = await ask<{ sha1: string }>(basic, "POST", `/users/${name}/tokens`, { name: "api", scopes });
      return { url, user: name, token: sha1 };
    },
    async registerWebhook(repository, { url: target, secret, events = ["push", "create", "delete"] }) {
      const config = { url: target, secret, content_type: "json" };
      const hook = { type: "gitea", active: true, events, branch_filter: "*", config };
      const { id } = await call<{ id: number }>("POST", `${pathOf(repository)}/hooks`, hook);
      return id;
    },
  };
}
