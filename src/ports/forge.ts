/** The ports through which the server reports: git hosts and targets of notifications. */
import type { CommitStatus, ForgeComment, ForgeKind, PullRequest, StatusForm } from "../model/forge.ts";
import type { HostDeployment } from "../model/host-deployment.ts";
import type { FoundWebhooks } from "../model/host-webhooks.ts";
import type { Notification } from "../model/notification.ts";
import type { CommitKey, PullRequestKey } from "../model/request.ts";
import type { RepoId } from "../model/source.ts";

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
