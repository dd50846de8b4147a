/** What happened in an episode, as its checker reads it. Times are epoch milliseconds. */

/** One call of kluctl. It lived from `startedAt` to `endedAt`, whoever ended it. */
export interface Run {
  readonly id: string;
  readonly pid: number;
  /** The replica that started it. */
  readonly replica: string;
  readonly command: string;
  readonly deployment: string;
  readonly commit: string;
  /** It may write into the cluster. */
  readonly mutating: boolean;
  /** Who held the deployment's Lease when it started, as the API server said; empty for nobody, absent if it did not answer. */
  readonly holder?: string | undefined;
  readonly startedAt: number;
  readonly endedAt?: number | undefined;
  /** Absent while it runs, and for ever if it was killed. */
  readonly exitCode?: number | undefined;
  /** Of what it rendered. */
  readonly hash?: string | undefined;
  /** Objects that it wrote. */
  readonly wrote: number;
}

/** What the ledger saw, in the order of `version`: the revision of etcd, one for all kinds. */
export interface Written {
  readonly version: number;
  readonly at: number;
}

export interface ObjectWrite extends Written {
  readonly name: string;
  readonly deleted: boolean;
  readonly data: Readonly<Record<string, string>>;
  /** The run of kluctl that wrote it, `person`, or nothing if it is not said. */
  readonly run?: string | undefined;
}

export interface LeaseWrite extends Written {
  readonly deployment: string;
  /** Empty if it is nobody's. */
  readonly holder: string;
}

export interface StatusWrite extends Written {
  readonly deployment: string;
  readonly uid: string;
  readonly generation: number;
  readonly deleted: boolean;
  /** Waits for what has to be done before it goes. */
  readonly deleting: boolean;
  readonly spec: {
    readonly suspend: boolean;
    readonly manual: boolean;
    readonly manualObjectsHash?: string | undefined;
  };
  /** Something is requested by annotation, or was taken and has no answer yet. */
  readonly requested: boolean;
  readonly status: {
    readonly observedCommit?: string | undefined;
    readonly observedGeneration?: number | undefined;
    readonly lastObjectsHash?: string | undefined;
    readonly lastPrepareError?: string | undefined;
    readonly drift?: string | undefined;
    readonly deployErrors: number;
    readonly ready?: Condition | undefined;
    readonly reconciling: boolean;
  };
}

export interface Condition {
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

/** The repository's branch went there. */
export interface Push {
  readonly repo: string;
  readonly commit: string | undefined;
  readonly at: number;
  /** Files that its commits change; none: a host would not say which. */
  readonly paths: readonly string[];
}

/** A webhook, and what the server said. */
export interface Delivery {
  readonly repo: string;
  readonly commit: string;
  readonly at: number;
  /** 0: there was no answer. */
  readonly status: number;
}

export interface DeploymentFacts {
  readonly name: string;
  readonly repo: string;
  /** The project's directory. */
  readonly path: string;
  /** Deployments of one group have one discriminator: only the first of them is deployed. */
  readonly group?: string | undefined;
  /** Whose commits it reads besides its own repository's. */
  readonly includes?: string | undefined;
  /** It is looked at every few seconds, so that drift cannot be missed for long. */
  readonly often: boolean;
  readonly dependsOn?: string | undefined;
}

/** What a deployment's project is at the end: its objects, or why it cannot be rendered. */
export type Expected =
  | { readonly objects: ReadonlyMap<string, Readonly<Record<string, string>>>; readonly hash: string }
  | { readonly error: string };

/** A pull request as people see it at the end, and what has to stand there. */
export interface PullRequestFacts {
  readonly name: string;
  readonly state: "open" | "closed" | "merged";
  /** Its merge changes files of a deployment, or cannot be tried: there has to be a comment. */
  readonly isConcerned: boolean;
  /** Those that the server wrote. */
  readonly comments: readonly string[];
  /** What a comment has to say: what it is about, and what merging would change. */
  readonly says: readonly string[];
  /** The check beside its head that people can require, if there is any. */
  readonly check?: string | undefined;
}

export interface History {
  /** Git is looked at every few seconds. Otherwise a push is known by its webhook alone, to those whose files it changes. */
  readonly sweeps: boolean;
  readonly deployments: readonly DeploymentFacts[];
  readonly runs: readonly Run[];
  readonly objects: readonly ObjectWrite[];
  readonly leases: readonly LeaseWrite[];
  readonly statuses: readonly StatusWrite[];
  readonly pushes: readonly Push[];
  readonly deliveries: readonly Delivery[];
  /** What a deployment renders to at a commit; of those only that render the same whatever other repositories hold. */
  readonly rendered: ReadonlyMap<string, ReadonlyMap<string, Expected>>;
  /** Lines of the servers' logs that say that a skip was wrong. */
  readonly wrongSkips: readonly string[];
}

/** What is left when all faults are over and everything had its time. */
export interface Rest {
  readonly expected: ReadonlyMap<string, Expected>;
  /** Jobs that wait, run or are put off. */
  readonly queued: readonly string[];
  /** Jobs that were given up. */
  readonly failed: readonly string[];
  /** Keys in Redis of jobs that are gone. */
  readonly strayKeys: readonly string[];
  /** Processes and work directories of replicas that are gone. */
  readonly leftovers: readonly string[];
  readonly pullRequests: readonly PullRequestFacts[];
  /** Files and sockets that the servers that live hold, and how many it were before anything happened. */
  readonly descriptors: readonly { readonly replica: string; readonly first: number; readonly last: number }[];
}
