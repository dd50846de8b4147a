/**
 * The ports: what the domain logic needs from external systems, in its own terms. Each is small enough for a fake with
 * a Map.
 */
import type { JsonObject } from "./kit/json.ts";
import type { AppliedChange, AppliedScope, AppliedVersions, Doomed } from "./model/applied.ts";
import type { Checkout, CheckoutSource, Leaving, OciCheckoutSource, Tag } from "./model/checkout.ts";
import type { AnyDeployment, Deployment, DeploymentRef, GitDeployment, StatusPatch } from "./model/deployment.ts";
import type { ChangedPaths } from "./model/forge.ts";
import type { FluxDeployment, FluxSource } from "./model/flux.ts";
import type { Key } from "./model/key.ts";
import type { Held, LeaseOwner } from "./model/lease.ts";
import type { Merge, MergeSource } from "./model/merge.ts";
import type { Enqueued, Request } from "./model/request.ts";
import type { CommandResult, ResultError, ValidateResult } from "./model/result.ts";
import type { ObjectQuery, QueriedObjects } from "./model/health.ts";
import type { DeleteOptions, DeployOptions, DiffOptions, Identity, RenderOptions, Run } from "./model/run.ts";
import type { Authorship, Freshness, Heads, KnownHeads, RepoId, Repository } from "./model/source.ts";
import type { OfferedSources, SourceOverride } from "./model/source-override.ts";

export type * from "./ports/flux-renderer.ts";
export type * from "./ports/forge.ts";
export type * from "./ports/preview-cluster.ts";
export type * from "./ports/records.ts";

/** The KluctlDeployments of the watched namespaces. */
export interface Deployments {
  /** Reads from the API server, not from the watch's cache. */
  get(key: Key): Promise<AnyDeployment | undefined>;
  /** The resource as the API server has it, for users' expressions. */
  resource(key: Key): Promise<JsonObject | undefined>;
  /**
   * Reads from the API server and applies a JSON merge patch, for a request with one-off overrides. Malformed if the
   * patch changes anything but the spec, or makes the spec invalid.
   */
  overridden(deployment: DeploymentRef, patch: JsonObject): Promise<AnyDeployment | undefined>;
  /** The deployments that follow the repository, from the watch's index; no I/O. */
  tracking(repo: RepoId): readonly GitDeployment[];
  /** The deployments whose last deploy included the repository, from the watch's index; no I/O. */
  including(repo: RepoId): readonly Deployment[];
  /**
   * Resolves once `all` is complete, in most cases immediately: the watch has listed all deployments and is not
   * interrupted. Throws ApiError if that takes too long.
   */
  whenSynced(signal: AbortSignal): Promise<void>;
  /** All deployments in the watch's cache; no I/O. */
  all(): readonly AnyDeployment[];
  /**
   * Applies a JSON merge patch to `status`. The caller must hold the deployment's lease and abort when it is lost.
   * Throws if the name now belongs to another resource. Resolves to the generation at that moment, if it is known.
   */
  patchStatus(deployment: DeploymentRef, patch: StatusPatch, signal?: AbortSignal): Promise<number | undefined>;
  /**
   * Like `patchStatus`, but without a lease, and only if nothing was written since the deployment was read; returns
   * whether it was written.
   */
  moveTimes(deployment: DeploymentRef & Pick<AnyDeployment, "resourceVersion">, patch: StatusPatch): Promise<boolean>;
  /** Adds or removes one finalizer. Ignores a resource that was deleted in the meantime. */
  setFinalizer(deployment: DeploymentRef, finalizer: string, present: boolean): Promise<void>;
  /** Removes the annotation unless its value changed since it was read. */
  removeAnnotation(deployment: DeploymentRef, name: string, value: string): Promise<void>;
  /** `undefined` removes it. Ignores a resource that was deleted in the meantime. */
  setAnnotation(deployment: DeploymentRef, name: string, value: string | undefined): Promise<void>;
  /** Emits an Event; never throws and never blocks. */
  event(deployment: DeploymentRef, type: "Normal" | "Warning", reason: string, message: string): void;
}

/** Called with the previous and the current state of a resource; either may be absent. */
export type OnResourceChange<T> = (before: T | undefined, after: T | undefined) => void;

