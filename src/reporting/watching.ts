/**
 * Queues the statuses of commits on the forge after changes of the deployments that follow them. Triggered by the watch, so that it
 * does not matter which replica deployed.
 */
import { createPlanned } from "../kit/planned.ts";
import type { Logger } from "../log.ts";
import {
  type DeploymentChange,
  followsGit,
  type GitDeployment,
  type RepoId,
  type Request,
  subjectOf,
} from "../model.ts";
import type { Clock, Forge, Queue, Reports } from "../ports.ts";
import { commitRequests, unsettledRequests } from "./commit-requests.ts";
import { isReconciling, readyCondition } from "../reconcile/status/conditions.ts";

export interface ReportWatchDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly forges: ReadonlyMap<string, Forge>;
  readonly reports: Pick<Reports, "unsettled">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A reconciliation writes its status several times within about half a second. */
const gatherMs = 500;
/** While Redis is away. */
const retryMs = 30_000;
/** Nothing is missing from before, and the statuses of old commits are not recorded any more: all would be written again. */
const newsMs = 24 * 3_600_000;

/**
 * Returns a function that queues what has changed by then, and stops it. What Redis did not accept is queued later. What a
 * stopped server has missed or left pending is queued at the next start: the commits that were deployed lately are reported
 * again, and any change in a repository also checks its unsettled commits.
 */
export function startReportWatch(deps: ReportWatchDeps): () => Promise<void> {
  const { deployments, forges, reports, queue, clock, log } = deps;
  const moved = new Map<string, GitDeployment>();
  const stirred = new Set<RepoId>();
  const { plan, finish } = createPlanned(flush);

  async function flush(): Promise<void> {
    const [commits, repos] = [new Map(moved), new Set(stirred)];
    for (const gathered of [moved, stirred]) gathered.clear();
    try {
      const found = await Promise.all([...repos].map((repo) => unsettledRequests(forges, reports, repo)));
      const requests = [...[...commits.values()].flatMap(toCommitStatus), ...found.flat()];
      const distinct = new Map(requests.map((request) => [subjectOf(request), request]));
      if (distinct.size > 0) await queue.enqueue([...distinct.values()]);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue reports to forges");
      for (const [id, deployment] of commits) if (!moved.has(id)) moved.set(id, deployment);
      for (const repo of repos) stirred.add(repo);
      plan(retryMs);
    }
  }

  function toCommitStatus({ repo, status: { observedCommit: commit } }: GitDeployment): Request[] {
    return commit === undefined ? [] : commitRequests(forges, repo, commit);
  }

  function stir(repo: RepoId): void {
    stirred.add(repo);
    plan(gatherMs);
  }

  function move(deployment: GitDeployment): void {
    moved.set(`${deployment.repo} ${deployment.status.observedCommit}`, deployment);
  }

  deployments.onChange(({ kind, deployment, previous: before }) => {
    const previous = before !== undefined && followsGit(before) ? before : undefined;
    const isElsewhere = !followsGit(deployment) || deployment.repo !== previous?.repo;
    if (previous !== undefined && isElsewhere) stir(previous.repo); // its commits wait for this deployment in vain
    if (!followsGit(deployment)) return;
    if (kind === "added" && changedAt(deployment) > clock.now() - newsMs) move(deployment);
    if (kind !== "changed" || previous === undefined) return stir(deployment.repo);
    if (isReconciling(previous.status) && !isReconciling(deployment.status)) stir(deployment.repo);
    if (saysOf(deployment) === saysOf(previous)) return;
    move(deployment);
    stir(deployment.repo);
  });
  return finish;
}

/** When its status last got another result, in epoch milliseconds. */
function changedAt({ status }: GitDeployment): number {
  const times = [status.lastDeployResult?.endTime, readyCondition(status)?.lastTransitionTime];
  return Math.max(...times.map((time) => Date.parse(time ?? "")).filter((time) => !Number.isNaN(time)));
}

/** The part of a deployment's status that a forge shows. */
function saysOf({ status, spec }: GitDeployment): string {
  const { status: ready, message } = readyCondition(status) ?? {};
  const { observedCommit, lastDeployResult, lastObjectsHash, lastPrepareError } = status;
  return JSON.stringify([
    observedCommit,
    ready,
    message,
    lastDeployResult?.id,
    lastObjectsHash,
    lastPrepareError,
    spec.manualObjectsHash,
  ]);
}
