/** Follows the rollout of a merged pull request: what is true of it now is added to its report. */
import { keyText, type PullRequest } from "../model.ts";
import type { Report } from "../model/report.ts";
import type { Clock, Reports } from "../ports.ts";
import { type ConsumersDeps, findConsumers, isWaiting, statesOf, sumOfStates } from "./consumers.ts";
import { followConsumers, followRollout } from "./rollout.ts";
import { isPreviewLine } from "./statuses.ts";

export interface FollowMergeDeps extends Omit<ConsumersDeps, "deployments"> {
  readonly deployments: ConsumersDeps["deployments"] & { synced(): boolean };
  readonly reports: Pick<Reports, "statuses" | "save" | "setRollingOut">;
  readonly clock: Clock;
}

export interface Followed {
  readonly report: Report;
  /** Not everything could be read: when to read again. */
  readonly againMs?: number | undefined;
}

const notSyncedMs = 1_000;
const noAnswerMs = 60_000;

export function createFollowMerge(deps: FollowMergeDeps) {
  const { reports, clock } = deps;

  return async function followMerge(
    report: Report,
    pullRequest: PullRequest,
    signal: AbortSignal | undefined,
  ): Promise<Followed> {
    const { mergeCommit } = report;
    if (report.state !== "merged" || mergeCommit === undefined) return { report };
    const { rollout: own, hasOwn } = await followOwn(report, mergeCommit);
    const { rollout, againMs } = await followIncluding(own, hasOwn, { mergeCommit, pullRequest }, signal);
    if (rollout === report.rollout) return { report, againMs };
    const followed = { ...report, rollout };
    await reports.save(followed);
    return { report: followed, againMs };
  };

  /**
   * The statuses of the merge show what became of it in the deployments of its repository. The job that writes them queues
   * this one, unless the merge was not recorded yet: then this one finds them.
   */
  async function followOwn({ rollout, pullRequest: { forge, repoName } }: Report, commit: string) {
    const statuses = await reports.statuses({ forge, repoName, commit });
    const hasOwn = statuses.some((status) => !isPreviewLine(status));
    return { rollout: followRollout(rollout, statuses, clock.now()), hasOwn };
  }

  /** The deployments that include it have no status on the merge: readers of a library need not know of them all. */
  async function followIncluding(
    known: Report["rollout"],
    hasOwn: boolean,
    { pullRequest, mergeCommit }: { pullRequest: PullRequest; mergeCommit: string },
    signal: AbortSignal | undefined,
  ): Promise<{ rollout: Report["rollout"]; againMs?: number }> {
    // Deployments that are not loaded yet would be removed.
    if (!deps.deployments.synced()) return { rollout: known, againMs: notSyncedMs };
    const { repos, all } = await findConsumers(pullRequest, mergeCommit, deps, signal);
    // First, so that no crash forgets what is not over.
    for (const repo of repos) await reports.setRollingOut(pullRequest.key, repo, all.some(isWaiting));
    const states = statesOf(all);
    const named = new Set(all.map(({ deployment }) => keyText(deployment.key)));
    // Without statuses of its own, nothing else says how far it is as a whole.
    if (!hasOwn && all.length > 0) named.add("");
    const isComplete = states.length === all.length;
    const sum = isComplete && named.has("") ? [sumOfStates(states)] : [];
    const rollout = followConsumers(known, [...states, ...sum], named, clock.now());
    return isComplete ? { rollout } : { rollout, againMs: noAnswerMs };
  }
}
