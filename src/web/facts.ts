/** The types of the page's API, shared by server and browser. */
import type { DeliveryRecord } from "../model/delivery-record.ts";
import type { Key, PullRequestKey } from "../model.ts";
import type { Attention } from "../preview/attention.ts";
import type { ShownObjects, ShownProblem, ShownResult } from "../views/show-result.ts";
import type { ShownReport } from "../views/show-report.ts";
import type { NewerCommit } from "../views/newer-commit.ts";
import type { DeploymentState } from "../views/state.ts";
import type { MissedPushes } from "../model/missed-push.ts";
import type { SweepPace } from "../model/sweep-pace.ts";
import type { ShownTarget } from "../views/notifications.ts";
import type { ShownProposal, Trace } from "../views/trace.ts";

export interface PageDeployment extends DeploymentState {
  /** The commit's URL at the git host; absent if unknown. */
  readonly commitUrl?: string | undefined;
  readonly deployedCommitUrl?: string | undefined;
}

/** A newer commit that waits, of one deployment of the list. */
export interface PageNewerCommit extends Key, NewerCommit {
  readonly commitUrl?: string | undefined;
}

/** What its author says of a commit. Plain text. */
export interface PageCommit {
  readonly commit: string;
  /** The first line of its message; cut if it is long. */
  readonly subject: string;
  readonly author?: string | undefined;
}

export interface PageResult {
  readonly id: string;
  readonly command: string;
  readonly commit: string;
  readonly commitUrl?: string | undefined;
  readonly startedAt: number;
  readonly endedAt: number;
  readonly errors: number;
  readonly changes: string;
  /** It was a dry run. */
  readonly dryRun?: boolean | undefined;
}

export interface PageDeploymentDetails {
  readonly deployment: PageDeployment;
  /** Of the commits named here, those that this server has a copy of. */
  readonly commits: readonly PageCommit[];
  /** A newer commit than the one that was reconciled, or than the one that was deployed, and what it waits for. */
  readonly newer?: (NewerCommit & { readonly commitUrl?: string | undefined }) | undefined;
  readonly conditions: readonly {
    readonly type: string;
    readonly status: string;
    readonly reason: string;
    readonly message: string;
    readonly lastTransitionTime: string;
  }[];
  readonly prepareError: string | undefined;
  /** What differs between git and the cluster. */
  readonly drift: ShownObjects;
  readonly deployErrors: readonly ShownProblem[];
  readonly validateErrors: readonly ShownProblem[];
  /** The outcome of the last request of each kind. */
  readonly requests: readonly PageRequest[];
  /** Stored results, newest first. */
  readonly results: readonly PageResult[];
  /** Why the results could not be read. */
  readonly resultsProblem?: string | undefined;
}

export interface PageRequest {
  readonly kind: string;
  /** The job's id in the log lines. */
  readonly job: string;
  /** In whole seconds. */
  readonly startedAt: number;
  /** Absent while it is in progress. */
  readonly endedAt?: number | undefined;
  readonly error?: string | undefined;
  readonly resultId?: string | undefined;
}

/** Pushes of one repository that no webhook reported. */
export interface PageMissed extends Omit<MissedPushes, "reason"> {
  /** Why, and what to do; absent while it is not known yet. */
  readonly reason?: { readonly why: string; readonly advice: string } | undefined;
}

export interface PageForge {
  readonly id: string;
  readonly kind: string;
  /** It sends no webhooks. */
  readonly polled?: true | undefined;
  /** Repositories whose last pushes the sweep found, because no webhook reported them. */
  readonly missed?: readonly PageMissed[] | undefined;
  /** How often git is asked for the branches of each followed repository: what a lost webhook would cost now. */
  readonly sweeps?: readonly Pick<SweepPace, "repo" | "pace" | "everyMs">[] | undefined;
  /** When the last verified delivery arrived; `undefined` if none is stored. */
  readonly lastVerifiedAt: number | undefined;
  /** Newest first. */
  readonly deliveries: readonly DeliveryRecord[];
}

export interface PagePullRequest {
  /** Its own page is at this key. */
  readonly pullRequest: PullRequestKey;
  readonly name: string;
  /** Only http or https. */
  readonly url: string | undefined;
  readonly title?: string | undefined;
  readonly author?: string | undefined;
  readonly baseBranch: string;
  readonly head: string;
  readonly state: string;
  /** Absent: it comes from an older server. */
  readonly attention?: Attention | undefined;
  /** When it was opened, if that is known. */
  readonly openedAt?: number | undefined;
  /** When it was previewed. */
  readonly at: number;
  readonly verdict: string;
  readonly previews: readonly ShownProposal[];
}

/** One pull request in full. */
export interface PagePullRequestDetails extends ShownReport {
  /** The link that it was opened with; absent: opened by a user who may see it anyway. `until`: epoch milliseconds. */
  readonly link?: { readonly until: number } | undefined;
}

/** What merging a pull request would create or change in one deployment, as the merge renders it. */
export interface PageManifests {
  readonly objects: readonly {
    /** As in the report: kind, namespace and name. */
    readonly object: string;
    readonly text: string;
    /** How many lines of it were not stored. */
    readonly linesLeftOut: number;
  }[];
  /** How many objects were not stored. */
  readonly leftOut: number;
}

export interface PageJob {
  readonly lane: string;
  /** `reconcile:shop/staging` */
  readonly subject: string;
  readonly state: "active" | "waiting" | "delayed" | "failed";
  /** When it started, was requested, or failed. */
  readonly at: number;
  readonly tries: number;
  /** Why it failed or is delayed. */
  readonly why?: string | undefined;
  /** When it is retried, if known. */
  readonly nextAt?: number | undefined;
}

export interface PageQueue {
  readonly lanes: readonly {
    readonly lane: string;
    readonly waiting: number;
    readonly active: number;
    readonly delayed: number;
  }[];
  /** The first jobs of each state. */
  readonly jobs: readonly PageJob[];
}

/** A line of kluctl's output. */
export interface PageLogLine {
  readonly at: number;
  /** Shared by all lines of one reconciliation or request. */
  readonly job: string;
  readonly command: string;
  readonly text: string;
}

/** The changes since the previous event. */
export interface PageDelta {
  readonly changed: readonly PageDeployment[];
  readonly removed: readonly Key[];
}

export interface PageFacts {
  deployments(): readonly PageDeployment[];
  /** Of the deployments that have one. */
  newerCommits(): Promise<readonly PageNewerCommit[]>;
  /** `undefined` if there is no deployment with this name. */
  details(key: Key): Promise<PageDeploymentDetails | undefined>;
  result(key: Key, id: string): Promise<ShownResult | undefined>;
  forges(): Promise<readonly PageForge[]>;
  pullRequests(): Promise<readonly PagePullRequest[]>;
  /** `undefined` if it was not previewed, or too long ago. */
  pullRequest(key: PullRequestKey): Promise<ShownReport | undefined>;
  /** `undefined` if none are stored for its last preview. `deployment`: `namespace/name`. */
  manifests(key: PullRequestKey, deployment: string): Promise<PageManifests | undefined>;
  queue(): Promise<PageQueue>;
  /** The targets of notifications, in the order of the configuration. */
  notifications(): Promise<readonly ShownTarget[]>;
  /** `commit`: the beginning of a hash, in lower case. */
  trace(commit: string): Promise<Trace>;
}
