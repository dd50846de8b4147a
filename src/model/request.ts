/** What is wanted, of which subject, and what came of it. */
import { type Key, keyText } from "./key.ts";
import type { MergeGroupKey } from "./merge-group.ts";
import type { RepoId } from "./source.ts";

/** Why a deployment is to be looked at; also the order of urgency, see jobs/queue.ts. */
export type Cause =
  | "push" // a webhook said that its repository moved
  | "manual" // a person asked (kluctl's request annotations)
  | "change" // its resource was created, changed or is being deleted
  | "sweep" // the remote's head differs from what is recorded: a webhook was lost
  | "drift" // something that it applied was changed or deleted, or who laid claim to it is gone
  | "interval"; // one of its intervals is due

/**
 * What is wanted, of which subject. Names a subject and carries no state: whoever does the work reads what is true then.
 */
export type Request = ReconcileRequest | PreviewRequest | MergeGroupRequest | ReportRequest | CommitStatusRequest;

/** Bring one deployment up to date. Carries no commit: whoever does the work resolves the ref then. */
export interface ReconcileRequest {
  readonly kind: "reconcile";
  readonly deployment: Key;
  readonly cause: Cause;
  /** Of requests that joined it while it waited: it is done when there is nothing to do for any of them. */
  readonly also?: readonly Cause[] | undefined;
  /** The repository it follows, so that one repository's many deployments cannot starve another's. */
  readonly repo?: RepoId | undefined;
  /** The delivery it came from, for logs. */
  readonly delivery?: string | undefined;
  /** Who pushed, as the delivery says: for the audit log. */
  readonly sender?: string | undefined;
  /** When the delivery was received, epoch milliseconds: start of push-to-applied. */
  readonly receivedAt?: number | undefined;
  /** The span of the delivery that asked for it, see tracing.ts. */
  readonly trace?: string | undefined;
}

/** Names one pull or merge request. */
export interface PullRequestKey {
  /** Id of the configured forge. */
  readonly forge: string;
  /** The base repository as the forge names it: `org/repo`. */
  readonly repoName: string;
  readonly number: number;
}

/** `forge:org/repo#7`, for logs and queues. */
export function pullRequestText({ forge, repoName, number }: PullRequestKey): string {
  return `${forge}:${repoName}#${number}`;
}

/** What `pullRequestText` wrote, or somebody as it does. */
export function parsePullRequestText(text: string): PullRequestKey | undefined {
  const { forge, repoName, number } =
    /^(?<forge>[^:#]+):(?<repoName>[^:#]+)#(?<number>[1-9]\d{0,14})$/.exec(text)?.groups ?? {};
  return forge && repoName ? { forge, repoName, number: Number(number) } : undefined;
}

/** Why a pull request is to be previewed. */
export type PreviewCause =
  | "pull-request" // the forge told that it changed
  | "base" // the branch it would be merged into moved, or was deployed
  | "sweep"; // a look at the forge found what no webhook told

/** Find out what merging one pull request would change. */
export interface PreviewRequest {
  readonly kind: "preview";
  readonly pullRequest: PullRequestKey;
  readonly cause: PreviewCause;
  readonly delivery?: string | undefined;
  readonly receivedAt?: number | undefined;
  readonly trace?: string | undefined;
}

/** Find out what a merge queue's group would change, and report that beside its commit. */
export interface MergeGroupRequest {
  readonly kind: "merge-group";
  readonly group: MergeGroupKey;
  /** The queue has merged or dropped the group: nothing is to be found out any more. */
  readonly ended: boolean;
  readonly delivery?: string | undefined;
  readonly receivedAt?: number | undefined;
  readonly trace?: string | undefined;
}

/** Bring a pull request's comment and statuses on its forge in line with its report. */
export interface ReportRequest {
  readonly kind: "report";
  readonly pullRequest: PullRequestKey;
}

/** A commit that was pushed to a branch which deployments follow. */
export interface CommitKey {
  readonly forge: string;
  readonly repoName: string;
  readonly commit: string;
}

/** `forge:org/repo@commit`, for logs and queues. */
export function commitText({ forge, repoName, commit }: CommitKey): string {
  return `${forge}:${repoName}@${commit}`;
}

/** Bring a pushed commit's statuses on its forge in line with what became of it in the cluster. */
export interface CommitStatusRequest {
  readonly kind: "commit-status";
  readonly commit: CommitKey;
  readonly repo: RepoId;
}

/** What one request wants brought up to date; at most one job per subject runs and one waits. */
export function subjectOf(request: Request): string {
  switch (request.kind) {
    case "reconcile":
      return `reconcile:${keyText(request.deployment)}`;
    case "preview":
    case "report":
      return `${request.kind}:${pullRequestText(request.pullRequest)}`;
    case "merge-group":
      return `${request.kind}:${commitText(request.group)} ${request.group.branch}`;
    case "commit-status":
      return `${request.kind}:${commitText(request.commit)}`;
  }
}

/** One try at what a request wants. */
export interface Attempt {
  /** From 1; neither a lease held elsewhere, nor waiting for a forge, nor a hand-back counts. */
  readonly attempt: number;
  readonly lastAttempt: boolean;
  /** Aborts when the work is to be handed back, or with a SupersededError when it is of no use any more. */
  readonly signal: AbortSignal;
}

/** What came of a request. Failures of the work are outcomes too, so that they are reported. */
export type Outcome =
  | { readonly kind: "done"; readonly deployed?: boolean | undefined; readonly commit?: string | undefined }
  | { readonly kind: "skipped"; readonly why: string }
  /** `retry` says who can mend it: time ("soon"), or a person who changes something ("person"). */
  | { readonly kind: "failed"; readonly retry: "soon" | "person"; readonly message: string }
  /** Nothing is wrong with the work: somebody else (a forge, its rate limit) needs time. Does not count as a try. */
  | { readonly kind: "later"; readonly afterMs: number; readonly why: string };
