/** The seams: what the decisions need from the outside, in their words. Each is small enough to be faked with a Map. */
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
import type { Report } from "./report.ts";

/** The KluctlDeployments of the watched namespaces. */
export interface Deployments {
  /** Read afresh from the API server, not from the watch's memory. */
  get(key: Key): Promise<Deployment | MalformedDeployment | undefined>;
  /**
   * Read afresh, with a JSON merge patch applied: as somebody wants it for once. Malformed if the patch changes anything
   * but the spec, or makes that invalid.
   */
  overridden(
    deployment: DeploymentRef,
    patch: Readonly<Record<string, unknown>>,
  ): Promise<Deployment | MalformedDeployment | undefined>;
  /** From the watch's index, no I/O: those that follow the repository. */
  tracking(repo: RepoId): readonly GitDeployment[];
  /**
   * Resolves while `all` leaves nobody out, at once in most cases: the watch has listed, and is not broken off. Throws
   * ApiError if that takes too long.
   */
  whenSynced(signal: AbortSignal): Promise<void>;
  /** From the watch's memory, no I/O. */
  all(): readonly (Deployment | MalformedDeployment)[];
  /**
   * JSON merge patch of `status`. Whoever writes holds the deployment's lease, and aborts when it is lost. Throws if another
   * resource has the name by now.
   */
  patchStatus(deployment: DeploymentRef, patch: StatusPatch, signal?: AbortSignal): Promise<void>;
  /**
   * The same without a lease, and only if nobody wrote anything since the deployment was read: says whether it was
   * written.
   */
  moveTimes(deployment: DeploymentRef & Pick<Deployment, "resourceVersion">, patch: StatusPatch): Promise<boolean>;
  /** Adds or removes one finalizer. A resource that is gone meanwhile is no error. */
  setFinalizer(deployment: DeploymentRef, finalizer: string, present: boolean): Promise<void>;
  /** Removes the annotation unless its value changed since it was read. */
  removeAnnotation(deployment: DeploymentRef, name: string, value: string): Promise<void>;
  /** Reports to people; never throws, never waits. */
  event(deployment: DeploymentRef, type: "Normal" | "Warning", reason: string, message: string): void;
}

/** What the watch saw become of a resource. */
export interface DeploymentChange {
  readonly kind: "added" | "changed" | "removed";
  readonly deployment: Deployment | MalformedDeployment;
  readonly previous?: Deployment | MalformedDeployment | undefined;
}

/** Fields of `status` to set; `null` removes one. */
export type StatusPatch = Readonly<Record<string, unknown>>;

/** One very resource. Both APIs have KluctlDeployments, so a name alone may mean two of them. */
export type DeploymentRef = Pick<Deployment, "key" | "uid" | "apiVersion" | "deployAsked">;

export interface Secrets {
  /**
   * Decoded `data` of a Secret, or `undefined` if there is none. `account` is the service account in its namespace that who
   * names the Secret is deployed as: it is read in its name, if the server is told to.
   */
  get(namespace: string, name: string, account?: string): Promise<Readonly<Record<string, string>> | undefined>;
}

/** Service accounts of the server's own cluster. */
export interface ServiceAccounts {
  /** `undefined` if there is none. */
  annotations(namespace: string, name: string): Promise<Readonly<Record<string, string>> | undefined>;
  /** A token that tells who it is: the audience, or the API server itself if there is none. */
  createToken(namespace: string, name: string, of: { audience?: string; seconds: number }): Promise<string>;
}

/** What people offer from their own machines instead of sources, with `kluctl gitops`. */
export interface Overrides {
  /** For one run of one deployment. Nothing is asked for yet. Throws PrepareError for what can never be had. */
  open(overrides: readonly SourceOverride[]): Promise<OfferedSources>;
}

/** All of it goes when it is released. Everything throws PrepareError when a client does not give what it offered. */
export interface OfferedSources {
  /**
   * The directory that is offered for a repository, of any override that fits; `undefined` if nobody has one. A client is
   * asked once, and has `timeoutMs` for its answer.
   */
  find(key: RepoKey, timeoutMs: number, signal: AbortSignal): Promise<string | undefined>;
  /** The same for a deployment's own source; without a commit, as it has none. */
  checkout(key: RepoKey, path: string, timeoutMs: number, signal: AbortSignal): Promise<Checkout | undefined>;
  /** A file, where kluctl expects a directory. */
  readonly nowhere: string;
  /** A project without anything in it. */
  readonly nothing: string;
  release(): Promise<void>;
}

