/** A host's remaining rate limit, from the headers of GitHub and GitLab. Gitea sends none. */

export interface RateLimit {
  readonly remaining: number;
  readonly limit: number | undefined;
  /** When the current period ends; epoch milliseconds. */
  readonly resetAt: number | undefined;
}

export function findRateLimit(headers: Headers): RateLimit | undefined {
  const remaining = countOf(headers.get("x-ratelimit-remaining") ?? headers.get("ratelimit-remaining"));
  const limit = countOf(headers.get("x-ratelimit-limit") ?? headers.get("ratelimit-limit"));
  const reset = countOf(headers.get("x-ratelimit-reset") ?? headers.get("ratelimit-reset"));
  const resetAt = reset === undefined ? undefined : reset * 1_000;
  return remaining === undefined ? undefined : { remaining, limit, resetAt };
}

function countOf(text: string | null): number | undefined {
  return text !== null && /^\d{1,10}$/.test(text.trim()) ? Number(text) : undefined;
}
