/**
 * Queues the reports of merged pull requests while deployments that include their repository deploy the merge. Each replica
 * watches; the queue joins equal requests.
 */
import { createPlanned } from "../kit/planned.ts";
import type { Logger } from "../log.ts";
import {
  annotation,
  type AnyDeployment,
  type DeploymentChange,
  followsGit,
  type GitDeployment,
  pullRequestText,
  type RepoId,
  type ReportRequest,
} from "../model.ts";
import { librariesOf } from "../preview/match-consumers.ts";
import type { Queue, Reports } from "../ports.ts";
import { isReconciling, readyCondition } from "../reconcile/status/conditions.ts";

export interface RolloutWatchDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly reports: Pick<Reports, "rollingOut">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

/** One push to a library may change many deployments, and each report is a change of the comment. */
const gatherMs = 2_000;
/** While Redis is away. */
const retryMs = 30_000;

/** Returns a function that stops it. What a stopped server has missed is queued at the next start, which lists everything. */
export function startRolloutWatch({ deployments, reports, queue, log }: RolloutWatchDeps): () => void {
  const moved = new Set<RepoId>();
  const { plan, stop } = createPlanned(flush);

  async function flush(): Promise<void> {
    const repos = [...moved];
    moved.clear();
    try {
      const found = (await Promise.all(repos.map((repo) => reports.rollingOut(repo)))).flat();
      const distinct = new Map(found.map((pullRequest) => [pullRequestText(pullRequest), pullRequest]));
      const requests = [...distinct.values()].map((pullRequest): ReportRequest => ({ kind: "report", pullRequest }));
      if (requests.length > 0) await queue.enqueue(requests);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue reports about libraries");
      for (const repo of repos) moved.add(repo);
      plan(retryMs);
    }
  }

  deployments.onChange(({ kind, deployment, previous }) => {
    const concerned = [deployment, previous].flatMap((one) => (one === undefined ? [] : reposOf(one)));
    if (concerned.length === 0) return;
    if (kind === "changed" && previous !== undefined && saysOf(deployment) === saysOf(previous)) return;
    for (const repo of concerned) moved.add(repo);
    plan(gatherMs);
  });

  return stop;
}

function reposOf(deployment: AnyDeployment): readonly RepoId[] {
  return followsGit(deployment) ? librariesOf(deployment).map(({ repo }) => repo) : [];
}

/** What the record of a rollout shows of a deployment. */
function saysOf(deployment: AnyDeployment): string {
  return followsGit(deployment) ? JSON.stringify(partsOf(deployment)) : "";
}

function partsOf(deployment: GitDeployment) {
  const { annotations, spec, status } = deployment;
  const { status: ready, reason, message } = readyCondition(status) ?? {};
  return [
    librariesOf(deployment),
    annotations[annotation.includedCommits],
    spec.suspend,
    isReconciling(status),
    [ready, reason, message],
    status.lastPrepareError,
    status.lastObjectsHash,
    spec.manualObjectsHash,
  ];
}