/** What the source-override service and its clients know each other by: PEM texts, and a secret between controllers. */
export interface KeyMaterial {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
  readonly controllerSecret: Buffer;
}

/** Git, one mirror per repository and login, and OCI artifacts. */
export interface Sources {
  /**
   * One `ls-remote`, or one fetch where something has most likely moved. An answer that was asked for under the same
   * name is used again, so that the many deployments of one push share one. Without a name the remote is asked.
   */
  heads(repository: Repository, asOf: AsOf | undefined, signal?: AbortSignal, options?: Leaving): Promise<Heads>;
  /** One `ls-remote` of these refs by their full names, whatever they are: the commits of those that the remote has. */
  commitsAt(
    repository: Repository,
    names: readonly string[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, string>>;
  /**
   * The repository at the ref's commit, a normal clone that others who want the same read too; or what is in the
   * artifact. Nobody writes into it. It is there until it is released. Throws SourceError.
   */
  checkout(source: CheckoutSource, asOf: AsOf | undefined, signal: AbortSignal, options?: Leaving): Promise<Checkout>;
  /** How long a conversation with the repository takes already, if that is longer than most. No I/O. */
  slowForMs(repo: RepoId): number | undefined;
  /** One `HEAD`. Throws SourceError. */
  tag(source: OciCheckoutSource, signal: AbortSignal): Promise<Tag>;
  /** What merging one commit into another gives, without touching the remote. Throws SourceError. */
  merge(source: MergeSource, signal: AbortSignal): Promise<Merge>;
  /** The files in which two commits differ, whichever is the older. Throws SourceError. */
  changes(repository: Repository, from: string, to: string, signal: AbortSignal): Promise<ChangedPaths>;
}

export interface Leaving {
  /** Throws a RemoteBusyError instead of waiting while somebody else's conversation with the remote is slow. */
  readonly leaves?: boolean | undefined;
}

/** Why what a checkout holds may render differently another time; for people. */
export interface UnsteadyFiles {
  readonly templates?: string | undefined;
  /** Matters to a project with Helm charts only. */
  readonly charts?: string | undefined;
  /** Why files outside of the directory may be read. */
  readonly outside?: string | undefined;
}

/** What the tag of an artifact points to. */
export interface Tag {
  /** `undefined` if its registry does not say. */
  readonly digest: string | undefined;
  /** What this process has last found there when it checked the artifact out, if it did. */
  readonly checkedOut: string | undefined;
}

export interface MergeSource extends Repository {
  /** The full hashes of both commits. */
  readonly head: string;
  readonly base: string;
  /** The head is the merge itself, as the host made it on the base. */
  readonly isMerged?: boolean | undefined;
}

export type Merge = Merged | { readonly kind: "conflict"; readonly paths: readonly string[] };

/** A clone of its own at the merge, for many to read and none to write. */
export interface Merged {
  readonly kind: "merged";
  /** The files in which the merge differs from the base. */
  readonly changed: ChangedPaths;
  /** The directory that holds the clone, and nothing else. */
  readonly slot: string;
  /** The directory of the project at this path. Throws SourceError. */
  project(path: string): Promise<string>;
  /**
   * The same with placeholders in place of all encrypted values, in a clone of its own. `of`: of that commit instead of the
   * merge, or of the base where it is not known. Throws SourceError, PrepareError.
   */
  stubbed(path: string, signal: AbortSignal, of?: { readonly deployed: string | undefined }): Promise<Stubbed>;
  /** From which hosts the projects of the base fetch something, as far as their files name them. Throws SourceError. */
  baseHosts(signal: AbortSignal): Promise<readonly string[]>;
  release(): Promise<void>;
}

export interface Stubbed {
  /** The directory that holds the clone, and nothing else. */
  readonly slot: string;
  readonly projectDir: string;
  /** All of the repository: path from its root → digest of what is encrypted in that file. */
  readonly encrypted: ReadonlyMap<string, string>;
}

/** What finds encrypted values in a checkout, and puts placeholders in their place. */
export interface EncryptedFiles {
  find(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
  stub(root: string, signal: AbortSignal): Promise<Stubbed["encrypted"]>;
}

/** With the logins that may be tried on it, first match wins. */
export type CheckoutSource = GitCheckoutSource | OciCheckoutSource;

export interface GitCheckoutSource extends Omit<GitSource, "kind"> {
  readonly kind?: "git";
  /** The commit that was there last: git is asked once more before it goes back to one of its ancestors. */
  readonly seen?: string | undefined;
  readonly credentials: Credentials["git"];
}

export interface OciCheckoutSource extends OciSource {
  readonly credentials: Credentials["oci"];
}

export interface Checkout {
  /** The clone's root. */
  readonly root: string;
  /** The project: root + source.path. */
  readonly projectDir: string;
  /** Of an artifact: the commit that it was made from, as it says; empty if it does not. Of a working copy: empty. */
  readonly commit: string;
  /** Where an artifact says that it was made from. */
  readonly madeFrom?: GitRef | undefined;
  release(): Promise<void>;
}

/** Another cluster than the server's own. */
export interface RemoteCluster {
  /** The text of a kubeconfig whose only context is "default"; it impersonates already. */
  readonly kubeconfig: string;
  /** Equal for kubeconfigs that lead to the same server: what is remembered of one is not true of others. */
  readonly fingerprint: string;
}

/** A request to an API server, as it is sent. */
export interface ApiExchange {
  readonly method: string;
  /** From the server's root, with its query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
}

/** An API server as one account meets it: what is sent carries the login, which nobody gets to see. */
export interface ApiAccess {
  /** Equal for the same API server. */
  readonly cluster: string;
  /** Equal for the same login to the same API server. */
  readonly account: string;
  /** Resolves once the answer's headers are there; the body is still to be read. */
  send(exchange: ApiExchange): Promise<IncomingMessage>;
  /** The login was refused: the next request brings a fresh one. */
  renewLogin(): void;
  /** Nobody uses it any more. */
  release(): void;
}

/** What kluctl may decrypt the project's encrypted files with. */
export interface DecryptionKeys {
  /** For messages: where they come from. */
  readonly secretName?: string | undefined;
  /** The Secret's data. */
  readonly data: Readonly<Record<string, string>>;
  /** What AWS takes for the role of a service account. */
  readonly webIdentity?: { readonly roleArn: string; readonly token: string } | undefined;
}

/** On whose behalf kluctl works, and where. */
export interface Identity {
  /** User to impersonate on the cluster (`system:serviceaccount:<ns>:<name>`); `undefined`: the login itself. */
  readonly impersonate?: string | undefined;
  /** `undefined`: the server's own cluster. */
  readonly cluster?: RemoteCluster | undefined;
  /** `undefined`: nothing of the project is to be decrypted. */
  readonly decryption?: DecryptionKeys | undefined;
  /** Everything in it that nobody may read. */
  readonly secrets: readonly string[];
}

/** What kluctl shall take instead of a repository, or instead of all below one. */
export interface LocalOverride extends Pick<SourceOverride, "repoKey" | "isGroup"> {
  readonly path: string;
}

/** One kluctl process. */
export interface Run extends Partial<Identity> {
  readonly deployment: Key;
  /** Ties log lines, results and the command line's requests together. */
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
  /** Directories to take instead of what the project includes; of several that fit the first counts. */
  readonly localOverrides?: readonly LocalOverride[] | undefined;
  /** Logins for what the project includes: git repositories, OCI artifacts, Helm charts. */
  readonly credentials: Credentials;
  /** How long the process may take, milliseconds. */
  readonly timeoutMs: number;
  /** Never with a renderer that other runs have used or will use; for code that nobody has approved yet. */
  readonly cold?: boolean | undefined;
  /** The directory that holds the project's clone and nothing else: of the server's, all that a confined run may read. */
  readonly slot?: string | undefined;
  /** Hosts that a confined run may reach, each as in `preview.hosts`. */
  readonly hosts?: readonly string[] | undefined;
  /** The fence: kluctl ends before somebody else can take the lease. Required for what mutates. */
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
  /** Of Kubernetes, for charts; kluctl's own choice if left out. */
  readonly kubernetesVersion?: string | undefined;
}

/** The real kluctl, one process per call. Throws PrepareError, KilledError or KluctlUnavailableError. */
export interface Kluctl {
  /** As it calls itself: `2.28.2`. */
  version(): Promise<string>;
  diff(run: Run, options: DiffOptions, signal: AbortSignal): Promise<CommandResult>;
  deploy(run: Run, options: DeployOptions, signal: AbortSignal): Promise<CommandResult>;
  pokeImages(run: Run, options: { dryRun: boolean }, signal: AbortSignal): Promise<CommandResult>;
  validate(run: Run, signal: AbortSignal): Promise<ValidateResult>;
  /**
   * All objects of the project, as its files alone give them: without cluster, logins and network, in a jail that lacks nothing.
   * Elsewhere it is refused. Throws NeedsMoreError where a project cannot do without.
   */
  render(run: Run, options: RenderOptions, signal: AbortSignal): Promise<CommandResult>;
  /** What a prune would delete, as orphans. It deletes nothing itself: kluctl would wait until all of it is gone. */
  prune(run: Run, signal: AbortSignal): Promise<CommandResult>;
  /** Deletes every object that carries the discriminator; needs no project. */
  delete(
    run: Omit<Run, "projectDir">,
    options: { discriminator: string; dryRun: boolean },
    signal: AbortSignal,
  ): Promise<CommandResult>;
}

/** An object that is to be deleted. */
export interface Doomed {
  /** As kluctl's result names it. */
  readonly ref: ObjectRef;
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string | undefined;
  readonly uid: string;
}

/** Objects of the cluster that a deployment deploys to. */
export interface Objects {
  /**
   * Deletes these very objects and waits for none: what a finalizer holds up goes when it may. (kluctl's prune waits
   * for each, few at a time, until its time-out is over, and those behind them are never asked to go.) Returns what could
   * not be deleted, and why.
   */
  delete(
    doomed: readonly Doomed[],
    run: Partial<Identity>,
    options: { dryRun: boolean },
    signal: AbortSignal,
  ): Promise<readonly ResultError[]>;
}

/** A kind of object, and where a deployment has such; `""` among the namespaces: in none. */
export interface AppliedKind {
  readonly group: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespaces: readonly string[];
}

/** What a deployment has applied, and as whom. */
export interface AppliedScope {
  readonly impersonate?: string | undefined;
  readonly kinds: readonly AppliedKind[];
}

/** What became of an object that carries a discriminator. */
export interface AppliedChange {
  readonly discriminator: string;
  readonly id: string;
  readonly deleted: boolean;
}

/** The versions of all objects that deployments have applied to the server's own cluster, from watches. */
export interface AppliedObjects {
  /** From memory, no I/O: what carries the discriminator, by id. What is not watched yet is, from now on. */
  find(
    discriminator: string,
    scope: AppliedScope,
  ):
    | { readonly objects: ReadonlyMap<string, ObjectVersion>; readonly unknown?: undefined }
    | { readonly objects?: undefined; readonly unknown: string };
  onChange(callback: (change: AppliedChange) => void): void;
}

/** A lease that is held, and renewed, until it is released or lost. */
export interface Held {
  /** Aborts when the lease could not be renewed in time, before anybody else can take it. */
  readonly lost: AbortSignal;
  /**
   * Calls back after each successful renewal with the time when it was requested (`monotonicNow()`), and right away if the
   * last one is fresh; returns how to stop.
   */
  onRenewed(callback: (renewedAt: number) => void): () => void;
  /**
   * When this process let go of it, if it was the last to hold it (`monotonicNow()`): whatever was read since is as the
   * last who worked under it has left it.
   */
  readonly untouchedSince?: number | undefined;
  release(): Promise<void>;
}

export type LeaseOwner = Omit<DeploymentRef, "key"> & { readonly deletionTimestamp?: string | undefined };

export interface Leases {
  /**
   * `undefined` while somebody else holds it. With an owner, the lease goes when the owner goes. An owner that is being
   * deleted is ended also where no lease can be had any more, because its namespace is being deleted.
   */
  hold(key: Key, owner?: LeaseOwner): Promise<Held | undefined>;
}

/** Upstream's store of results, read by `kluctl gitops` and the web UI. */
export interface Results {
  /**
   * Stores the document under its own `id`, with the values of its Secrets, its secret vars and `knownSecrets` obfuscated; its
   * changes, errors and warnings are masked already. Old ones beyond the keep count are removed. Returns false if it is too
   * large to be stored.
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

/** What Redis remembers until it is done. */
export interface Queue {
  /**
   * Resolves once Redis has all of them; throws QueueUnavailableError within two seconds otherwise. First it remembers that
   * the repositories `moved`, as markMoved does.
   */
  enqueue(requests: readonly Request[], moved?: readonly RepoId[]): Promise<Enqueued>;
  /** Remembers that the repository moved, so that no answer from before is used again. Same errors. */
  markMoved(repo: RepoId): Promise<void>;
  /** The name of the repository's last known move (see Sources.heads), or `undefined` if Redis has forgotten. */
  lastMove(repo: RepoId): Promise<string | undefined>;
}

/**
 * What previews found, per pull request, redacted. Kept in Redis for some days; where it is lost, the pull request is
 * previewed again. Reading and writing throw QueueUnavailableError.
 */
export interface Reports {
  save(report: Report): Promise<void>;
  find(key: PullRequestKey): Promise<Report | undefined>;
  /** The open pull requests into that branch, among those that have a report. */
  openInto(repo: RepoId, branch: string): Promise<readonly PullRequestKey[]>;
  /** What is known of the open pull requests that propose this commit. */
  proposing(repo: RepoId, head: string): Promise<readonly Report[]>;
  /** The statuses that were written for a commit, as far as they are remembered. */
  statuses(commit: CommitKey): Promise<readonly CommitStatus[]>;
  /** Beside those of other contexts: several may write of one commit at the same time. */
  saveStatuses(commit: CommitKey, statuses: readonly CommitStatus[]): Promise<void>;
  /** What was found out about a merge queue's groups of this commit, by their branches. */
  groupStatuses(commit: CommitKey): Promise<ReadonlyMap<string, CommitStatus>>;
  saveGroupStatus(group: MergeGroupKey, status: CommitStatus): Promise<void>;
  /** Remembers whether a pushed commit still has to be told how it ends. */
  setUnsettled(commit: CommitKey, repo: RepoId, unsettled: boolean): Promise<void>;
  /** The commits pushed to this repository that still have to be told how they end. */
  unsettled(repo: RepoId): Promise<readonly CommitKey[]>;
  /** Remembers whether a forge refused what there was to say of a pull request, or to ask about it. */
  setRefused(key: PullRequestKey, refused: boolean): Promise<void>;
  /** Of this forge, the pull requests of which nobody was told since. */
  refused(forge: string): Promise<readonly PullRequestKey[]>;
}

/** One git host with pull requests. All calls throw ForgeError. */
export interface Forge {
  readonly id: string;
  readonly kind: "github" | "gitlab" | "gitea";
  /** The most characters (Unicode code points) that a comment may have. */
  readonly maxCommentLength: number;
  /** The repository's name on this forge, if it is one of its repositories as far as the address tells. */
  repoName(repo: RepoId): string | undefined;
  /** `undefined` if there is none. */
  pullRequest(key: PullRequestKey, signal?: AbortSignal): Promise<PullRequest | undefined>;
  openPullRequests(repoName: string, signal?: AbortSignal): Promise<readonly PullRequest[]>;
  /**
   * Closed and merged pull requests that were updated since then (epoch milliseconds), most recently updated first. One request:
   * at most what the host returns in one page.
   */
  closedPullRequests(repoName: string, since: number, signal?: AbortSignal): Promise<readonly PullRequest[]>;
  /** The comments that this forge's login wrote itself, from all pages, oldest first. */
  ownComments(key: PullRequestKey, signal?: AbortSignal): Promise<readonly ForgeComment[]>;
  createComment(key: PullRequestKey, body: string, signal?: AbortSignal): Promise<ForgeComment>;
  /** `undefined` if somebody deleted it meanwhile. */
  updateComment(key: PullRequestKey, id: string, body: string, signal?: AbortSignal): Promise<ForgeComment | undefined>;
  /** A comment that is gone already is no error. */
  deleteComment(key: PullRequestKey, id: string, signal?: AbortSignal): Promise<void>;
  setStatus(commit: CommitKey, status: CommitStatus, signal?: AbortSignal): Promise<void>;
}

export interface Enqueued {
  /** How many of the requests made a new job. The others were already waiting. */
  readonly queued: number;
}

/** One change of what is deployed: who or what caused it, on which target, from which commit, and what came of it. */
export interface Change {
  readonly action: "deploy" | "poke-images" | "prune" | "delete";
  /** What the action was decided for; `asked for`: somebody wanted this very action. */
  readonly why: string;
  readonly cause: Cause;
  /** The account whose push it was, as the git host names it. */
  readonly sender?: string | undefined;
  readonly delivery?: string | undefined;
  /** What the request of a person says of itself. */
  readonly request?: string | undefined;
  readonly deployment: Key;
  /** UID of kube-system of the cluster that it was done to, as far as it is known. */
  readonly cluster?: string | undefined;
  readonly target?: string | undefined;
  readonly discriminator?: string | undefined;
  readonly serviceAccount?: string | undefined;
  /** The URL that the deployment names, without a login. */
  readonly repo: string;
  readonly ref: string;
  /** Empty for a working copy. */
  readonly commit: string;
  readonly objectsHash?: string | undefined;
  /** The hash that somebody approved, where changes need that. */
  readonly approved?: string | undefined;
  readonly dryRun: boolean;
  /** `broken-off`: kluctl was ended, and nobody knows what it has done. */
  readonly result: "ok" | "errors" | "broken-off";
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
