/** Whose login a forge's token is: asked at the start, so that a wrong token is known before somebody needs it. */
import { ConfigError } from "../errors.ts";
import { findGiteaUser } from "./gitea/account.ts";
import { findGithubUser } from "./github/account.ts";
import type { ForgeKind } from "./webhook-source.ts";

export interface AccountOptions {
  readonly kind: ForgeKind;
  /** Base URL of the API; absent: the host's public service. */
  readonly apiUrl?: string | undefined;
  readonly token: string;
}

/** The user's name. Throws an Error that says what is wrong with the token or the address, and holds neither a token nor a body. */
export async function findAccount({ kind, apiUrl, token }: AccountOptions): Promise<string> {
  switch (kind) {
    case "github":
      return findGithubUser(apiUrl ?? "https://api.github.com", token);
    case "gitlab": {
      // 20 MB of client library, which only those pay for who have a GitLab.
      const { findGitlabUser } = await import("./gitlab/account.ts");
      return findGitlabUser(apiUrl ?? "https://gitlab.com/api/v4", token);
    }
    case "gitea":
      if (apiUrl === undefined) throw new ConfigError("a token of a Gitea needs the address of its API (apiUrl)");
      return findGiteaUser(apiUrl, token);
  }
}
