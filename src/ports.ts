/**
 * The ports: what the domain logic needs from external systems, in its own terms. Each is small enough for a fake with
 * a Map.
 */
import type { JsonObject } from "./kit/json.ts";
import type { AppliedChange, AppliedScope, AppliedVersions, Doomed } from "./model/applied.ts";
import type { Checkout, CheckoutSource, Leaving, OciCheckoutSource, Tag } from "./model/checkout.ts";
import type { AnyDeployment, Deployment, DeploymentRef, GitDeployment, StatusPatch } from "./model/deployment.ts";
import type { ChangedPaths, CommitStatus, ForgeComment, ForgeKind, PullRequest, StatusForm } from "./model/forge.ts";
import type { HostDeployment, PostedDeployment } from "./model/host-deployment.ts";
import type { Key } from "./model/key.ts";
import type { Held, LeaseOwner } from "./model/lease.ts";
import type { Merge, MergeSource } from "./model/merge.ts";
import type { MergeGroupKey } from "./model/merge-group.ts";
import type { FoundWebhooks } from "./model/host-webhooks.ts";
import type { MissedPushes, MissReason } from "./model/missed-push.ts";
import type { SweepPace } from "./model/sweep-pace.ts";
import type { Notification } from "./model/notification.ts";
import type { SentRecord } from "./model/sent-notifications.ts";
import type { Report } from "./model/report.ts";
import type { CommitKey, Enqueued, PullRequestKey, Request } from "./model/request.ts";
import type { CommandResult, ResultError, ValidateResult } from "./model/result.ts";
import type { ObjectQuery, QueriedObjects } from "./model/health.ts";
import type { DeleteOptions, DeployOptions, DiffOptions, Identity, RenderOptions, Run } from "./model/run.ts";
import type { Authorship, Freshness, Heads, RepoId, Repository } from "./model/source.ts";
import type { OfferedSources, SourceOverride } from "./model/source-override.ts";

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
   * Throws if the name now belongs to another resource.
   */
  patchStatus(deployment: DeploymentRef, patch: StatusPatch, signal?: AbortSignal): Promise<void>;
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
  /** Who wrote a commit, and the first line of its message. Throws SourceError. */
  authorship(repository: Repository, commit: string, signal: AbortSignal): Promise<Authorship>;
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

/**
 * The results of previews per pull request, redacted. Kept in Redis for some days; a pull request whose report is lost
 * is previewed again. All methods throw QueueUnavailableError.
 */
