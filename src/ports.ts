/**
 * The ports: what the domain logic needs from external systems, in its own terms. Each is small enough for a fake with
 * a Map.
 */
import type { IncomingMessage } from "node:http";
import type {
  AsOf,
  Cause,
  ChangedPaths,
  CommandResult,
  CommitKey,
  CommitStatus,
  Credentials,
  Deployment,
  ForgeComment,
  GitDeployment,
  GitRef,
  GitSource,
  Heads,
  Key,
  MalformedDeployment,
  MergeGroupKey,
  ObjectRef,
  ObjectVersion,
  OciSource,
  PullRequest,
  PullRequestKey,
  Repository,
  RepoId,
  RepoKey,
  Request,
  ResultError,
  SourceOverride,
  ValidateResult,
} from "./model.ts";
import type { Report } from "./model/report.ts";

/** The KluctlDeployments of the watched namespaces. */
export interface Deployments {
  /** Reads from the API server, not from the watch's cache. */
  get(key: Key): Promise<Deployment | MalformedDeployment | undefined>;
  /**
   * Reads from the API server and applies a JSON merge patch, for a request with one-off overrides. Malformed if the
   * patch changes anything but the spec, or makes the spec invalid.
   */
  overridden(
    deployment: DeploymentRef,
    patch: Readonly<Record<string, unknown>>,
  ): Promise<Deployment | MalformedDeployment | undefined>;
  /** The deployments that follow the repository, from the watch's index; no I/O. */
  tracking(repo: RepoId): readonly GitDeployment[];
  /**
   * Resolves once `all` is complete, in most cases immediately: the watch has listed all deployments and is not
   * interrupted. Throws ApiError if that takes too long.
   */
  whenSynced(signal: AbortSignal): Promise<void>;
  /** All deployments in the watch's cache; no I/O. */
  all(): readonly (Deployment | MalformedDeployment)[];
  /**
   * Applies a JSON merge patch to `status`. The caller must hold the deployment's lease and abort when it is lost.
   * Throws if the name now belongs to another resource.
   */
  patchStatus(deployment: DeploymentRef, patch: StatusPatch, signal?: AbortSignal): Promise<void>;
  /**
   * Like `patchStatus`, but without a lease, and only if nothing was written since the deployment was read; returns
   * whether it was written.
   */
  moveTimes(deployment: DeploymentRef & Pick<Deployment, "resourceVersion">, patch: StatusPatch): Promise<boolean>;
  /** Adds or removes one finalizer. Ignores a resource that was deleted in the meantime. */
  setFinalizer(deployment: DeploymentRef, finalizer: string, present: boolean): Promise<void>;
  /** Removes the annotation unless its value changed since it was read. */
  removeAnnotation(deployment: DeploymentRef, name: string, value: string): Promise<void>;
  /** Emits an Event; never throws and never blocks. */
  event(deployment: DeploymentRef, type: "Normal" | "Warning", reason: string, message: string): void;
}

/** A change of a resource, as seen by the watch. */
export interface DeploymentChange {
  readonly kind: "added" | "changed" | "removed";
  readonly deployment: Deployment | MalformedDeployment;
  readonly previous?: Deployment | MalformedDeployment | undefined;
}

/** Fields of `status` to set; `null` removes a field. */
export type StatusPatch = Readonly<Record<string, unknown>>;

/** Identifies one resource. Both APIs have KluctlDeployments, so two of them may have the same name. */
export type DeploymentRef = Pick<Deployment, "key" | "uid" | "apiVersion" | "deployAsked">;

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

/**
 * The sources provided by clients. Everything is removed on release. All methods throw PrepareError if a client does
 * not deliver what it offered.
 */
export interface OfferedSources {
  /**
   * The directory provided for a repository by any matching override; `undefined` if no client has one. A client is
   * asked once and has `timeoutMs` to respond.
   */
  find(key: RepoKey, timeoutMs: number, signal: AbortSignal): Promise<string | undefined>;
  /** Like `find`, for a deployment's own source; the checkout has no commit. */
  checkout(key: RepoKey, path: string, timeoutMs: number, signal: AbortSignal): Promise<Checkout | undefined>;
  /** A path to a file, to be used where kluctl expects a directory. */
  readonly nowhere: string;
  /** An empty project. */
  readonly nothing: string;
  release(): Promise<void>;
}

