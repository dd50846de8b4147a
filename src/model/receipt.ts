/** What a sender is told about its delivery. */

export interface Ignored {
  /** `namespace/name` */
  readonly deployment: string;
  readonly reason: string;
}

/** A GitRepository of Flux that a push does not affect. */
export interface IgnoredSource {
  /** `namespace/name` */
  readonly source: string;
  readonly reason: string;
}

/** What a push means for Flux's GitRepositories, if the server makes Flux fetch. */
export interface FluxReceipt {
  /** The number of GitRepositories that Flux is to fetch. */
  readonly matched: number;
  /** The first of them, as `namespace/name`. */
  readonly sources: readonly string[];
  readonly ignored: readonly IgnoredSource[];
}

/** The response to the sender. */
export interface Receipt {
  readonly delivery: string;
  /** The number of affected deployments. */
  readonly matched: number;
  /** The first of them, as `namespace/name`. */
  readonly deployments?: readonly string[] | undefined;
  /**
   * For a push, those among `deployments` that only include the repository: their own commit stays the same. For a pull
   * request, those that include it and may be shown there.
   */
  readonly including?: readonly string[] | undefined;
  /** Absent if no GitRepository of Flux is of this repository. */
  readonly flux?: FluxReceipt | undefined;
  /** The number of pull requests that are previewed because of it. */
  readonly previews?: number | undefined;
  /** The number of new jobs. The other requests joined a job that was already waiting. */
  readonly queued: number;
  readonly ignored: readonly Ignored[];
  /** Why nothing matched, unless `ignored` has the reasons. */
  readonly reason?: string | undefined;
}
