/** What git hosts report to us, and what we report to them. */
import type { MergeGroupKey } from "./merge-group.ts";
import type { PullRequestKey } from "./request.ts";

export type ForgeKind = "github" | "gitlab" | "gitea";

/** The files a push changed, as far as the host lists them. */
export interface ChangedPaths {
  /** False if the list may be incomplete (forced, created, truncated…): then any path may have changed. */
  readonly complete: boolean;
  readonly paths: readonly string[];
}

interface EventOrigin {
  /** Id of the configured forge that received it. */
  readonly forge: string;
  /** The host's own id of this delivery; a redelivery has the same id. */
  readonly delivery: string;
}

/** A branch or tag was created, updated or deleted. */
export interface PushEvent extends EventOrigin {
  readonly kind: "push";
  /** Every spelling of the repository's URL in the payload. */
  readonly repoUrls: readonly string[];
  /** For display: `org/repo`. */
  readonly repoName: string;
  /** Full ref name: `refs/heads/…` or `refs/tags/…`. */
  readonly ref: string;
  readonly change: "created" | "updated" | "deleted";
  /** The commit after the push; absent when the ref was deleted. */
  readonly after?: string | undefined;
  /** Short name of the repository's default branch, if the host reports it. */
  readonly defaultBranch?: string | undefined;
  readonly changed: ChangedPaths;
  /** The other commits of the push, as far as the host lists them. */
  readonly others?: readonly string[] | undefined;
  /** The account that pushed, as the host names it. */
  readonly sender?: string | undefined;
}

/** A pull or merge request changed. */
export interface PullRequestEvent extends EventOrigin {
  readonly kind: "pull-request";
  readonly repoUrls: readonly string[];
  readonly repoName: string;
  readonly number: number;
  readonly action: "opened" | "updated" | "reopened" | "retargeted" | "closed" | "draft-changed" | "other";
  readonly baseBranch: string;
  readonly head: string;
  readonly fork: boolean;
}

/** A merge queue created, merged or dropped a group. */
export interface MergeGroupEvent extends EventOrigin, Omit<MergeGroupKey, "forge"> {
  readonly kind: "merge-group";
  readonly repoUrls: readonly string[];
  /** The group was merged or dropped from the queue. */
  readonly ended: boolean;
}

/** A user requested the checks of a commit again. */
export interface RerunEvent extends EventOrigin {
  readonly kind: "rerun";
  readonly repoUrls: readonly string[];
  readonly repoName: string;
  readonly commit: string;
}

/** A pull or merge request as its forge currently reports it. */
export interface PullRequest {
  readonly key: PullRequestKey;
  /** The address of its page. */
  readonly url: string;
  readonly state: "open" | "closed" | "merged";
  readonly draft: boolean;
  /** The newest proposed commit. */
  readonly head: string;
  /** Short name of the branch it would be merged into. */
  readonly baseBranch: string;
  /**
   * Whether, according to the forge, the proposed commits are on no branch of the base repository. `false` is only a
   * claim: git has to confirm it before anything is rendered.
   */
  readonly fork: boolean;
  /** Proposed by a push to `refs/for/…` (AGit), which only needs read access. Counts as a fork. */
  readonly agit?: boolean | undefined;
  /** Every spelling of the base repository's URL that the forge reports. */
  readonly repoUrls: readonly string[];
  /** Time of the last change of any kind, in epoch milliseconds. */
  readonly updatedAt: number;
  /** When it was closed or merged, in epoch milliseconds, if it is and the forge reports it. */
  readonly closedAt?: number | undefined;
  /** The commit of the base branch that contains it, if it was merged and the forge reports it. */
  readonly mergeCommit?: string | undefined;
  readonly title?: string | undefined;
  /** When it was opened, in epoch milliseconds. */
  readonly createdAt?: number | undefined;
  /** The author's login, if it is one that a comment can mention. */
  readonly author?: string | undefined;
}

/** One commit status (check) on a forge. */
export interface CommitStatus {
  /** The status's name: `towline` or `towline/<namespace>/<name>`. */
  readonly context: string;
  /** `canceled`: the result will never be known, because a newer commit superseded this one. */
  readonly state: "pending" | "success" | "failure" | "canceled";
  /** One line of plain text; the forge client shortens it to the forge's limit. */
  readonly description: string;
  /** A page with details. */
  readonly url?: string | undefined;
  /**
   * Whether the description says what merging would change, if that does not follow from the URL: by default, only the
   * statuses of pull requests have one.
   */
  readonly proposed?: boolean | undefined;
  /** A success only because there was nothing to judge. */
  readonly neutral?: boolean | undefined;
  /** For hosts that can show more than a line. Not stored. */
  readonly details?: StatusDetails | undefined;
  /** As far as is recorded: identifies the details that the name's check run shows; absent if there is none. */
  readonly shown?: string | undefined;
}

/** A comment by Towline on a pull request. */
export interface ForgeComment {
  readonly id: string;
  readonly body: string;
  /** Link to the comment. */
  readonly url: string;
}

/** Where a status is shown: as a commit status, or as a check run, which has a text and notes on lines. */
export type StatusForm = "status" | "check";

/** What a check run shows in addition to the line of a status. */
export interface StatusDetails {
  /** Markdown. */
  readonly text: string;
  readonly notes: readonly LineNote[];
}

/** A finding about one line of a file. */
export interface LineNote {
  /** From the repository's root. */
  readonly path: string;
  readonly line: number;
  readonly title: string;
  /** Plain text. */
  readonly message: string;
}

export interface PingEvent extends EventOrigin {
  readonly kind: "ping";
}

/** Authentic, but not an event we act on; `reason` is returned to the sender. */
export interface IrrelevantEvent extends EventOrigin {
  readonly kind: "irrelevant";
  readonly reason: string;
}

export type GitEvent = PushEvent | PullRequestEvent | MergeGroupEvent | RerunEvent | PingEvent | IrrelevantEvent;
