/** As whom requests are made, and which comments are one's own then. */
import type { z } from "zod";
import { ForgeError } from "../../errors.ts";
import { readAnswer } from "../ask.ts";
import { type CommentAnswer, userAnswer } from "./answers.ts";
import { type Answer, type Question, type Who, problemOf } from "./problem.ts";
import type { Wire } from "./wire.ts";

/** What a request needs to be allowed, in GitHub's words. It always wants to write. */
export type Permission = "pull_requests" | "statuses" | "repository_hooks";

export interface Repo {
  readonly owner: string;
  readonly repo: string;
}

export interface Login {
  readonly who: Who;
  /** The value of `Authorization` for requests on one repository. */
  authorize(repo: Repo, permission: Permission, what: string, signal?: AbortSignal): Promise<string>;
  /** GitHub refused it. True if there is another one to be had. */
  forget(repo: Repo, permission: Permission): boolean;
  /** Tells the login's own comments from all others. */
  ownership(what: string, signal?: AbortSignal): Promise<(comment: CommentAnswer) => boolean>;
}

/** What a header can hold without a doubt. */
const visible = /^[\x21-\x7e]+$/;

export function createTokenLogin(token: string, wire: Wire): Login {
  let own: number | undefined;

  function authorization(what: string): string {
    // What cannot stand in a header would be quoted by the error that says so.
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

/** What the answer says. Throws ForgeError where it is not one of GitHub's. */
export function read<T extends z.ZodType>(type: T, { data: json }: Answer, { what }: Question): z.infer<T> {
  return readAnswer(type, { json, request: `GitHub: cannot ${what}` });
}

export function isProblem(error: unknown, ...problems: readonly ForgeError["problem"][]): error is ForgeError {
  return error instanceof ForgeError && problems.includes(error.problem);
}
