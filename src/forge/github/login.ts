/** The identity that requests use, and how to recognize its own comments. */
import type { z } from "zod";
import { ForgeError } from "../../errors.ts";
import { readAnswer } from "../ask.ts";
import { type CommentAnswer, userAnswer } from "./answers.ts";
import { type GithubAnswer, type RequestDescription, type Who, problemOf } from "./problem.ts";
import type { Wire } from "./wire.ts";

/** The permission that a request needs, in GitHub's terms; always with write access. */
export type Permission = "pull_requests" | "statuses" | "checks" | "deployments" | "repository_hooks";

export interface Repo {
  readonly owner: string;
  readonly repo: string;
}

/** What an App knows about itself. All methods throw ForgeError. */
export interface AppIdentity {
  id(what: string, signal?: AbortSignal): Promise<number>;
  /** Whether the owner of the repository granted write access; some minutes old, except if `fresh`. */
  mayWrite(
    repo: Repo,
    permission: Permission,
    what: string,
    options: { readonly fresh: boolean; readonly signal: AbortSignal | undefined },
  ): Promise<boolean>;
}

export interface GithubLogin {
  readonly who: Who;
  /** Absent for tokens, whose permissions GitHub does not report. */
  readonly app?: AppIdentity | undefined;
  /** Returns the `Authorization` header for requests to one repository. */
  authorize(repo: Repo, permission: Permission, what: string, signal?: AbortSignal): Promise<string>;
  /** Drops a refused token. Returns true if another token can be obtained. */
  forget(repo: Repo, permission: Permission): boolean;
  /** Resolves to a predicate that recognizes the login's own comments. */
  ownership(what: string, signal?: AbortSignal): Promise<(comment: CommentAnswer) => boolean>;
}

/** Characters that are safe in any header. */
const visible = /^[\x21-\x7e]+$/;

export function createTokenLogin(token: string, wire: Wire): GithubLogin {
  let own: number | undefined;

  function authorization(what: string): string {
    // The error of an invalid header would quote the token.
    if (visible.test(token)) return `Bearer ${token}`;
    const why = "the configured token contains a space, a line break or another character that is not valid in a token";
    throw problemOf("unauthorized", { what, who: "the token" }, why);
  }

  return {
    who: "the token",
    authorize: async (_repo, _permission, what) => authorization(what),
    forget: () => false,
    async ownership(what, signal) {
      if (own === undefined) {
        const question = { what, who: "the token" } as const;
        const answer = await wire.request(
          "GET /user",
          { headers: { authorization: authorization(what) } },
          question,
          signal,
        );
        own = read(userAnswer, answer, question).id;
      }
      const id = own;
      return ({ user }) => user?.id === id;
    },
  };
}

/** Parses a response. Throws ForgeError if GitHub could not have sent it. */
export function read<T extends z.ZodType>(
  type: T,
  { data: json }: GithubAnswer,
  { what }: RequestDescription,
): z.infer<T> {
  return readAnswer(type, { json, request: `GitHub: cannot ${what}` });
}

export function isProblem(error: unknown, ...problems: readonly ForgeError["problem"][]): error is ForgeError {
  return error instanceof ForgeError && problems.includes(error.problem);
}
