/** The git host of an episode: bare repositories behind git's own server, or Gitea for episodes with pull requests. */
import { cp } from "node:fs/promises";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { promisify } from "node:util";
import { startGitHttp } from "../parts/git-http.ts";
import type { GiteaLogin } from "../parts/gitea.ts";
import { createGiteaClient, type GiteaClient, reporterScopes } from "../parts/gitea-client.ts";
import { gitEnvironment } from "../parts/work-copy.ts";

export interface GitHost {
  readonly port: number;
  /** The path in front of a repository's name. */
  readonly prefix: string;
  /** Creates a repository and returns the URL to push to. */
  createRepository(name: string): Promise<string>;
  /**
   * With `true`, servers keep reading the present state until it is called with `false`, as from a lagging replica; not
   * every host supports it.
   */
  lag?(on: boolean): Promise<void>;
  /** Set for episodes with pull requests. */
  readonly gitea?: EpisodeGitea | undefined;
  stop(): Promise<void>;
}

export interface EpisodeGitea {
  readonly url: string;
  readonly organization: string;
  /** Calls the API with the rights of an administrator. */
  readonly call: GiteaClient["call"];
  /** The account that writes the comments. */
  readonly bot: string;
  /** The current token of that account. */
  token(): string;
  /** Creates a new token and revokes the previous one. */
  rotateToken(): Promise<void>;
}

const run = promisify(execFile);

export async function startBareHost(dir: string): Promise<GitHost> {
  const bare = join(dir, "bare");
  const host = await startGitHttp({ root: bare });
  let lags = 0;
  return {
    port: Number(new URL(host.url).port),
    prefix: "",
    async createRepository(name) {
      const remote = await host.createRepository(name);
      // By default git refuses to delete the branch that HEAD names, which is the only one here.
      await run("git", ["-C", join(bare, `${name}.git`), "config", "receive.denyDeleteCurrent", "ignore"], {
        env: gitEnvironment,
      });
      return remote;
    },
    async lag(on) {
      if (!on) return host.readFrom(undefined);
      const before = join(dir, `bare-as-it-was-${++lags}`);
      await cp(bare, before, { recursive: true });
      host.readFrom(before);
    },
    stop: () => host.stop(),
  };
}

/** Creates an organization of the episode's own on that Gitea. */
export async function useGiteaHost(login: GiteaLogin, organization: string): Promise<GitHost> {
  const client = createGiteaClient(login);
  await client.createOrganization(organization);
  const bot = `${organization}-bot`;
  const password = randomBytes(18).toString("base64url");
  const account = { username: bot, email: `${bot}@example.com`, password, must_change_password: false };
  await client.call("POST", "/admin/users", account);
  const names: string[] = [];
  let tokens = 0;
  let token = await createToken();

  /** Gitea lets an account create tokens only for itself, and only with its password. */
  async function asBot<T>(method: string, path: string, body?: object): Promise<T> {
    const response = await fetch(`${login.url}/api/v1/users/${bot}/tokens${path}`, {
      method,
      headers: {
        authorization: `Basic ${Buffer.from(`${bot}:${password}`).toString("base64")}`,
        "content-type": "application/json",
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`Gitea answered ${response.status} to ${method} of a token: ${text}`);
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  async function createToken(): Promise<string> {
    const name = `token-${++tokens}`;
    return (await asBot<{ sha1: string }>("POST", "", { name, scopes: reporterScopes })).sha1;
  }

  return {
    port: Number(new URL(login.url).port),
    prefix: `${organization}/`,
    async createRepository(name) {
      await client.createRepository(organization, name);
      names.push(name);
      await client.call("PUT", `/repos/${organization}/${name}/collaborators/${bot}`, { permission: "write" });
      const remote = new URL(`${login.url}/${organization}/${name}.git`);
      [remote.username, remote.password] = [login.user, login.token];
      return remote.href;
    },
    gitea: {
      url: login.url,
      organization,
      call: client.call,
      bot,
      token: () => token,
      async rotateToken() {
        const before = `token-${tokens}`;
        token = await createToken();
        await asBot("DELETE", `/${before}`);
      },
    },
    async stop() {
      for (const name of names) await client.call("DELETE", `/repos/${organization}/${name}`);
      await client.call("DELETE", `/orgs/${organization}`);
      await client.call("DELETE", `/admin/users/${bot}?purge=true`);
    },
  };
}

/** A base branch for pull requests that no deployment follows. */
export const otherBranch = "stable";
