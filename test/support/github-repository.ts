/** A repository of the local GitHub: the actions of its users, and its objects in GitHub's format. */
import { randomBytes } from "node:crypto";
import type { GithubDelivery } from "./github-delivery-routes.ts";
import type { OpenedPullRequest } from "./forge-host.ts";
import type { GithubDeployment } from "./github-deployments.ts";
import { githubExample } from "./github-openapi.ts";

export interface GithubUser {
  readonly id: number;
  readonly login: string;
  readonly type: "User" | "Bot";
}

interface Pull extends OpenedPullRequest {
  head: string;
  base: string;
  state: "open" | "closed";
  draft: boolean;
  mergedAt: string | null;
  /** The repository of its branch; `null` after that was deleted. */
  headRepo: number | null;
  updatedAt: string;
  locked: boolean;
}

interface Comment {
  readonly id: number;
  readonly number: number;
  readonly user: GithubUser;
  /** The App through which it was written. */
  readonly app: Readonly<Record<string, unknown>> | null;
  body: string;
}

interface Status {
  readonly sha: string;
  readonly context: string;
  readonly state: string;
  readonly description: string | null;
  readonly target_url: string | null;
}

export interface GithubAnnotation {
  readonly path: string;
  readonly start_line: number;
  readonly message: string;
  readonly title?: string;
}

export interface GithubCheckRun {
  readonly id: number;
  readonly sha: string;
  readonly name: string;
  /** The App that owns it. */
  readonly app: Readonly<Record<string, unknown>>;
  status: string;
  conclusion: string | null;
  details_url: string | null;
  title: string | null;
  summary: string | null;
  readonly annotations: GithubAnnotation[];
}

export interface GithubHook {
  readonly id: number;
  active: boolean;
  events: string[];
  config: Record<string, string | undefined>;
  /** Newest first. */
  deliveries?: GithubDelivery[];
}

export type GithubRepository = ReturnType<typeof createGithubRepository>;

const commitId = () => randomBytes(20).toString("hex");

export function createGithubRepository(webUrl: string, owner: string, name: string, now: () => number) {
  const { hostname } = new URL(webUrl);
  const fullName = `${owner}/${name}`;
  const id = randomBytes(4).readUInt32BE();
  const pulls = new Map<number, Pull>();
  const comments: Comment[] = [];
  const statuses: Status[] = [];
  const checkRuns: GithubCheckRun[] = [];
  const deployments: GithubDeployment[] = [];
  const commits = new Set<string>();
  const hooks: GithubHook[] = [];
  let lastComment = 3_000_000_000;
  const time = () => new Date(now()).toISOString().replace(/\.\d+Z$/, "Z");

  function pull(number: number): Pull {
    const found = pulls.get(number);
    if (found === undefined) throw new Error(`${fullName} has no pull request ${number}`);
    return found;
  }

  function change(number: number, changes: Partial<Pull>): void {
    Object.assign(pull(number), changes, { updatedAt: time() });
  }

  function repoOf(example: Record<string, unknown>, fork = false) {
    const itsOwner = fork ? "somebody" : owner;
    const path = `${itsOwner}/${name}`;
    return {
      ...example,
      ...{ id: fork ? id + 1 : id, name, full_name: path, fork },
      owner: { ...(example["owner"] as object), login: itsOwner },
      html_url: `${webUrl}/${path}`,
      clone_url: `${webUrl}/${path}.git`,
      ssh_url: `git@${hostname}:${path}.git`,
      git_url: `git://${hostname}/${path}.git`,
    };
  }

  /** The format of lists, or with `whole` that of a single pull request. */
  function showPull(one: Pull, whole: boolean): Record<string, unknown> {
    const example = whole
      ? githubExample("pull-request")
      : (githubExample("pull-request-simple-items") as unknown as Record<string, unknown>[])[0];
    const head = example?.["head"] as { repo: Record<string, unknown> };
    const base = example?.["base"] as { repo: Record<string, unknown> };
    const closedAt = one.state === "closed" ? one.updatedAt : null;
    return {
      ...example,
      ...{ number: one.number, state: one.state, draft: one.draft, locked: one.locked },
      html_url: `${webUrl}/${fullName}/pull/${one.number}`,
      ...{ updated_at: one.updatedAt, closed_at: closedAt, merged_at: one.mergedAt },
      ...(whole && { merged: one.mergedAt !== null }),
      head: { ...head, sha: one.head, repo: one.headRepo === null ? null : repoOf(head.repo, one.headRepo !== id) },
      base: { ...base, ref: one.base, repo: repoOf(base.repo) },
      // GitHub's own example lacks a field that its description requires.
      requested_teams: [],
    };
  }

  function showComment(comment: Comment): Record<string, unknown> {
    const example = githubExample("issue-comment");
    return {
      ...example,
      ...{ id: comment.id, body: comment.body, performed_via_github_app: comment.app },
      html_url: `${webUrl}/${fullName}/pull/${comment.number}#issuecomment-${comment.id}`,
      user: { ...(example["user"] as object), ...comment.user },
    };
  }

  return {
    id,
    owner,
    name,
    fullName,
    archived: false,
    now,
    /** How the next redeliveries end. */
    redeliveryStatus: "OK",
    pulls,
    comments,
    statuses,
    checkRuns,
    deployments,
    commits,
    hooks,
    showPull,
    showComment,

    /** The secret is never returned. */
    showHook({ id: hook, config, deliveries: _, ...fields }: GithubHook): Record<string, unknown> {
      const { secret, ...shown } = config;
      const example = githubExample("hook");
      return { ...example, ...fields, id: hook, config: { ...shown, ...(secret && { secret: "********" }) } };
    },

    /** `head` is a commit of a real repository; without it, a fictitious one is used. */
    open({ fork = false, draft = false, head = commitId() } = {}): OpenedPullRequest {
      commits.add(head);
      const opened: Pull = {
        ...{ number: pulls.size + 1, head, base: "main", state: "open", draft, mergedAt: null },
        ...{ headRepo: fork ? id + 1 : id, updatedAt: time(), locked: false },
      };
      pulls.set(opened.number, opened);
      return { number: opened.number, head: opened.head };
    },
    push(number: number, head = commitId()): string {
      commits.add(head);
      change(number, { head });
      return head;
    },
    change,
    close: (number: number) => change(number, { state: "closed" }),
    merge: (number: number) => change(number, { state: "closed", mergedAt: time() }),

    comment(number: number, user: GithubUser, body: string, app: Comment["app"] = null): Comment {
      const comment: Comment = { id: ++lastComment, number, user, app, body };
      comments.push(comment);
      return comment;
    },
    showCheckRun({
      id: run,
      sha,
      app,
      title,
      summary,
      annotations,
      ...fields
    }: GithubCheckRun): Record<string, unknown> {
      const example = githubExample("check-run");
      const output = { ...(example["output"] as object), title, summary, annotations_count: annotations.length };
      return { ...example, ...fields, id: run, head_sha: sha, app, output, pull_requests: [] };
    },
    showCombined(sha: string): Record<string, unknown> {
      const newest = new Map(statuses.filter((one) => one.sha === sha).map((one) => [one.context.toLowerCase(), one]));
      const example = githubExample("combined-commit-status");
      const [shown] = example["statuses"] as object[];
      const all = [...newest.values()].map(({ sha: _, ...one }) => ({ ...shown, ...one }));
      return { ...example, sha, statuses: all, total_count: all.length };
    },
    showStatus(status: Status): Record<string, unknown> {
      return { ...githubExample("status"), ...status, id: statuses.length };
    },
  };
}