export interface Reports {
  save(report: Report): Promise<void>;
  find(key: PullRequestKey): Promise<Report | undefined>;
  /** The open pull requests into that branch, or any, that have a report. */
  openInto(repo: RepoId, branch: string | undefined): Promise<readonly PullRequestKey[]>;
  /** The reports of open pull requests that propose this commit. */
  proposing(repo: RepoId, head: string): Promise<readonly Report[]>;
  /** Records that the report that was started then is outdated, and when the next one is to follow. */
  setStale(key: PullRequestKey, stale: Staleness): Promise<void>;
  stale(key: PullRequestKey): Promise<Staleness | undefined>;
  /** The merged pull requests whose merge this commit is, as far as that was recorded. */
  mergedAs(commit: CommitKey): Promise<readonly Report[]>;
  /** The statuses written for a commit, as far as they are recorded. */
  statuses(commit: CommitKey): Promise<readonly CommitStatus[]>;
  /** Keeps the statuses of other contexts: several jobs may write for one commit at the same time. */
  saveStatuses(commit: CommitKey, statuses: readonly CommitStatus[]): Promise<void>;
  /** Records that somebody asked for the commit's check runs once more. */
  addRerun(commit: CommitKey): Promise<void>;
  /** How often somebody did. */
  reruns(commit: CommitKey): Promise<number>;
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

/**
 * What was written to the environments of repositories, by environment and ref. Kept in Redis; without it, the forge is asked
 * what is there. All methods throw QueueUnavailableError.
 */
export interface PostedDeployments {
  of(repo: Omit<CommitKey, "commit">): Promise<readonly PostedDeployment[]>;
  save(repo: Omit<CommitKey, "commit">, posted: PostedDeployment): Promise<void>;
}

/** In epoch milliseconds. */
export interface Staleness {
  /** That of the report. */
  readonly startedAt: number;
  readonly until: number;
}

/** One git host with pull requests. All calls throw ForgeError. */
export interface Forge {
  readonly id: string;
  readonly kind: ForgeKind;
  /** The most characters (Unicode code points) that a comment may have. */
  readonly maxCommentLength: number;
  /** The most bytes of Markdown (UTF-8) that a status can show; absent if it is never shown as more than a line. */
  readonly maxDetailsBytes?: number | undefined;
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
  /** Replaces the commit's status of this name, in either form. Returns the form in which it is shown now. */
  setStatus(commit: CommitKey, status: CommitStatus, signal?: AbortSignal): Promise<StatusForm>;
  /**
   * The same for several, one after the other, until one is refused. Calls `onShown` for each that is shown, with its form.
   * Absent on hosts where this takes no fewer requests.
   */
  setStatuses?(
    commit: CommitKey,
    statuses: readonly CommitStatus[],
    onShown: (status: CommitStatus, form: StatusForm) => void,
    signal?: AbortSignal,
  ): Promise<void>;
  /**
   * Brings the commit's deployment in line: the one with this id or, without one, the one that is there already, or a new
   * one. Returns its id, if the host can show its state. Absent on hosts without environments.
   */
  setDeployment?(
    commit: CommitKey,
    deployment: HostDeployment,
    id: string | undefined,
    signal?: AbortSignal,
  ): Promise<string | undefined>;
}

/** A place where people or machines are notified: a channel, a mailbox, an endpoint. */
export interface Notifier {
  /** Whether a sent message can be changed. Otherwise each state that people need to know is a message of its own. */
  readonly edits: boolean;
  /** A target that forgets: what is open has to be sent again after this time. */
  readonly refreshMs?: number | undefined;
  /**
   * Sends the message, or changes the one that `sent` identifies. Returns what identifies it from then on, if anything does.
   * Throws NotifyError, or the signal's reason.
   */
  send(message: Notification, options: SendOptions): Promise<string | undefined>;
}

export interface SendOptions {
  /** What `send` returned for an earlier state of the same thread. */
  readonly sent?: string | undefined;
  /** `sent` was read already and this state needs attention: changing a message notifies nobody, so a reply is sent too. */
  readonly announce?: boolean | undefined;
  /** Replaces the target's own channel or address. */
  readonly channel?: string | undefined;
  readonly signal: AbortSignal;
}

/** The webhooks of repositories at a git host, with one login. */
export interface HostWebhooks {
  /** Whether the host repeats a delivery on request. */
  readonly repeats: boolean;
  /** Those that send to the path of this forge. Throws ForgeError. */
  find(repoName: string, signal?: AbortSignal): Promise<FoundWebhooks>;
}

/** Pushes that no webhook reported, by repository. All methods throw QueueUnavailableError. */
export interface MissedPushStore {
  all(forge: string): Promise<readonly MissedPushes[]>;
  /** Keeps the recorded reason. */
  save(forge: string, missed: MissedPushes): Promise<void>;
  saveReason(forge: string, repo: string, reason: MissReason): Promise<void>;
  remove(forge: string, repo: string): Promise<void>;
}

/** How often the sweep asks for each repository's refs. All methods throw QueueUnavailableError. */
export interface SweepPaceStore {
  /** Those of the last hours. */
  all(): Promise<readonly SweepPace[]>;
  save(pace: SweepPace): Promise<void>;
}

/** What each target was sent, in the cluster. Throws ApiError. */
export interface SentNotifications {
  /** `undefined`: nothing is recorded. */
  read(target: string, signal?: AbortSignal): Promise<{ record: SentRecord; version: SentVersion } | undefined>;
  /** Fails with a conflict (409) if somebody else wrote since that version was read, or if there is one but none was. */
  write(
    target: string,
    record: SentRecord,
    version: SentVersion | undefined,
    signal?: AbortSignal,
  ): Promise<SentVersion>;
}

export type SentVersion = string & { readonly __brand: "SentVersion" };

export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
}
