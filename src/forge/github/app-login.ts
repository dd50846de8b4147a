/** A GitHub App's login: one token per repository where it is installed, valid for nothing else. */
import type { z } from "zod";
import { createBoundedMap } from "../../kit/bounded-map.ts";
import { appAnswer, installationAnswer, installationTokenAnswer } from "./answers.ts";
import { type GithubLogin, type Permission, type Repo, isProblem, read } from "./login.ts";
import { type RequestDescription, problemOf } from "./problem.ts";
import type { Wire } from "./wire.ts";

/** Tokens live for an hour; a slow request should not outlive its token. */
const renewEarlyMs = 5 * 60_000;
/** More repositories than one server manages; a dropped entry is requested again. */
const maxKept = 2_000;

/** How long an App's permissions are believed, after which a grant takes effect without a restart. */
const permissionsLifetimeMs = 10 * 60_000;

type App = z.infer<typeof appAnswer>;
type Permissions = z.infer<typeof installationAnswer>["permissions"];

interface Token {
  readonly authorization: string;
  /** Epoch milliseconds of our clock. */
  readonly renewAt: number;
}

/**
 * `wire` sends requests as the App itself. octokit's own store of installation tokens is not used: it distinguishes
 * pending requests only by installation and repository, so of two Apps on two hosts with the same numbers one could
 * receive the other's token, and it does not check when tokens expire.
 */
export function createAppLogin(wire: Wire): GithubLogin {
  const installations = createBoundedMap<number>({ entries: maxKept });
  const permissions = createBoundedMap<Permissions>({ entries: maxKept, maxAgeMs: permissionsLifetimeMs });
  const tokens = createBoundedMap<Token>({ entries: maxKept });
  let self: App | undefined;

  async function authorize(repo: Repo, permission: Permission, what: string, signal?: AbortSignal): Promise<string> {
    const key = tokenKey(repo, permission);
    const kept = tokens.get(key);
    if (kept !== undefined && Date.now() < kept.renewAt) return kept.authorization;
    const token = await makeToken(repo, permission, { what, who: "the App" }, signal);
    tokens.set(key, token);
    return token.authorization;
  }

  async function makeToken(
    repo: Repo,
    permission: Permission,
    question: RequestDescription,
    signal: AbortSignal | undefined,
  ): Promise<Token> {
    const known = installations.get(nameOf(repo));
    const installation_id = known ?? (await findInstallation(repo, question, signal)).id;
    const wanted = { installation_id, repositories: [repo.repo], permissions: { [permission]: "write" } };
    const askedAt = Date.now();
    try {
      const answer = await wire.request(
        "POST /app/installations/{installation_id}/access_tokens",
        wanted,
        question,
        signal,
      );
      const { token, expires_at } = read(installationTokenAnswer, answer, question);
      installations.set(nameOf(repo), installation_id);
      // The token's lifetime by GitHub's clock, added to the time of ours.
      const lifeMs = Date.parse(expires_at) - (Date.parse(String(answer.headers["date"])) || askedAt);
      return { authorization: `Bearer ${token}`, renewAt: askedAt + lifeMs - renewEarlyMs };
    } catch (error) {
      if (!isProblem(error, "not-found", "refused")) throw error;
      // The known installation is outdated: the App was reinstalled, or removed from this repository.
      // Another request may have noticed it, and removed it, first.
      if (known !== undefined) {
        if (installations.get(nameOf(repo)) === known) installations.delete(nameOf(repo));
        return makeToken(repo, permission, question, signal);
      }
      if (error.problem === "not-found") throw error;
      const why = `the App lacks the permission to write ${permission.replace("_", " ")}: grant it to the App, and accept the change where the App is installed`;
      throw problemOf("unauthorized", question, why, error);
    }
  }

  async function findInstallation(repo: Repo, question: RequestDescription, signal?: AbortSignal) {
    try {
      const answer = await wire.request("GET /repos/{owner}/{repo}/installation", { ...repo }, question, signal);
      const found = read(installationAnswer, answer, question);
      permissions.set(nameOf(repo), found.permissions);
      return found;
    } catch (error) {
      throw isProblem(error, "not-found") ? await explainAbsence(repo, question, signal) : error;
    }
  }

  /** GitHub gives the same answer for a repository that does not exist and one without the App. */
  async function explainAbsence(repo: Repo, question: RequestDescription, signal?: AbortSignal): Promise<Error> {
    const name = `${repo.owner}/${repo.repo}`;
    try {
      const answer = await wire.request(
        "GET /users/{username}/installation",
        { username: repo.owner },
        question,
        signal,
      );
      const { html_url, repository_selection } = read(installationAnswer, answer, question);
      if (repository_selection === "all") return problemOf("not-found", question, `there is no repository ${name}`);
      return problemOf("unauthorized", question, `the App is not installed on ${name}: select it at ${html_url}`);
    } catch (error) {
      if (!isProblem(error, "not-found")) throw error;
    }
    const { slug, html_url } = await askSelf(question, signal);
    const where = `${html_url}/installations/new`;
    return problemOf("unauthorized", question, `the App ${slug} is not installed on ${name}: install it at ${where}`);
  }

  async function askSelf(question: RequestDescription, signal?: AbortSignal): Promise<App> {
    self ??= read(appAnswer, await wire.request("GET /app", {}, question, signal), question);
    return self;
  }

  return {
    who: "the App",
    app: {
      id: async (what, signal) => (await askSelf({ what, who: "the App" }, signal)).id,
      async mayWrite(repo, permission, what, { fresh, signal }) {
        const known = fresh ? undefined : permissions.get(nameOf(repo));
        const granted = known ?? (await findInstallation(repo, { what, who: "the App" }, signal)).permissions;
        return granted[permission] === "write";
      },
    },
    authorize,
    forget: (repo, permission) => tokens.delete(tokenKey(repo, permission)),
    async ownership(what, signal) {
      const { id, slug } = await askSelf({ what, who: "the App" }, signal);
      // A user may write through the App as well, but not as its bot. The bot's name follows the App's; the id stays.
      return ({ user, performed_via_github_app: via }) =>
        user?.type === "Bot" && (user.login === `${slug}[bot]` || via?.id === id);
    },
  };
}

function nameOf({ owner, repo }: Repo): string {
  return `${owner}/${repo}`.toLowerCase();
}

function tokenKey(repo: Repo, permission: Permission): string {
  return `${nameOf(repo)} ${permission}`;
}