/** Flux's GitRepositories in the watched namespaces. Empty while the cluster does not have their definition. */
export interface FluxSources {
  /** Whether all are known that the cluster has, and that the server's account may read. */
  synced(): boolean;
  onChange(callback: OnResourceChange<FluxSource>): void;
  /** From the watch's cache; no I/O. */
  all(): readonly FluxSource[];
  /** From the watch's cache; no I/O. */
  find(key: Key): FluxSource | undefined;
  /** Those of the repository, from the watch's index; no I/O. */
  following(repo: RepoId): readonly FluxSource[];
  /** Reads from the API server; `undefined` if it does not exist, or cannot be followed. Throws ApiError. */
  get(key: Key, signal?: AbortSignal): Promise<FluxSource | undefined>;
  /** The resource as the API server has it; `undefined` if it does not exist. Throws ApiError. */
  resource(key: Key, signal?: AbortSignal): Promise<JsonObject | undefined>;
  /** Makes Flux fetch now. `at` identifies the request: a new value is a new request. Throws ApiError. */
  requestFetch(key: Key, at: string, signal?: AbortSignal): Promise<void>;
}

/** What Flux's controllers apply in the watched namespaces. Empty while the cluster does not have the definitions. */
export interface FluxDeployments {
  /** Whether all are known, or all of the kind, that the cluster has, and that the server's account may read. */
  synced(kind?: "Kustomization"): boolean;
  onChange(callback: OnResourceChange<FluxDeployment>): void;
  /** From the watch's cache; no I/O. */
  all(): readonly FluxDeployment[];
  /** A Kustomization, from the watch's cache; no I/O. */
  find(key: Key): FluxDeployment | undefined;
  /** Reads it from the API server; `undefined` if it does not exist any more. Throws ApiError. */
  read(deployment: Pick<FluxDeployment, "kind" | "key">, signal?: AbortSignal): Promise<FluxDeployment | undefined>;
  /** A Kustomization as the API server has it; `undefined` if it does not exist. Throws ApiError. */
  kustomization(key: Key, signal?: AbortSignal): Promise<JsonObject | undefined>;
}

export interface Secrets {
  /**
   * The decoded `data` of a Secret; `undefined` if it does not exist. `account` is the service account, in the Secret's
   * namespace, of the deployment that references it: the Secret is read as this account if the server is configured to
   * do so.
   */
  get(namespace: string, name: string, account?: string): Promise<Readonly<Record<string, string>> | undefined>;
}

/** Service accounts of the server's own cluster. */
export interface ServiceAccounts {
  /** Returns `undefined` if the account does not exist. */
  annotations(namespace: string, name: string): Promise<Readonly<Record<string, string>> | undefined>;
  /** Creates a token of the account for the audience or, without one, for the API server itself. */
  createToken(namespace: string, name: string, of: { audience?: string; seconds: number }): Promise<string>;
}

/** Local directories that users provide in place of sources, with `kluctl gitops`. */
export interface Overrides {
  /**
   * Opens the overrides for one run of one deployment, without requesting anything yet. Throws PrepareError for
   * overrides that can never work.
   */
  open(overrides: readonly SourceOverride[]): Promise<OfferedSources>;
}

