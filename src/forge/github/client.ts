/** Requests for one repository, with the login they need. */
import type { z } from "zod";
import type { CommentAnswer } from "./answers.ts";
import { type GithubLogin, type Permission, type Repo, isProblem, read } from "./login.ts";
import { type GithubAnswer, type RequestDescription, problemOf } from "./problem.ts";
import type { Parameters, Wire } from "./wire.ts";

export interface GithubCall {
  /** For example `write a comment on org/repo#7`. */
  readonly what: string;
  readonly repoName: string;
  readonly permission: Permission;
  readonly signal: AbortSignal | undefined;
}

export interface Client {
  ask(route: string, parameters: Parameters, call: GithubCall): Promise<GithubAnswer>;
  /** Resolves to `undefined` on 404. */
  find(route: string, parameters: Parameters, call: GithubCall): Promise<GithubAnswer | undefined>;
  read<T extends z.ZodType>(type: T, answer: GithubAnswer, call: GithubCall): z.infer<T>;
  ownership(call: GithubCall): Promise<(comment: CommentAnswer) => boolean>;
  /** The login as an App; absent for tokens. */
  readonly app?: AppClient | undefined;
}

export interface AppClient {
  id(call: GithubCall): Promise<number>;
  /** Whether the App may write what the call writes. `fresh`: not as it was some minutes ago. */
  mayWrite(call: GithubCall, options?: { readonly fresh: boolean }): Promise<boolean>;
}

export function createClient(wire: Wire, login: GithubLogin): Client {
  const questionOf = ({ what }: GithubCall): RequestDescription => ({ what, who: login.who });

  async function ask(route: string, { headers, ...parameters }: Parameters, call: GithubCall): Promise<GithubAnswer> {
    const { what, permission, signal } = call;
    const repo = parseRepo(call, questionOf(call));
    const attempt = async () => {
      const authorization = await login.authorize(repo, permission, what, signal);
      const all = { ...repo, ...parameters, headers: { ...headers, authorization } };
      return wire.request(route, all, questionOf(call), signal);
    };
    try {
      return await attempt();
    } catch (error) {
      // A cached token may have been revoked, and lacks permissions that were granted after it was created.
      if (isProblem(error, "unauthorized") && login.forget(repo, permission)) return attempt();
      throw error;
    }
  }

  const { app } = login;
  return {
    ask,
    app: app && {
      id: ({ what, signal }) => app.id(what, signal),
      async mayWrite(call, { fresh } = { fresh: false }) {
        const { what, permission, signal } = call;
        return app.mayWrite(parseRepo(call, questionOf(call)), permission, what, { fresh, signal });
      },
    },
    async find(route, parameters, call) {
      try {
        return await ask(route, parameters, call);
      } catch (error) {
        if (isProblem(error, "not-found")) return undefined;
        throw error;
      }
    },
    read: (type, answer, call) => read(type, answer, questionOf(call)),
    ownership: ({ what, signal }) => login.ownership(what, signal),
  };
}

/** Only a valid repository name becomes part of a URL. */
function parseRepo({ repoName }: GithubCall, question: RequestDescription): Repo {
  const [, owner, repo] = /^([\w.-]+)\/([\w.-]+)$/.exec(repoName) ?? [];
  if (owner === undefined || repo === undefined || /^\.+$/.test(owner) || /^\.+$/.test(repo)) {
    throw problemOf("not-found", question, "a repository of GitHub has a name like `owner/name`");
  }
  return { owner, repo };
}