/** Authenticates the source-override service and its clients: PEM texts, and a secret shared between controllers. */
export interface KeyMaterial {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  readonly controllerSecret: Buffer;
}

/** Git, with one mirror per repository, of which each login gets what the remote has shown to it, and OCI artifacts. */
export interface Sources {
  /**
   * One `ls-remote`, or one fetch if something has most likely moved. An answer requested under the same name is
   * reused, so that the many deployments of one push share one query. Without a name, the remote is always queried.
   */
  heads(repository: Repository, asOf: AsOf | undefined, signal?: AbortSignal, options?: Leaving): Promise<Heads>;
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
  checkout(source: CheckoutSource, asOf: AsOf | undefined, signal: AbortSignal, options?: Leaving): Promise<Checkout>;
  /** How long an operation on the repository has been running, if that is longer than usual. No I/O. */
  slowForMs(repo: RepoId): number | undefined;
  /** One `HEAD` request. Throws SourceError. */
  tag(source: OciCheckoutSource, signal: AbortSignal): Promise<Tag>;
  /** Merges one commit into another, without changing the remote. Throws SourceError. */
  merge(source: MergeSource, signal: AbortSignal): Promise<Merge>;
  /** The files in which two commits differ, in either order. Throws SourceError. */
  changes(repository: Repository, from: string, to: string, signal: AbortSignal): Promise<ChangedPaths>;
}

export interface Leaving {
  /** Throws a RemoteBusyError instead of waiting while another operation on the remote is slow. */
  readonly leaves?: boolean | undefined;
}

/** Why the files of a checkout may render differently another time; for display. */
export interface UnsteadyFiles {
  readonly templates?: string | undefined;
  /** Only relevant to projects with Helm charts. */
  readonly charts?: string | undefined;
  /** Why files outside the directory may be read. */
  readonly outside?: string | undefined;
}

/** The artifact that a tag points to. */
export interface Tag {
  /** Absent if the registry does not report it. */
  readonly digest: string | undefined;
  /** The digest of this process's last checkout of the tag, if there was one. */
  readonly checkedOut: string | undefined;
}

export interface MergeSource extends Repository {
  /** The full hashes of both commits. */
  readonly head: string;
  readonly base: string;
  /** The head is already the merge commit, created by the host on top of the base. */
  readonly isMerged?: boolean | undefined;
}

export type Merge = Merged | { readonly kind: "conflict"; readonly paths: readonly string[] };

/** A merge of two commits, in a clone of its own, shared by readers; nothing writes to it. */
export interface Merged {
  readonly kind: "merged";
  /** The files in which the merge differs from the base. */
  readonly changed: ChangedPaths;
  /** The directory that contains the clone and nothing else. */
  readonly slot: string;
  /** The directory of the project at this path. Throws SourceError. */
  project(path: string): Promise<string>;
  /**
   * Like `project`, in a clone of its own with placeholders for all encrypted values. With `of`: that commit instead of
   * the merge, or the base if the commit is unknown. Throws SourceError, PrepareError.
   */
  stubbed(path: string, signal: AbortSignal, of?: { readonly deployed: string | undefined }): Promise<Stubbed>;
  /** The hosts that the base's projects fetch from, as far as their files name them. Throws SourceError. */
  baseHosts(signal: AbortSignal): Promise<readonly string[]>;
  release(): Promise<void>;
}

export interface Stubbed {
  /** The directory that contains the clone and nothing else. */
  readonly slot: string;
  readonly projectDir: string;
  /** For the whole repository: path from its root → digest of the encrypted values in that file. */
  readonly encrypted: ReadonlyMap<string, string>;
}

