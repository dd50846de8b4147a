/** What a Gitea sends, signed; for git hosts that have no webhooks, and where they are to get lost. */
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
  /** As the host knows it: `owner/name`. */
  readonly repoName?: string;
  /** The body is made this long by what the commit's message says. */
  readonly bytes?: number;
}

/** All but `x-gitea-delivery`, which is another one each time and not signed. */
export function createDelivery(
  { url, commit, paths, repoName = "bench/project", bytes = 0 }: Pushed,
  secret: string,
): Delivery {
  const write = (message: string) =>
    JSON.stringify({
      ref: "refs/heads/main",
      before: "1".repeat(40),
      after: commit,
      total_commits: 1,
      commits: [{ id: commit, message, added: [], modified: paths, removed: [] }],
      repository: toRepository(url, repoName),
    });
  return sign("push", write("x".repeat(Math.max(0, bytes - write("").length))), secret);
}

export interface ProposalEvent {
  readonly url: string;
  readonly repoName: string;
  /** As the host calls it: `opened`, `synchronized`, `edited`, `closed`, `reopened`. */
  readonly action: string;
  readonly number: number;
  /** As the host's API describes it. */
  readonly pullRequest: object;
}

/** What a Gitea sends when something happened to a pull request; one that is edited has another base branch. */
export function createPullRequestDelivery(event: ProposalEvent, secret: string): Delivery {
  const { url, repoName, action, number, pullRequest } = event;
  const body = JSON.stringify({
    action,
    number,
    pull_request: pullRequest,
    ...(action === "edited" && { changes: { ref: { from: "main" } } }),
    repository: toRepository(url, repoName),
  });
  return sign("pull_request", body, secret);
}

function toRepository(url: string, repoName: string): object {
  return { full_name: repoName, clone_url: url, html_url: url, default_branch: "main" };
}

function sign(event: string, body: string, secret: string): Delivery {
  const headers = {
    "content-type": "application/json",
    "x-gitea-event": event,
    "x-gitea-signature": createHmac("sha256", secret).update(body).digest("hex"),
  };
  return { body, headers };
}
