/** Translates GitHub's error responses to ForgeError. Pure. */
import { z } from "zod";
import { ForgeError } from "../../errors.ts";
import { findRetryAfterMs } from "../forge-failure.ts";

export interface GithubAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | number | undefined>>;
  readonly data?: unknown;
}

/** Names the request, for messages. */
export interface RequestDescription {
  /** For example `write a comment on org/repo#7`. */
  readonly what: string;
  readonly who: Who;
}

/** The login that the request used. */
export type Who = "the token" | "the App";

/** What to do if a login is not accepted at all. */
const unaccepted: Readonly<Record<Who, string>> = {
  "the token": "the token was rejected: it is wrong, revoked or expired",
  "the App": "the App's login was rejected: compare its id and private key with those at GitHub",
};

/** If GitHub does not say how long to wait: it extends the lockout of clients that retry within a minute. */
const defaultWaitMs = 60_000;

export function problemOf(
  problem: ForgeError["problem"],
  { what }: RequestDescription,
  why: string,
  cause?: unknown,
): ForgeError {
  return new ForgeError(problem, `GitHub: cannot ${what}: ${why}`, cause === undefined ? {} : { cause });
}

export function toForgeError(answer: GithubAnswer, { what, who }: RequestDescription): ForgeError {
  const { status, headers } = answer;
  const said = whatItSaid(answer.data);
  const request = headers["x-github-request-id"];
  const proof = isPlain(request) ? `${status}, request ${request}` : `${status}`;
  const fail = (problem: ForgeError["problem"], why: string, retryAfterMs?: number) =>
    new ForgeError(problem, `GitHub: cannot ${what}: ${why} (${proof})`, { retryAfterMs });

  const waitMs = rateLimitMs(answer, said);
  if (waitMs !== undefined) {
    return fail("rate-limited", `rate limit of ${who} exceeded; retry in ${Math.ceil(waitMs / 1_000)} s`, waitMs);
  }
  if (status >= 300 && status < 400) {
    return fail(
      "refused",
      "it moved to another URL: was the repository renamed or transferred? Use its new URL in spec.source.git.url",
    );
  }
  if (status >= 500 || status === 408 || status === 409) return fail("unreachable", "GitHub has a temporary failure");
  switch (status) {
    case 401:
      return fail("unauthorized", unaccepted[who]);
    case 403:
      return fail(...explainForbidden(answer, said, who));
    case 404:
      return fail("not-found", `not found, or ${who} lacks the permission${neededPermissions(answer)}`);
    case 410:
      return fail("refused", "it is no longer there: the pull request was deleted, or its comments are disabled");
    case 422:
      return fail(...explainInvalid(said));
    default:
      return fail("refused", repeated(said));
  }
}

type Explanation = readonly [problem: ForgeError["problem"], why: string];

function explainForbidden(answer: GithubAnswer, said: string, who: string): Explanation {
  if (/\blocked\b/i.test(said)) {
    return ["refused", `the conversation is locked: unlock it, or grant ${who} write access to the repository`];
  }
  if (/\barchived\b/i.test(said)) return ["refused", "the repository is archived and read-only"];
  if (answer.headers["x-github-sso"] !== undefined) {
    return ["unauthorized", `${who} must be authorized for the organization's single sign-on`];
  }
  return ["unauthorized", `${who} lacks the permission${neededPermissions(answer)}: ${repeated(said)}`];
}

function explainInvalid(said: string): Explanation {
  if (/maximum number of statuses/i.test(said)) {
    return ["refused", "the commit already has 1000 statuses of this name, GitHub's limit"];
  }
  if (/no commit found/i.test(said)) return ["not-found", "GitHub does not have this commit"];
  return ["refused", repeated(said)];
}

/** GitHub lists the permissions that would suffice. */
function neededPermissions({ headers }: GithubAnswer): string {
  const accepted = headers["x-accepted-github-permissions"];
  if (typeof accepted !== "string" || !/^[\w =;,-]{1,200}$/.test(accepted)) return "";
  return ` (it needs ${accepted.replaceAll("; ", " or ")})`;
}

/** Whether it looks like an identifier and therefore cannot be misread in a message. */
function isPlain(value: unknown): value is string {
  return typeof value === "string" && /^[\w:.-]{1,100}$/.test(value);
}

/**
 * Returns how long GitHub requires us to wait; `undefined` if this is not a rate limit. Times are compared with the
 * response's own date, so that a wrong local clock does no harm.
 */
function rateLimitMs(answer: GithubAnswer, said: string): number | undefined {
  if (answer.status !== 403 && answer.status !== 429) return undefined;
  const headers = new Headers(Object.entries(answer.headers).map(([name, value]) => [name, String(value)]));
  const used = headers.get("x-ratelimit-remaining") === "0";
  // Every response has this time. It only matters once the quota is used up, not for secondary limits.
  if (!used) headers.delete("x-ratelimit-reset");
  const isRateLimited = used || headers.has("retry-after") || /secondary rate limit|abuse detection/i.test(said);
  if (answer.status === 403 && !isRateLimited) return undefined;
  const now = Date.parse(headers.get("date") ?? "") || Date.now();
  return Math.max(findRetryAfterMs(headers, now) ?? defaultWaitMs, 1_000);
}

const Said = z.object({
  message: z.string(),
  errors: z
    .array(z.union([z.string(), z.object({ message: z.string() }).transform(({ message }) => message)]).catch(""))
    .catch([]),
});

/** Returns GitHub's own message, or `""`. It may also come from a proxy in front of GitHub. */
function whatItSaid(data: unknown): string {
  const said = Said.safeParse(data);
  if (!said.success) return "";
  return [said.data.message, ...said.data.errors].filter((part) => part !== "").join(": ");
}

/**
 * Shortens GitHub's message for users, and removes anything that could be a token, in case the message echoes the
 * request.
 */
function repeated(said: string): string {
  if (said === "") return "GitHub gave no reason";
  if (/[\w+/=-]{30,}/.test(said))
    return "GitHub's reason is not shown, because it may contain a secret; send the same request by hand to see it";
  return JSON.stringify(said.slice(0, 300));
}
