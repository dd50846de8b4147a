/** Classifies the error responses and failures of all forges. */
import { ForgeError } from "../errors.ts";
import { parseRetryAfter } from "../kit/http-failure.ts";

export interface FailedAnswer {
  readonly status: number;
  readonly headers: Headers;
}

/** Longer waits than this are a mistake of the host or of a clock. */
const longestWaitMs = 24 * 3_600_000;

/**
 * `request` names the request and the host: `GET /user at gitea.example.com`. `hint` says what the login needs, and
 * `said` is the host's own message, if it can be shown.
 */
export function toForgeError(
  { status, headers }: FailedAnswer,
  request: string,
  { hint, said }: { hint: string; said?: string | undefined },
): ForgeError {
  const words = said === undefined ? "" : `: ${said}`;
  const retryAfterMs = findRetryAfterMs(headers, Date.now());
  const spent = headers.get("x-ratelimit-remaining") === "0" || headers.has("retry-after");
  if (status === 429 || (status === 403 && spent)) {
    return new ForgeError("rate-limited", `${request}: too many requests (${status})`, { retryAfterMs });
  }
  if (status === 401) {
    const text = "the token was rejected (401): it is wrong, revoked or expired; create a new one and configure it";
    return new ForgeError("unauthorized", `${request}: ${text}`);
  }
  if (status === 403) return new ForgeError("unauthorized", `${request}: forbidden (403)${words}: ${hint}`);
  if (status === 404 || status === 410) {
    return new ForgeError(
      "not-found",
      `${request}: not found (${status}), or not visible to the token's account: ${hint}`,
    );
  }
  if (status >= 300 && status < 400) {
    const text = "is redirected, which is not followed: check apiUrl and the current name of the repository";
    return new ForgeError("refused", `${request}: ${text}`);
  }
  if (status === 423) return new ForgeError("refused", `${request}: locked (423): is the repository archived?`);
  // 408 and 5xx: the network or the host failed. 409: a concurrent change of the same thing.
  if (status >= 500 || status === 408 || status === 409) {
    return new ForgeError("unreachable", `${request}: response status ${status}`, { retryAfterMs });
  }
  return new ForgeError("refused", `${request}: rejected (${status})${words}`);
}

/** Reads `Retry-After` (seconds or a date), or else when the limit resets (GitHub's and GitLab's headers). */
export function findRetryAfterMs(headers: Headers, now: number): number | undefined {
  const asked = parseRetryAfter(headers, now);
  if (asked !== undefined) return bounded(asked);
  const reset = headers.get("x-ratelimit-reset") ?? headers.get("ratelimit-reset") ?? "";
  return /^\d{9,11}$/.test(reset) ? bounded(Number(reset) * 1_000 - now) : undefined;
}

function bounded(ms: number): number {
  return Math.min(Math.max(ms, 0), longestWaitMs);
}
