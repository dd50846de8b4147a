/** How many requests a host still takes, as its answers tell: GitHub's headers, and GitLab's. A Gitea has none. */

export interface RateLimit {
  readonly remaining: number;
  readonly limit: number | undefined;
}

export function findRateLimit(headers: Headers): RateLimit | undefined {
  const remaining = countOf(headers.get("x-ratelimit-remaining") ?? headers.get("ratelimit-remaining"));
  const limit = countOf(headers.get("x-ratelimit-limit") ?? headers.get("ratelimit-limit"));
  return remaining === undefined ? undefined : { remaining, limit };
}

function countOf(text: string | null): number | undefined {
  return text !== null && /^\d{1,9}$/.test(text.trim()) ? Number(text) : undefined;
}
