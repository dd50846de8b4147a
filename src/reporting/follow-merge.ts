/**
 * Follows the rollout of a merged pull request: what is true of it now is added to its report. The host is asked only if
 * something of that is new.
 */
import { isDeepStrictEqual } from "node:util";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { keyText, type Outcome, type PullRequest, type RepoId } from "../model.ts";
import { failedIn, followedForMs, type Report } from "../model/report.ts";
import type { Clock, Reports } from "../ports.ts";
import {
  type ConsumersDeps,
  findConsumers,
  isWaiting,
  type MergedInto,
  namesOf,
  statesOf,
  sumOfStates,
} from "./consumers.ts";
import { followConsumers, followRollout } from "./rollout.ts";
import { isPreviewLine } from "./statuses.ts";

export interface FollowMergeDeps extends Omit<ConsumersDeps, "deployments" | "missing"> {
  readonly deployments: ConsumersDeps["deployments"] & { synced(): boolean };
  readonly reports: Pick<Reports, "statuses" | "rolloutRest" | "save" | "setRollingOut">;
  readonly clock: Clock;
}

export interface Followed {
  readonly report: Report;
  /** Not everything could be read: when to read again. */
  readonly againMs?: number | undefined;
}

/** The outcome is absent if the host has to be asked. */
export interface FollowedAhead {
  readonly report: Report;
  readonly outcome?: Outcome | undefined;
  /** What is new, if it was looked at. */
  readonly followed?: Followed | undefined;
}

/** What is to be known of a merge. `mergedAt`: epoch milliseconds, by the host's clock. */
interface DatedMerge extends MergedInto {
  readonly mergedAt: number;
}

type MergedReport = Report & { readonly mergeCommit: string };

const notSyncedMs = 1_000;
/** The longer a merge waits, the less a minute matters. */
const noAnswerMs = { least: 60_000, most: 3_600_000 };
/** A record may name commits that never existed, and each question about one is a fetch. */
const missingFor = { entries: 1_000, maxAgeMs: 5 * 60_000 };

export function createFollowMerge(deps: FollowMergeDeps) {
  const { reports, clock } = deps;
  const consumersDeps = { ...deps, missing: createBoundedMap<true>(missingFor) };

  return {
    /** Call before the host is asked anything. Returns the report with what is new, which is stored. */
    async ahead(report: Report, signal: AbortSignal | undefined): Promise<FollowedAhead> {
      if (!isMerged(report)) return { report };
      // Deployments that are not loaded yet would be removed.
      if (!deps.deployments.synced()) {
        return { report, outcome: { kind: "later", afterMs: notSyncedMs, why: "the deployments are not loaded yet" } };
      }
      const { written, pullRequest: key, baseBranch } = report;
      if (written === undefined || mayTellFailure(report)) return { report };
      const followed = await follow(report, { key, baseBranch, ...written }, signal);
      if (followed.report !== report) return { report: followed.report, followed };
      return { report, outcome: followed.againMs === undefined ? { kind: "done" } : waitsFor(followed.againMs) };
    },

    /** The same with the host's answer. */
    async follow(report: Report, now: PullRequest, signal: AbortSignal | undefined): Promise<Followed> {
      return isMerged(report) ? follow(report, { ...now, mergedAt: mergedAt(now) }, signal) : { report };
    },

    /** Call after everything was written: until something is new, the host is not asked again. */
    async noteWritten(report: Report, now: PullRequest): Promise<void> {
      if (!isMerged(report) || report.written !== undefined) return;
      await reports.save({ ...report, written: { repoUrls: [...now.repoUrls], mergedAt: mergedAt(now) } });
    },
  };

  async function follow(report: MergedReport, merge: DatedMerge, signal: AbortSignal | undefined): Promise<Followed> {
    const { rollout: own, hasOwn, rolloutRest } = await followOwn(report);
    const { rollout, againMs } = await followIncluding(own, hasOwn, report.mergeCommit, merge, signal);
    const isSame = rollout === report.rollout && isDeepStrictEqual(rolloutRest, report.rolloutRest);
    if (isSame) return { report, againMs };
    const followed = { ...report, rollout, rolloutRest, written: undefined };
    await reports.save(followed);
    return { report: followed, againMs };
  }

  /**
   * The statuses of the merge show what became of it in the deployments of its repository. The job that writes them queues
   * this one, unless the merge was not recorded yet: then this one finds them.
   */
  async function followOwn({ rollout, mergeCommit: commit, pullRequest: { forge, repoName } }: MergedReport) {
    const rolloutRest = await reports.rolloutRest({ forge, repoName, commit });
    const statuses = await reports.statuses({ forge, repoName, commit });
    const hasOwn = statuses.some((status) => !isPreviewLine(status));
    return { rollout: followRollout(rollout, statuses, clock.now()), hasOwn, rolloutRest };
  }

  /** The deployments that include it have no status on the merge: readers of a library need not know of them all. */
  async function followIncluding(
    known: Report["rollout"],
    hasOwn: boolean,
    mergeCommit: string,
    merge: DatedMerge,
    signal: AbortSignal | undefined,
  ): Promise<{ rollout: Report["rollout"]; againMs?: number | undefined }> {
    const { repos } = namesOf(merge, deps);
    const keepFollowing = async (repo: RepoId, since: number | undefined) =>
      reports.setRollingOut(merge.key, repo, since);
    // Before they are read: git may take longer than they take to change, and each change then queues this job again.
    for (const repo of repos)
      if (deps.deployments.including(repo).length > 0) await keepFollowing(repo, merge.mergedAt);
    const all = await findConsumers(merge, mergeCommit, consumersDeps, signal);
    if (!all.some(isWaiting)) for (const repo of repos) await keepFollowing(repo, undefined);
    const states = statesOf(all);
    const named = new Set(all.map(({ deployment }) => keyText(deployment.key)));
    // Without statuses of its own, nothing else says how far it is as a whole.
    if (!hasOwn && all.length > 0) named.add("");
    const isComplete = states.length === all.length;
    const sum = isComplete && named.has("") ? [sumOfStates(states)] : [];
    const rollout = followConsumers(known, [...states, ...sum], named, clock.now());
    return { rollout, againMs: isComplete ? undefined : askAgainMs(clock.now() - merge.mergedAt) };
  }

  /** Its time comes without anything new in the rollout, and the host is asked whether it was told before. */
  function mayTellFailure(report: Report): boolean {
    const { author, failureTold = false } = report;
    return author !== undefined && !failureTold && failedIn(report, clock.now()).length > 0;
  }
}

/** The outcome of a job that has to look at the rollout again. */
export function waitsFor(afterMs: number): Outcome {
  return { kind: "later", afterMs, why: "the rollout is not over" };
}

function isMerged(report: Report): report is MergedReport {
  return report.state === "merged" && report.mergeCommit !== undefined;
}

/** Without the host's answer, when it last changed: a little late is better than never. */
function mergedAt({ closedAt, updatedAt }: PullRequest): number {
  return closedAt ?? updatedAt;
}

/** `undefined`: it is no longer followed. */
function askAgainMs(ageMs: number): number | undefined {
  return ageMs < followedForMs ? Math.min(Math.max(ageMs / 4, noAnswerMs.least), noAnswerMs.most) : undefined;
}
