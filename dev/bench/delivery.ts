/** What a Gitea sends when a branch moved, signed; for git hosts that have no webhooks. */
import { createHmac } from "node:crypto";

export interface Delivery {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Pushed {
  readonly url: string;
  readonly commit: string;
  /** Changed files; none: the host does not say which. */
  readonly paths: readonly string[];
  /** The body is made this long by what the commit's message says. */
  readonly bytes?: number;
}

/** All but `x-gitea-delivery`, which is another one each time and not signed. */
export function createDelivery({ url, commit, paths, bytes = 0 }: Pushed, secret: string): Delivery {
  const write = (message: string) =>
    JSON.stringify({
      ref: "refs/heads/main",
      before: "1".repeat(40),
      after: commit,
      total_commits: 1,
      commits: [{ id: commit, message, added: [], modified: paths, removed: [] }],
      repository: { full_name: "bench/project", clone_url: url, html_url: url, default_branch: "main" },
    });
  const body = write("x".repeat(Math.max(0, bytes - write("").length)));
  const headers = {
    "content-type": "application/json",
    "x-gitea-event": "push",
    "x-gitea-signature": createHmac("sha256", secret).update(body).digest("hex"),
  };
  return { body, headers };
}
