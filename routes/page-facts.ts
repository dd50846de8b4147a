/** What the page shows, as its API gives it: both sides read these types. */
import type { DeliveryRecord } from "../src/delivery-record.ts";
import type { Key } from "../src/model.ts";
import type { ShownObjects, ShownProblem, ShownResult } from "../src/reconcile/show-result.ts";
import type { DeploymentState } from "../src/reconcile/state.ts";
import type { Trace } from "../src/reconcile/trace.ts";

export interface PageDeployment extends DeploymentState {
  /** Where people look at its commits; absent where nobody knows. */
  readonly commitUrl?: string | undefined;
  readonly deployedCommitUrl?: string | undefined;
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
  /** It was only tried. */
  readonly dryRun?: boolean | undefined;
}

export interface PageDeploymentDetails {
  readonly deployment: PageDeployment;
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
  /** What became of the last request of each kind. */
  readonly requests: readonly PageRequest[];
  /** Stored results, newest first. */
  readonly results: readonly PageResult[];
  /** Why there are none. */
  readonly resultsProblem?: string | undefined;
}

export interface PageRequest {
  readonly kind: string;
  /** Of its log lines. */
  readonly job: string;
  /** Of whole seconds. */
  readonly startedAt: number;
  /** Absent while it is worked on. */
  readonly endedAt?: number | undefined;
  readonly error?: string | undefined;
  readonly resultId?: string | undefined;
}

export interface PageForge {
  readonly id: string;
  readonly kind: string;
  /** When one was genuine last; `undefined`: none that is remembered. */
  readonly lastGenuineAt: number | undefined;
  /** The newest is first. */
  readonly deliveries: readonly DeliveryRecord[];
}

export interface PagePullRequest {
  readonly name: string;
  /** Only of http and https. */
  readonly url: string | undefined;
  readonly baseBranch: string;
  readonly head: string;
  readonly state: string;
  readonly at: number;
  readonly verdict: string;
  readonly previews: readonly { readonly deployment: string; readonly verdict: string }[];
}

export interface PageJob {
  readonly lane: string;
  /** `reconcile:shop/staging` */
  readonly subject: string;
  readonly state: "active" | "waiting" | "delayed" | "failed";
  /** When it began, was wanted, or failed. */
  readonly at: number;
  readonly tries: number;
  /** Why it failed, or is delayed. */
  readonly why?: string | undefined;
  /** When it is tried again, as far as that is known. */
  readonly nextAt?: number | undefined;
}

export interface PageQueue {
  readonly lanes: readonly {
    readonly lane: string;
    readonly waiting: number;
    readonly active: number;
    readonly delayed: number;
  }[];
  /** The first of each state. */
  readonly jobs: readonly PageJob[];
}

/** What kluctl said at work. */
export interface PageLogLine {
  readonly at: number;
  /** Those of one loop, or of one request, have the same. */
  readonly job: string;
  readonly command: string;
  readonly text: string;
}

/** What changed since the one before. */
export interface PageDelta {
  readonly changed: readonly PageDeployment[];
  readonly removed: readonly Key[];
}

export interface PageFacts {
  deployments(): readonly PageDeployment[];
  /** `undefined` if there is none of that name. */
  details(key: Key): Promise<PageDeploymentDetails | undefined>;
  result(key: Key, id: string): Promise<ShownResult | undefined>;
  forges(): Promise<readonly PageForge[]>;
  pullRequests(): Promise<readonly PagePullRequest[]>;
  queue(): Promise<PageQueue>;
  /** `commit`: the beginning of a hash, in lower case. */
  trace(commit: string): Promise<Trace>;
}
