/** A Lease as the API server has it, and the requests for one. */

export interface LeaseObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly resourceVersion?: string | undefined;
  };
  readonly spec?: {
    readonly holderIdentity?: string | null | undefined;
    readonly leaseDurationSeconds?: number | null | undefined;
    readonly leaseTransitions?: number | null | undefined;
    readonly acquireTime?: string | null | undefined;
    readonly renewTime?: string | null | undefined;
  };
}

/** Requests for one Lease: each has a single attempt that takes no longer than a renewal may. */
export interface LeaseStore {
  /** Resolves to `undefined` if there is no Lease. */
  read(): Promise<LeaseObject | undefined>;
  /** Creates the Lease if it has no resourceVersion. Throws ApiError 409 if there was a concurrent write. */
  write(lease: LeaseObject): Promise<LeaseObject>;
}

/** The current time as the API's `MicroTime`; only shown to users. */
export function microTime(): string {
  return new Date().toISOString().replace("Z", "000Z");
}
