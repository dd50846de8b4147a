/** Signed deliveries in Gitea's format, for git hosts without webhooks and for deliveries that are to be lost. */
import { createHmac } from "node:crypto";

export interface Delivery {
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Pushed {
  readonly url: string;
  readonly commit: string;
  /** Changed files; empty means that the host does not list them. */
  readonly paths: readonly string[];
  /** `owner/name`, as the git host names the repository. */
  readonly repoName?: string;
  /** Length of the body, reached by padding the commit message. */
  readonly bytes?: number;
}

/** Everything except `x-gitea-delivery`, which differs each time and is not signed. */
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

/** Creates the delivery about a deleted branch. */
export function createDeleteDelivery(
  { url, repoName = "bench/project" }: Omit<Pushed, "commit" | "paths">,
  secret: string,
) {
  const body = JSON.stringify({ ref: "main", ref_type: "branch", repository: toRepository(url, repoName) });
  return sign("delete", body, secret);
}

export interface ProposalEvent {
  readonly url: string;
  readonly repoName: string;
  /** In Gitea's terms: `opened`, `synchronized`, `edited`, `closed`, `reopened`. */
  readonly action: string;
  readonly number: number;
  /** As the git host's API describes it. */
  readonly pullRequest: object;
}

/** Creates Gitea's delivery for a pull request event; `edited` means another base branch here. */
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