/** Git, with one mirror per repository, of which each login gets what the remote has shown to it, and OCI artifacts. */
export interface Sources {
  /**
   * One `ls-remote`, or one fetch if the repository has moved since the last answer. An earlier answer is reused if it is
   * recent enough, so that the many deployments of one push share one query; `undefined`: git is asked now.
   */
  heads(
    repository: Repository,
    freshness: Freshness | undefined,
    signal?: AbortSignal,
    options?: Leaving,
  ): Promise<Heads>;
  /** One `ls-remote` for these full ref names, of any kind; returns the commits of those that the remote has. */
  commitsAt(
    repository: Repository,
    names: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>>;
  /**
   * Provides the repository at the ref's commit, as a normal clone shared with other readers of the same commit, or the
   * content of the artifact. It is read-only and exists until it is released. Throws SourceError.
   */
  checkout(
    source: CheckoutSource,
    freshness: Freshness | undefined,
    signal: AbortSignal,
    options?: Leaving,
  ): Promise<Checkout>;
  /** How long an operation on the repository has been running, if that is longer than usual. No I/O. */
  slowForMs(repo: RepoId): number | undefined;
  /** One `HEAD` request. Throws SourceError. */
  tag(source: OciCheckoutSource, signal: AbortSignal): Promise<Tag>;
  /** Merges one commit into another, without changing the remote. Throws SourceError. */
  merge(source: MergeSource, signal: AbortSignal): Promise<Merge>;
  /** The files in which two commits differ, in either order. Throws SourceError. */
  changes(repository: Repository, from: string, to: string, signal: AbortSignal): Promise<ChangedPaths>;
  /** Whether `commit` is, or leads back to, `ancestor`. Throws SourceError; `ref-not-found` if there is no such commit. */
  contains(
    repository: Repository,
    commit: string,
    ancestor: string,
    signal?: AbortSignal,
    options?: Leaving,
  ): Promise<boolean>;
  /** Who wrote a commit, and the first line of its message. Throws SourceError. */
  authorship(repository: Repository, commit: string, signal: AbortSignal): Promise<Authorship>;
  /** Like `authorship`, from what this process has: the remote is not asked. `undefined` if it does not have the commit. */
  knownAuthorship(repository: Repository, commit: string, signal: AbortSignal): Promise<Authorship | undefined>;
  /** The last answer of `heads` to this login, if this process asked lately. The remote is not asked. */
  knownHeads(repository: Repository): Promise<KnownHeads | undefined>;
}

/** Runs the real kluctl, one process per call. Throws PrepareError, KilledError or KluctlUnavailableError. */
export interface Kluctl {
  /** The version it reports: `2.28.2`. */
  version(): Promise<string>;
  diff(run: Run, options: DiffOptions, signal: AbortSignal): Promise<CommandResult>;
  deploy(run: Run, options: DeployOptions, signal: AbortSignal): Promise<CommandResult>;
  pokeImages(run: Run, options: { dryRun: boolean }, signal: AbortSignal): Promise<CommandResult>;
  validate(run: Run, signal: AbortSignal): Promise<ValidateResult>;
  /**
   * Renders all objects of the project from its files alone: without cluster, logins and network, in a complete
   * sandbox. Rejected where there is no such sandbox. Throws NeedsMoreError if the project needs the cluster or the
   * network.
   */
  render(run: Run, options: RenderOptions, signal: AbortSignal): Promise<CommandResult>;
  /** Finds what a prune would delete, as orphans. It deletes nothing: kluctl would wait until all of it is gone. */
  prune(run: Run, signal: AbortSignal): Promise<CommandResult>;
  /** Deletes all objects with the discriminator; needs no project. */
  delete(run: Omit<Run, "projectDir">, options: DeleteOptions, signal: AbortSignal): Promise<CommandResult>;
}

/** Objects in the target cluster of a deployment. */
export interface Objects {
  /**
   * Deletes exactly these objects without waiting for them: an object with a finalizer disappears later. (kluctl's
   * prune waits for each object, a few at a time, until its timeout ends, and never gets to the remaining ones.)
   * Returns the objects that could not be deleted, with reasons.
   */
  delete(
    doomed: readonly Doomed[],
    run: Partial<Identity>,
    options: { dryRun: boolean },
    signal: AbortSignal,
  ): Promise<readonly ResultError[]>;
  /** Reads objects with the permissions that `run` has; one answer for each query. An object that is missing is not in it. */
  read(
    queries: readonly ObjectQuery[],
    run: Partial<Identity>,
    signal: AbortSignal,
  ): Promise<readonly QueriedObjects[]>;
}

/** The versions of all objects that deployments have applied to the server's own cluster, from watches. */
export interface AppliedObjects {
  /**
   * The objects with the discriminator by id, from the cache; no I/O. Kinds that are not watched yet are watched from
   * now on.
   */
  find(discriminator: string, scope: AppliedScope): AppliedVersions;
  onChange(callback: (change: AppliedChange) => void): void;
}

export interface Leases {
  /**
   * Returns `undefined` while another process holds the lease. With an owner, the lease is deleted together with the
   * owner. An owner that is being deleted can be finalized even if leases can no longer be created because the
   * namespace is being deleted.
   */
  hold(key: Key, owner?: LeaseOwner): Promise<Held | undefined>;
}

/** kluctl's store of results, read by `kluctl gitops` and the web UI. */
export interface Results {
  /**
   * Stores the document under its own `id`, with the values of its Secrets, its secret vars and `knownSecrets`
   * obfuscated; its changes, errors and warnings are already masked. Removes old results beyond the limit. Returns
   * false if the document is too large to store.
   */
  storeCommand(result: CommandResult, summary: JsonObject, knownSecrets: readonly string[]): Promise<boolean>;
  storeValidate(document: JsonObject, summary: JsonObject): Promise<boolean>;
}

/** The job queue in Redis. */
export interface Queue {
  /**
   * Resolves once Redis has stored all of them; otherwise throws QueueUnavailableError within two seconds. First
   * records that the repositories in `moved` moved, like markMoved.
   */
  enqueue(requests: readonly Request[], moved?: readonly RepoId[]): Promise<Enqueued>;
  /** Records that the repository moved, so that no earlier answer is reused. Throws like `enqueue`. */
  markMoved(repo: RepoId): Promise<void>;
  /** The name of the repository's last recorded move, for a Freshness; `undefined` if Redis has none. */
  lastMove(repo: RepoId): Promise<string | undefined>;
}

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
}
