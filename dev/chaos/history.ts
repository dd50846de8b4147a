/** The record of an episode that the checker reads. Times are epoch milliseconds. */

/** One run of kluctl. It lived from `startedAt` to `endedAt`, whatever ended it. */
export interface Run {
  readonly id: string;
  readonly pid: number;
  /** The replica that started it. */
  readonly replica: string;
  readonly command: string;
  readonly deployment: string;
  readonly commit: string;
  /** The run may write to the cluster. */
  readonly mutating: boolean;
  /** The holder of the deployment's Lease at the start: empty if there was none, absent until it is read. */
  readonly holder?: string | undefined;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  /** Absent while the run is alive, and if it was killed. */
  readonly exitCode?: number | undefined;
  /** Hash of the rendered objects. */
  readonly hash?: string | undefined;
  /** Number of objects that the run wrote; always 0 with the real kluctl. */
  readonly wrote: number;
}

/** A write seen by the ledger. `version` is etcd's revision, shared by all kinds, and gives the order. */
export interface Written {
  readonly version: number;
  readonly at: number;
}

export interface ObjectWrite extends Written {
  readonly name: string;
  readonly deleted: boolean;
  readonly data: Readonly<Record<string, string>>;
  /**
   * The run of kluctl that wrote it; `person` for a user; absent if unknown, as with the real kluctl and for deletions; the
   * name of no run if the time of the write is unknown too.
   */
  readonly run?: string | undefined;
}

export interface LeaseWrite extends Written {
  readonly deployment: string;
  /** Empty if nobody holds the Lease. */
  readonly holder: string;
}

export interface StatusWrite extends Written {
  readonly deployment: string;
  readonly uid: string;
  readonly generation: number;
  readonly deleted: boolean;
  /** Has a deletion timestamp and waits for its finalizers. */
  readonly deleting: boolean;
  readonly spec: {
    readonly suspend: boolean;
    readonly manual: boolean;
    readonly manualObjectsHash?: string | undefined;
  };
  readonly requests: Requests;
  readonly status: {
    readonly observedCommit?: string | undefined;
    /** Commits of other repositories that it rendered, according to the server's annotation. */
    readonly includedCommits: readonly string[];
    readonly observedGeneration?: number | undefined;
    readonly lastObjectsHash?: string | undefined;
    readonly lastPrepareError?: string | undefined;
    readonly drift?: string | undefined;
    readonly deployErrors: number;
    readonly ready?: Condition | undefined;
    readonly reconciling: boolean;
  };
}

/** Requests by annotation, each by its kind and value. */
export interface Requests {
  /** No server has taken them yet. */
  readonly pending: readonly string[];
  /** A server has taken them, and they have no result yet. */
  readonly taken: readonly string[];
}

export interface Condition {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** A change of the repository's branch. */
export interface Push {
  readonly repo: string;
  readonly commit: string | undefined;
  readonly at: number;
  /** Files that the push changes; empty if the host would not list them. */
  readonly paths: readonly string[];
}

/** A webhook delivery and the server's answer. */
export interface Delivery {
  readonly repo: string;
  /** Absent if the branch was deleted, and for pull requests. */
  readonly commit: string | undefined;
  /** The action and the number, if it is about a pull request: what follows of it is judged by the comment at the end. */
  readonly pullRequest?: string | undefined;
  readonly at: number;
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
}

export interface DeploymentFacts {
  readonly name: string;
  readonly repo: string;
  /** The project's directory. */
  readonly path: string;
  /** Deployments of one group share a discriminator: only the first one is deployed. */
  readonly group?: string | undefined;
  /** Another repository of which the project includes files, or reads variables. */
  readonly includes?: string | undefined;
  /** The deployment is checked every few seconds, so that drift is found soon. */
  readonly often: boolean;
  /** The server deletes its orphans. */
  readonly prunes: boolean;
  readonly dependsOn?: string | undefined;
}

/** The expected end state of a deployment: its objects, or why its project cannot be rendered. */
export type Expected =
  | { readonly objects: ReadonlyMap<string, Readonly<Record<string, string>>>; readonly hash: string }
  | { readonly error: string };

/** A pull request at the end of the episode, and what its comment must contain. */
export interface PullRequestFacts {
  readonly name: string;
  readonly state: "open" | "closed" | "merged";
  /** Its merge changes files of a deployment, or cannot be computed: a comment is required. */
  readonly isConcerned: boolean;
  /** The comments that the server wrote. */
  readonly comments: readonly string[];
  /** Texts that the comment must contain: its head and base, then what merging would change. */
  readonly says: readonly string[];
  /** State of the commit status on the head, which branch protection can require; absent if there is none. */
  readonly check?: string | undefined;
}

export interface History {
  /**
   * A sweep reads all repositories every few seconds. Without it, only webhooks announce a push, and only to
   * deployments whose files it changes.
   */
  readonly sweeps: boolean;
  readonly deployments: readonly DeploymentFacts[];
  readonly runs: readonly Run[];
  readonly objects: readonly ObjectWrite[];
  readonly leases: readonly LeaseWrite[];
  readonly statuses: readonly StatusWrite[];
  readonly pushes: readonly Push[];
  readonly deliveries: readonly Delivery[];
  /** What each deployment renders to, by commit; only deployments whose objects are all of their own repository. */
  readonly rendered: ReadonlyMap<string, ReadonlyMap<string, Expected>>;
  /** Log lines of the servers that report a wrong skip. */
  readonly wrongSkips: readonly string[];
}

/** The state at the end, when all faults have ended and the system has settled. */
export interface Rest {
  readonly expected: ReadonlyMap<string, Expected>;
  /** Jobs that are waiting, active or delayed. */
  readonly queued: readonly string[];
  /** Jobs that were given up, of the last day. */
  readonly failed: readonly FailedJob[];
  /** Runs and jobs that began within the last seconds. */
  readonly begun: readonly Begun[];
  /** When the last fault had ended. */
  readonly healedAt: number;
  /** Keys in Redis that belong to jobs that no longer exist. */
  readonly strayKeys: readonly string[];
  /** Processes of servers that have ended, and work directories without a run. */
  readonly leftovers: readonly string[];
  readonly pullRequests: readonly PullRequestFacts[];
  /** Open files and sockets of the live servers: at the end, and before anything happened. */
  readonly descriptors: readonly { readonly replica: string; readonly first: number; readonly last: number }[];
}

export interface FailedJob {
  readonly lane: string;
  /** Name of the deployment, or what else the job is about. */
  readonly subject: string;
  readonly reason: string;
  /** Absent if it was too long ago. */
  readonly at?: number | undefined;
}

export interface Begun {
  /** In words. */
  readonly what: string;
  /** Name of the deployment, or what else it is about. */
  readonly subject: string;
}
