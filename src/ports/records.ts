/** The ports to what is recorded besides jobs: what was found, what was written, and what was sent. */
import type { CommitStatus } from "../model/forge.ts";
import type { PostedDeployment } from "../model/host-deployment.ts";
import type { ReportManifests } from "../model/manifests.ts";
import type { MergeGroupKey } from "../model/merge-group.ts";
import type { MissedPushes, MissReason } from "../model/missed-push.ts";
import type { SweepPace } from "../model/sweep-pace.ts";
import type { SentRecord } from "../model/sent-notifications.ts";
import type { OpenReport } from "../model/open-report.ts";
import type { Report, RolloutRest, Staleness } from "../model/report.ts";
import type { CommitKey, PullRequestKey } from "../model/request.ts";
import type { RepoId } from "../model/source.ts";

/**
 * The results of previews per pull request, redacted. Kept in Redis for some days; a pull request whose report is lost
 * is previewed again. All methods throw QueueUnavailableError.
 */
export interface Reports {
  save(report: Report): Promise<void>;
  find(key: PullRequestKey): Promise<Report | undefined>;
  /** The open pull requests into this repository that have a report. */
  open(repo: RepoId): Promise<readonly OpenReport[]>;
  /** The open pull requests into that branch, or any, that have a report. */
  openInto(repo: RepoId, branch: string | undefined): Promise<readonly PullRequestKey[]>;
  /** The reports of open pull requests that propose this commit. */
  proposing(repo: RepoId, head: string): Promise<readonly Report[]>;
  /**
   * Records that the report that was started then is outdated, and what the preview that follows waits for. `undefined`: none
   * waits any more.
   */
  setStale(key: PullRequestKey, stale: Staleness | undefined): Promise<void>;
  stale(key: PullRequestKey): Promise<Staleness | undefined>;
  /** Records that a preview starts at that time, in epoch milliseconds, although the pull request has not changed itself. */
  addRemake(key: PullRequestKey, at: number): Promise<void>;
  /** The times of those within the last hour, oldest first. */
  remakes(key: PullRequestKey): Promise<readonly number[]>;
  /** The merged pull requests whose merge this commit is, as far as that was recorded. */
  mergedAs(commit: CommitKey): Promise<readonly Report[]>;
  /**
   * Records that deployments that include the repository still have to deploy the merge of a pull request. `mergedAt`: epoch
   * milliseconds; `undefined` if they no longer have to.
   */
  setRollingOut(key: PullRequestKey, repo: RepoId, mergedAt: number | undefined): Promise<void>;
  /** The pull requests of this repository that were merged lately, and that such deployments still have to deploy. */
  rollingOut(repo: RepoId): Promise<readonly PullRequestKey[]>;
  /** The statuses written for a commit, as far as they are recorded. */
  statuses(commit: CommitKey): Promise<readonly CommitStatus[]>;
  /** Keeps the statuses of other contexts: several jobs may write for one commit at the same time. */
  saveStatuses(commit: CommitKey, statuses: readonly CommitStatus[]): Promise<void>;
  /** Records which of many deployments failed or wait and have no status of their own on this commit; `undefined`: none. */
  setRolloutRest(commit: CommitKey, rest: RolloutRest | undefined): Promise<void>;
  rolloutRest(commit: CommitKey): Promise<RolloutRest | undefined>;
  /** Records a request to run the commit's checks again. */
  addRerun(commit: CommitKey): Promise<void>;
  /** The number of such requests. */
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
  /**
   * Records that a report is to be published. Call before it is saved, and before it is read to publish it. Returns what
   * distinguishes this from later calls.
   */
  setUnpublished(key: PullRequestKey): Promise<PublishMark>;
  /** Records that everything is published that was saved before the mark was made. */
  setPublished(key: PullRequestKey, mark: PublishMark): Promise<void>;
  /** The pull requests of this forge with a report that is to be published for this long, in milliseconds. */
  unpublished(forge: string, forMs: number): Promise<readonly PullRequestKey[]>;
}

export type PublishMark = number & { readonly __brand: "PublishMark" };

/**
 * The manifests of what merging a pull request would create or change, redacted. Kept in Redis as long as the report;
 * without them, the page shows the changes only. All methods throw QueueUnavailableError.
 */
export interface ManifestStore {
  /** Leaves out, and counts, what is too much to be stored. */
  save(key: PullRequestKey, manifests: ReportManifests): Promise<void>;
  find(key: PullRequestKey): Promise<ReportManifests | undefined>;
}

/**
 * What was written to the environments of repositories, by environment and ref. Kept in Redis; without it, the forge is asked
 * what is there. All methods throw QueueUnavailableError.
 */
export interface PostedDeployments {
  of(repo: Omit<CommitKey, "commit">): Promise<PostedSnapshot>;
}

export interface PostedSnapshot {
  readonly all: readonly PostedDeployment[];
  /** Returns false and stores nothing if something else was stored for its environment and ref after this was read. */
  save(posted: PostedDeployment): Promise<boolean>;
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
