/** Whose login a forge's is: asked at the start, so that a wrong one is known before somebody needs it. */
import { ConfigError } from "../errors.ts";
import { findGiteaUser } from "./gitea/account.ts";
import type { Logger } from "../log.ts";
import type { ForgeLogin } from "./forge-options.ts";
import { findGithubApp, findGithubUser } from "./github/account.ts";
import type { ForgeKind } from "./webhook-source.ts";

const githubApi = "https://api.github.com";

export interface AccountOptions {
  readonly kind: ForgeKind;
  /** Base URL of the API; absent: the host's public service. */
  readonly apiUrl?: string | undefined;
  readonly login: ForgeLogin;
  readonly log: Logger;
}

/** The account's name. Throws an Error that says what is wrong with the login or the address, and holds neither a token nor a body. */
export async function findAccount({ kind, apiUrl, login, log }: AccountOptions): Promise<string> {
  if ("app" in login) return findGithubApp(apiUrl ?? githubApi, login.app, log);
  const { token } = login;
  switch (kind) {
    case "github":
      return findGithubUser(apiUrl ?? githubApi, token);
    case "gitlab": {
      // 20 MB of client library, which only those pay for who have a GitLab.
      const { findGitlabUser } = await import("./gitlab/account.ts");
      return findGitlabUser(apiUrl ?? "https://gitlab.com/api/v4", token);
    }
    case "gitea":
      if (apiUrl === undefined) throw new ConfigError("a Gitea token needs the URL of the API (apiUrl)");
      return findGiteaUser(apiUrl, token);
  }
}
