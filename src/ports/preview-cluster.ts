/** A cluster as previews see it: values of Secrets are masked, and nothing can be written. */
import type { JsonObject } from "../kit/json.ts";
import type { Identity } from "../model/run.ts";

export interface PreviewClusters {
  /**
   * Opens the server's own cluster for one account, which needs no more than a short-lived token of it. Throws
   * PreviewRefusedError if there is no account to access the cluster with. `of`: whose requests these are; parties share the
   * places for requests.
   */
  open(run: Pick<Identity, "impersonate">, of?: readonly string[]): Promise<PreviewCluster>;
}

export interface PreviewCluster {
  /** Reads the live object of this kind and name. Throws ApiError. */
  find(object: JsonObject, signal: AbortSignal): Promise<FoundObject>;
  /**
   * What a server-side apply by this field manager would make of the object, also against other managers. Always a dry
   * run. An object that the API server refuses is an answer; throws ApiError if it does not answer.
   */
  dryRun(object: JsonObject, fieldManager: string, signal: AbortSignal): Promise<DryRun>;
  /** Read once. Throws ApiError. */
  capabilities(signal: AbortSignal): Promise<ClusterCapabilities>;
  /** Values of Secrets that were masked; they must not be shown anywhere. */
  maskedValues(): readonly string[];
  /** How many requests were made. */
  requests(): number;
  close(): Promise<void>;
}

/** What a chart may ask of the cluster, as Helm names it. */
export interface ClusterCapabilities {
  /** `v1.32.2` */
  readonly kubeVersion: string;
  /** `apps/v1`, `apps/v1/Deployment` */
  readonly apiVersions: readonly string[];
}

export type FoundObject =
  /**
   * `unserved`: the cluster has no such kind. `unplaced`: an object of this kind needs a namespace. `unnamed`: the name or the
   * namespace is not valid, so no request can be made.
   */
  | { readonly problem: "unserved" | "unplaced" | "unnamed" }
  /** `undefined`: there is none. */
  | { readonly live: JsonObject | undefined };

export type DryRun = { readonly applied: JsonObject } | { readonly refusal: RefusedApply };

/** Why the API server refuses an object: the HTTP status, the reason in its own words, and the message. */
export interface RefusedApply {
  readonly status: number;
  readonly message: string;
}
