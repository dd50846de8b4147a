/** What a sender is told about its delivery. */

export interface Ignored {
  /** `namespace/name` */
  readonly deployment: string;
  readonly reason: string;
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
  /** The number of pull requests that are previewed because of it. */
  readonly previews?: number | undefined;
  /** The number of new jobs. The other requests joined a job that was already waiting. */
  readonly queued: number;
  readonly ignored: readonly Ignored[];
  /** Why nothing matched, unless `ignored` has the reasons. */
  readonly reason?: string | undefined;
}
