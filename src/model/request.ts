/** Requests, their subjects and their outcomes. */
import { type Key, keyText } from "./key.ts";
import type { MergeGroupKey } from "./merge-group.ts";
import type { RepoId } from "./source.ts";

/** Why a deployment is to be reconciled; also the order of urgency, see jobs/queue.ts. */
export type Cause =
  | "push" // a webhook reported a push to its repository
  | "include" // a webhook reported a push to a repository that its project includes
  | "manual" // requested by a user (kluctl's request annotations)
  | "change" // its resource was created, changed or is being deleted
  | "sweep" // the remote's head differs from the recorded one: a webhook was lost
  | "drift" // an object it applied was changed or deleted, or a deployment with a conflicting claim is gone
  | "interval"; // one of its intervals is due

/** A request for work on a subject. It carries no state: the worker reads the current state when it runs. */
export type Request =
  | ReconcileRequest
  | PreviewRequest
  | MergeGroupRequest
  | ReportRequest
  | CommitStatusRequest
  | NotifyRequest
  | FluxFetchRequest;

/** Reconcile one deployment. Carries no commit: the worker resolves the ref when it runs. */
export interface ReconcileRequest {
  readonly kind: "reconcile";
  readonly deployment: Key;
  readonly cause: Cause;
  /** Causes of requests merged into this one while it was queued: it is done when none of them needs work. */
  readonly also?: readonly Cause[] | undefined;
  /** The repository it follows, so that the many deployments of one repository cannot starve another's. */
  readonly repo?: RepoId | undefined;
  /** The delivery that triggered it, for logs. */
  readonly delivery?: string | undefined;
  /** The pusher according to the delivery, for the audit log. */
  readonly sender?: string | undefined;
  /** When the delivery was received, in epoch milliseconds: the start of push-to-applied. */
  readonly receivedAt?: number | undefined;
  /** The span of the delivery that triggered it, see tracing.ts. */
  readonly trace?: string | undefined;
}

/** Identifies one pull or merge request. */
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

/** Parses the output of `pullRequestText`, or the same form typed by a user; `undefined` if invalid. */
export function parsePullRequestText(text: string): PullRequestKey | undefined {
  const { forge, repoName, number } =
    /^(?<forge>[^:#]+):(?<repoName>[^:#]+)#(?<number>[1-9]\d{0,14})$/.exec(text)?.groups ?? {};
  return forge && repoName ? { forge, repoName, number: Number(number) } : undefined;
}

/** Why a pull request is to be previewed. */
export type PreviewCause =
  | "pull-request" // the forge reported a change
  | "base" // its base branch moved
  | "library" // a repository moved that deployments include which it shows
  | "cluster" // a deployment, its last deploy, or the live objects that it deployed, have changed
  | "sweep"; // a sweep of the forge found a change that no webhook reported

/** Compute what merging one pull request would change. */
export interface PreviewRequest {
  readonly kind: "preview";
  readonly pullRequest: PullRequestKey;
  readonly cause: PreviewCause;
  readonly delivery?: string | undefined;
  readonly receivedAt?: number | undefined;
  readonly trace?: string | undefined;
}

/** Compute what a merge queue's group would change, and report it as a status of the group's commit. */
export interface MergeGroupRequest {
  readonly kind: "merge-group";
  readonly group: MergeGroupKey;
  /** The queue merged or dropped the group: there is nothing left to compute. */
  readonly ended: boolean;
  readonly delivery?: string | undefined;
  readonly receivedAt?: number | undefined;
  readonly trace?: string | undefined;
}

/** Update a pull request's comment and statuses on its forge to match its report. */
export interface ReportRequest {
  readonly kind: "report";
  readonly pullRequest: PullRequestKey;
}

/** A commit pushed to a branch that deployments follow. */
export interface CommitKey {
  readonly forge: string;
  readonly repoName: string;
  readonly commit: string;
}

/** `forge:org/repo@commit`, for logs and queues. */
export function commitText({ forge, repoName, commit }: CommitKey): string {
  return `${forge}:${repoName}@${commit}`;
}

/** Update a pushed commit's statuses on its forge to match its state in the cluster. */
export interface CommitStatusRequest {
  readonly kind: "commit-status";
  readonly commit: CommitKey;
  readonly repo: RepoId;
  /** The full name of the ref to which a webhook reported it, for repositories that only Flux can read. */
  readonly pushedTo?: string | undefined;
}

/** Bring a target of notifications in line with what is true now. */
export interface NotifyRequest {
  readonly kind: "notify";
  /** The `id` in the configuration. */
  readonly target: string;
}

/** Make Flux fetch one of its GitRepositories now. */
export interface FluxFetchRequest {
  readonly kind: "flux-fetch";
  readonly source: Key;
  /** `sweep`: the remote has a commit that no webhook reported. */
  readonly cause: "push" | "sweep";
  /** The pushed commit: there is nothing to fetch if Flux has it. Absent: Flux fetches whatever it has. */
  readonly commit?: string | undefined;
  readonly delivery?: string | undefined;
}

/** Identifies the subject of a request; per subject, at most one job runs and one waits. */
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
    case "notify":
      return `${request.kind}:${request.target}`;
    case "flux-fetch": {
      // Flux may have one of two pushed commits: neither request is carried out by the other's job.
      const commit = request.commit === undefined ? "" : `@${request.commit}`;
      return `${request.kind}:${keyText(request.source)}${commit}`;
    }
  }
}

/** One attempt at a request. */
export interface Attempt {
  /** Starts at 1; a lease held elsewhere, waiting for a forge and a hand-back do not count. */
  readonly attempt: number;
  readonly lastAttempt: boolean;
  /** Aborts when the job has to be handed back, or with a SupersededError when its result is no longer needed. */
  readonly signal: AbortSignal;
}

/** The outcome of a request. Failures of the work are outcomes too, so that they are reported. */
export type Outcome =
  | { readonly kind: "done"; readonly deployed?: boolean | undefined; readonly commit?: string | undefined }
  | { readonly kind: "skipped"; readonly why: string }
  /** `retry`: whether trying again may help ("soon"), or a person has to change something first ("person"). */
  | { readonly kind: "failed"; readonly retry: "soon" | "person"; readonly message: string }
  /**
   * Nothing is wrong with the work: an external system (a forge, its rate limit) needs time. Does not count as an
   * attempt. `afresh`: the next run is a first attempt again. After an outage all jobs run at once, and what
   * had failed before it keeps the time of its own retry.
   */
  | { readonly kind: "later"; readonly afterMs: number; readonly why: string; readonly afresh?: true }
  /** The request was carried out, and only its effect has to be checked later: any newer request comes first. */
  | { readonly kind: "recheck"; readonly afterMs: number };

export interface Enqueued {
  /** How many requests created a new job. The others joined a waiting one. */
  readonly queued: number;
}
