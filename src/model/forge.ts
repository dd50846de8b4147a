/** What a git host tells us, and what we tell it. */
import type { MergeGroupKey } from "./merge-group.ts";
import type { PullRequestKey } from "./request.ts";

/** The files a push touched, as far as the host says. */
export interface ChangedPaths {
  /** False when the list may lack some (forced, created, truncated…): then every path may have changed. */
  readonly complete: boolean;
  readonly paths: readonly string[];
}

interface EventOrigin {
  /** Id of the configured forge that received it. */
  readonly forge: string;
  /** The host's own id of this delivery, the same when it is redelivered. */
  readonly delivery: string;
}

/** A branch or a tag moved, appeared or went away. */
export interface PushEvent extends EventOrigin {
  readonly kind: "push";
  /** Every spelling of the repository's URL that the payload offers. */
  readonly repoUrls: readonly string[];
  /** For people: `org/repo`. */
  readonly repoName: string;
  /** Full ref name: `refs/heads/…` or `refs/tags/…`. */
  readonly ref: string;
  readonly change: "created" | "updated" | "deleted";
  /** The commit after the push; absent when the ref was deleted. */
  readonly after?: string | undefined;
  /** Short name of the repository's default branch, when the host says it. */
  readonly defaultBranch?: string | undefined;
  readonly changed: ChangedPaths;
  /** What it brought besides `after`, as far as the host lists it. */
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

/** A merge queue made a group, or is done with one. */
export interface MergeGroupEvent extends EventOrigin, Omit<MergeGroupKey, "forge"> {
  readonly kind: "merge-group";
  readonly repoUrls: readonly string[];
  /** It was merged, or dropped from the queue. */
  readonly ended: boolean;
}

/** A pull or merge request as its forge has it now. */
export interface PullRequest {
  readonly key: PullRequestKey;
  /** Its page. */
  readonly url: string;
  readonly state: "open" | "closed" | "merged";
  readonly draft: boolean;
  /** The newest commit that it proposes. */
  readonly head: string;
  /** Short name of the branch that it would be merged into. */
  readonly baseBranch: string;
  /**
   * Whether the proposed commits are on no branch of the repository that they would be merged into, as far as the forge
   * says. Its `false` is only a claim: git has to show it before anything is rendered.
   */
  readonly fork: boolean;
  /** Proposed by a push to `refs/for/…` (AGit), which takes no more than read access. Counts as a fork. */
  readonly agit?: boolean | undefined;
  /** Every spelling of the base repository's URL that the forge offers. */
  readonly repoUrls: readonly string[];
  /** Epoch milliseconds; of anything about it. */
  readonly updatedAt: number;
}

/** One line of what a forge shows beside a commit. */
export interface CommitStatus {
  /** Names the line: `towline` or `towline/<namespace>/<name>`. */
  readonly context: string;
  /** `canceled`: will never be known, because something newer took its place. */
  readonly state: "pending" | "success" | "failure" | "canceled";
  /** One plain line of text; a forge shortens it to what it can show. */
  readonly description: string;
  /** Where more is to be read. */
  readonly url?: string | undefined;
  /** Says what merging would change, although nothing more is to be read anywhere. */
  readonly proposed?: boolean | undefined;
}

/** A comment of ours on a pull request. */
export interface ForgeComment {
  readonly id: string;
  readonly body: string;
  /** Its own address. */
  readonly url: string;
}

export interface PingEvent extends EventOrigin {
  readonly kind: "ping";
}

/** Genuine, but nothing we act on; `reason` is told to the sender. */
export interface IrrelevantEvent extends EventOrigin {
  readonly kind: "irrelevant";
  readonly reason: string;
}

export type GitEvent = PushEvent | PullRequestEvent | MergeGroupEvent | PingEvent | IrrelevantEvent;