/** Finds encrypted values in a checkout and replaces them by placeholders. */
export interface EncryptedFiles {
  find(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
  stub(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
}

/** A source with the logins to try for it; the first match wins. */
export type CheckoutSource = GitCheckoutSource | OciCheckoutSource;

export interface GitCheckoutSource extends Omit<GitSource, "kind"> {
  readonly kind?: "git";
  /** The last observed commit: before going back to one of its ancestors, git is queried again. */
  readonly seen?: string | undefined;
  readonly credentials: Credentials["git"];
}

export interface OciCheckoutSource extends OciSource {
  readonly credentials: Credentials["oci"];
}

export interface Checkout {
  /** The clone's root. */
  readonly root: string;
  /** The project's directory: root + source.path. */
  readonly projectDir: string;
  /** For an artifact: the commit that it says it was built from, or empty. For a working copy: empty. */
  readonly commit: string;
  /** The ref that an artifact says it was built from. */
  readonly madeFrom?: GitRef | undefined;
  release(): Promise<void>;
}

/** A cluster other than the server's own. */
export interface RemoteCluster {
  /** A kubeconfig whose only context is "default"; it includes the impersonation. */
  readonly kubeconfig: string;
  /** Equal for kubeconfigs that lead to the same server; separates caches of different clusters. */
  readonly fingerprint: string;
}

/** A request to an API server. */
export interface ApiExchange {
  readonly method: string;
  /** Path and query, starting at the server's root. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
}

/** Access to an API server as one account. Requests carry the login; callers never see it. */
export interface ApiAccess {
  /** Equal for the same API server. */
  readonly cluster: string;
  /** Equal for the same login to the same API server. */
  readonly account: string;
  /** Resolves once the response headers have arrived; the body has yet to be read. */
  send(exchange: ApiExchange): Promise<IncomingMessage>;
  /** Call this if the login was rejected: the next request uses a new one. */
  renewLogin(): void;
  /** Call this when it is no longer needed. */
  release(): void;
}

/** The keys with which kluctl may decrypt the project's encrypted files. */
export interface DecryptionKeys {
  /** The Secret's name, for messages. */
  readonly secretName?: string | undefined;
  /** The Secret's data. */
  readonly data: Readonly<Record<string, string>>;
  /** The credentials with which AWS grants the role of a service account. */
  readonly webIdentity?: { readonly roleArn: string; readonly token: string } | undefined;
}

/** The user that kluctl acts as, and the cluster. */
export interface Identity {
  /** User to impersonate on the cluster (`system:serviceaccount:<ns>:<name>`); `undefined`: no impersonation. */
  readonly impersonate?: string | undefined;
  /** `undefined`: the server's own cluster. */
  readonly cluster?: RemoteCluster | undefined;
  /** `undefined`: nothing in the project is decrypted. */
  readonly decryption?: DecryptionKeys | undefined;
  /** All values in it that must not be shown. */
  readonly secrets: readonly string[];
}

/** The directory that kluctl uses in place of a repository, or of all repositories below a path. */
export interface LocalOverride extends Pick<SourceOverride, "repoKey" | "isGroup"> {
  readonly path: string;
}

/** The parameters of one kluctl process. */
export interface Run extends Partial<Identity> {
  readonly deployment: Key;
  /** Correlates log lines, results and requests of kluctl's command line. */
  readonly reconcileId: string;
  readonly projectDir: string;
  readonly target?: string | undefined;
  readonly targetNameOverride?: string | undefined;
  readonly context?: string | undefined;
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  readonly images: readonly Readonly<Record<string, unknown>>[];
  readonly includeTags: readonly string[];
  readonly excludeTags: readonly string[];
  readonly includeDeploymentDirs: readonly string[];
  readonly excludeDeploymentDirs: readonly string[];
  /** Directories to use in place of what the project includes; the first match wins. */
  readonly localOverrides?: readonly LocalOverride[] | undefined;
  /** Logins for what the project includes: git repositories, OCI artifacts, Helm charts. */
  readonly credentials: Credentials;
  /** Timeout of the process in milliseconds. */
  readonly timeoutMs: number;
  /** Use a renderer that no other run uses before or after; for code that has not been approved yet. */
  readonly cold?: boolean | undefined;
  /**
   * The directory that contains the project's clone and nothing else: of the server's files, a confined run may read
   * only this.
   */
  readonly slot?: string | undefined;
  /** The hosts that a confined run may reach, in the format of `preview.hosts`. */
  readonly hosts?: readonly string[] | undefined;
  /** The fence: kluctl is stopped before another worker can take the lease. Required for mutating runs. */
  readonly held?: Held | undefined;
}

export interface DiffOptions {
  readonly forceApply: boolean;
  readonly replaceOnError: boolean;
  readonly forceReplaceOnError: boolean;
}

export interface DeployOptions extends DiffOptions {
  readonly dryRun: boolean;
  readonly noWait: boolean;
  readonly abortOnError: boolean;
}

export interface RenderOptions {
  /** The Kubernetes version for charts; kluctl's default if absent. */
  readonly kubernetesVersion?: string | undefined;
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
  delete(
    run: Omit<Run, "projectDir">,
    options: { discriminator: string; dryRun: boolean },
    signal: AbortSignal,
  ): Promise<CommandResult>;
}

/** An object to be deleted. */
export interface Doomed {
  /** The reference in kluctl's result. */
  readonly ref: ObjectRef;
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid: string;
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
}

/** A kind, and the namespaces in which a deployment has objects of it; `""` stands for cluster-scoped objects. */
export interface AppliedKind {
  readonly group: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespaces: readonly string[];
}

/** The kinds that a deployment has applied, and the user it applied them as. */
export interface AppliedScope {
  readonly impersonate?: string | undefined;
  readonly kinds: readonly AppliedKind[];
}

/** A change of an object with a discriminator. */
export interface AppliedChange {
  readonly discriminator: string;
  readonly id: string;
  readonly deleted: boolean;
}

/** The versions of all objects that deployments have applied to the server's own cluster, from watches. */
export interface AppliedObjects {
  /**
   * The objects with the discriminator by id, from the cache; no I/O. Kinds that are not watched yet are watched from
   * now on.
   */
  find(
    discriminator: string,
    scope: AppliedScope,
  ):
    | { readonly objects: ReadonlyMap<string, ObjectVersion>; readonly unknown?: undefined }
    | { readonly objects?: undefined; readonly unknown: string };
  onChange(callback: (change: AppliedChange) => void): void;
}

/** A lease that is renewed until it is released or lost. */
export interface Held {
  /** Aborts when the lease was not renewed in time, before another worker can take it. */
  readonly lost: AbortSignal;
  /**
   * Calls back after each successful renewal with the time when it was requested (`monotonicNow()`), and immediately if
   * the last one is recent; returns a function that stops it.
   */
  onRenewed(callback: (renewedAt: number) => void): () => void;
  /**
   * When this process released the lease, if it was the last holder (`monotonicNow()`): no other worker has changed the
   * deployment's state since then.
   */
  readonly untouchedSince?: number | undefined;
  release(): Promise<void>;
}

export type LeaseOwner = Omit<DeploymentRef, "key"> & { readonly deletionTimestamp?: string | undefined };

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
  storeCommand(
    result: CommandResult,
    summary: Readonly<Record<string, unknown>>,
    knownSecrets: readonly string[],
  ): Promise<boolean>;
  storeValidate(
    document: Readonly<Record<string, unknown>>,
    summary: Readonly<Record<string, unknown>>,
  ): Promise<boolean>;
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
  /** The name of the repository's last known move (see Sources.heads); `undefined` if Redis no longer has it. */
  lastMove(repo: RepoId): Promise<string | undefined>;
}

/**
 * The results of previews per pull request, redacted. Kept in Redis for some days; a pull request whose report is lost
 * is previewed again. All methods throw QueueUnavailableError.
 */
export interface Reports {
  save(report: Report): Promise<void>;
  find(key: PullRequestKey): Promise<Report | undefined>;
  /** The open pull requests into that branch that have a report. */
  openInto(repo: RepoId, branch: string): Promise<readonly PullRequestKey[]>;
  /** The reports of open pull requests that propose this commit. */
  proposing(repo: RepoId, head: string): Promise<readonly Report[]>;
  /** The statuses written for a commit, as far as they are recorded. */
  statuses(commit: CommitKey): Promise<readonly CommitStatus[]>;
  /** Keeps the statuses of other contexts: several jobs may write for one commit at the same time. */
  saveStatuses(commit: CommitKey, statuses: readonly CommitStatus[]): Promise<void>;
  /** The statuses of a merge queue's groups for this commit, by branch. */
  groupStatuses(commit: CommitKey): Promise<ReadonlyMap<string, CommitStatus>>;
  saveGroupStatus(group: MergeGroupKey, status: CommitStatus): Promise<void>;
  /** Records whether a pushed commit still lacks its final status. */
  setUnsettled(commit: CommitKey, repo: RepoId, unsettled: boolean): Promise<void>;
  /** The commits pushed to this repository that still lack their final status. */
  unsettled(repo: RepoId): Promise<readonly CommitKey[]>;
  /** Records whether a forge rejected the report of a pull request, or a query about it. */
  setRefused(key: PullRequestKey, refused: boolean): Promise<void>;
  /** The pull requests of this forge whose reports were rejected and not written since. */
  refused(forge: string): Promise<readonly PullRequestKey[]>;
}

/** One git host with pull requests. All calls throw ForgeError. */
export interface Forge {
  readonly id: string;
  readonly kind: "github" | "gitlab" | "gitea";
  /** The most characters (Unicode code points) that a comment may have. */
  readonly maxCommentLength: number;
  /** The repository's name on this forge; `undefined` if, judging by the address, it is not on this forge. */
  repoName(repo: RepoId): string | undefined;
  /** Returns `undefined` if it does not exist. */
  pullRequest(key: PullRequestKey, signal?: AbortSignal): Promise<PullRequest | undefined>;
  openPullRequests(repoName: string, signal?: AbortSignal): Promise<readonly PullRequest[]>;
  /**
   * Closed and merged pull requests updated since then (epoch milliseconds), most recently updated first. One request:
   * at most what the host returns in one page.
   */
  closedPullRequests(repoName: string, since: number, signal?: AbortSignal): Promise<readonly PullRequest[]>;
  /** All comments written by this forge's login, oldest first. */
  ownComments(key: PullRequestKey, signal?: AbortSignal): Promise<readonly ForgeComment[]>;
  createComment(key: PullRequestKey, body: string, signal?: AbortSignal): Promise<ForgeComment>;
  /** Returns `undefined` if the comment was deleted in the meantime. */
  updateComment(key: PullRequestKey, id: string, body: string, signal?: AbortSignal): Promise<ForgeComment | undefined>;
  /** Ignores a comment that no longer exists. */
  deleteComment(key: PullRequestKey, id: string, signal?: AbortSignal): Promise<void>;
  setStatus(commit: CommitKey, status: CommitStatus, signal?: AbortSignal): Promise<void>;
}

export interface Enqueued {
  /** How many requests created a new job. The others joined a waiting one. */
  readonly queued: number;
}

/** One change in a cluster: its cause, target, commit and outcome. */
export interface Change {
  readonly action: "deploy" | "poke-images" | "prune" | "delete";
  /** The reason for the action; `requested`: a user requested the action itself. */
  readonly why: string;
  readonly cause: Cause;
  /** The pusher's account, as the git host names it. */
  readonly sender?: string | undefined;
  readonly delivery?: string | undefined;
  /** The value of the user's request. */
  readonly request?: string | undefined;
  readonly deployment: Key;
  /** UID of kube-system in the target cluster, if known. */
  readonly cluster?: string | undefined;
  readonly target?: string | undefined;
  readonly discriminator?: string | undefined;
  readonly serviceAccount?: string | undefined;
  /** The URL in the deployment's spec, without a login. */
  readonly repo: string;
  readonly ref: string;
  /** Empty for a working copy. */
  readonly commit: string;
  readonly objectsHash?: string | undefined;
  /** The approved hash, if changes need approval. */
  readonly approved?: string | undefined;
  readonly dryRun: boolean;
  /** `interrupted`: kluctl was killed, and what it did is unknown. */
  readonly result: "ok" | "errors" | "interrupted";
  readonly objects?: ChangedObjects | undefined;
  readonly reconcileID: string;
  readonly ms: number;
}

export interface ChangedObjects {
  readonly new: number;
  readonly changed: number;
  readonly deleted: number;
  readonly errors: number;
}

export type Audit = (change: Change) => void;

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
}
