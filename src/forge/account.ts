/** Finds the account behind a forge's login, so that an invalid login is reported before it is needed. */
import type { ForgeAccount, ForgeKind } from "../model.ts";
import { ConfigError } from "../errors.ts";
import { findGiteaUser } from "./gitea/account.ts";
import type { Logger } from "../log.ts";
import type { ForgeLogin } from "./forge-options.ts";
import { findGithubApp, findGithubUser } from "./github/account.ts";

const githubApi = "https://api.github.com";

export interface AccountOptions {
  readonly kind: ForgeKind;
  /** Base URL of the API; default: the host's public service. */
  readonly apiUrl?: string | undefined;
  readonly login: ForgeLogin;
  readonly log: Logger;
}

/**
 * Throws an Error that says what is wrong with the login or the address, and contains neither a token nor a body: a
 * ForgeError `unauthorized` if the host rejects the login.
 */
export async function findAccount({ kind, apiUrl, login, log }: AccountOptions): Promise<ForgeAccount> {
  if ("app" in login) return { name: await findGithubApp(apiUrl ?? githubApi, login.app, log) };
  const { token } = login;
  switch (kind) {
    case "github":
      return findGithubUser(apiUrl ?? githubApi, token);
    case "gitlab": {
      // 20 MB of client library: loaded only on servers with a GitLab.
      const { findGitlabUser } = await import("./gitlab/account.ts");
      return findGitlabUser(apiUrl ?? "https://gitlab.com/api/v4", token);
    }
    case "gitea":
      if (apiUrl === undefined) throw new ConfigError("a Gitea token needs the URL of the API (apiUrl)");
      return findGiteaUser(apiUrl, token);
  }
}
