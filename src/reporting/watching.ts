/**
 * Whatever the deployments' statuses say of a commit is to be told on its forge; and what was deployed changes what
 * merging an open pull request would do. Both follow from the watch, so that it does not matter which replica deployed.
 */
import type { Logger } from "../log.ts";
import { type GitDeployment, followsGit, type RepoId, type Request, subjectOf } from "../model.ts";
import type { DeploymentChange, Forge, Queue, Reports } from "../ports.ts";
import { isReconciling, readyCondition } from "../reconcile/conditions.ts";

export interface ReportWatchDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly forges: ReadonlyMap<string, Forge>;
  readonly reports: Pick<Reports, "openInto" | "unsettled">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

/** A loop writes its status a few times; half a second later most of what it has to say has been said. */
const gatherMs = 500;

/**
 * Returns how to stop. What Redis does not take, and what a server that ended has left pending, is made up for by the next
 * change and at the next start: whatever happens in a repository, its commits that wait for their end are looked at too.
 */
export function startReportWatch({ deployments, forges, reports, queue, log }: ReportWatchDeps): () => void {
  const moved = new Map<string, GitDeployment>();
  const deployed = new Map<string, GitDeployment>();
  const stirred = new Set<RepoId>();
  let planned: NodeJS.Timeout | undefined;

  async function flush(): Promise<void> {
    planned = undefined;
    const [commits, branches, repos] = [[...moved.values()], [...deployed.values()], [...stirred]];
    for (const gathered of [moved, deployed, stirred]) gathered.clear();
    try {
      const found = await Promise.all([...branches.map(toPreviews), ...repos.map(toUnsettled)]);
      const requests = [...commits.flatMap(toCommitStatus), ...found.flat()];
      const distinct = new Map(requests.map((request) => [subjectOf(request), request]));
      if (distinct.size > 0) await queue.enqueue([...distinct.values()]);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue reports to forges");
    }
  }

  function toCommitStatus({ repo, status }: GitDeployment): Request[] {
    const commit = status.observedCommit;
    if (commit === undefined) return [];
    return [...forges.values()].flatMap((forge): Request[] => {
      const repoName = forge.repoName(repo);
      return repoName === undefined
        ? []
        : [{ kind: "commit-status", commit: { forge: forge.id, repoName, commit }, repo }];
    });
  }

  async function toPreviews({ repo, spec }: GitDeployment): Promise<Request[]> {
    // Where the default branch is followed, its name is the remote's to say: the push has refreshed those already.
    const { branch } = spec.source.ref;
    const open = branch === undefined ? [] : await reports.openInto(repo, branch);
    return open.map((pullRequest) => ({ kind: "preview", pullRequest, cause: "base" }));
  }

  async function toUnsettled(repo: RepoId): Promise<Request[]> {
    const commits = await reports.unsettled(repo);
    return commits.filter(({ forge }) => forges.has(forge)).map((commit) => ({ kind: "commit-status", commit, repo }));
  }

  function gather(deployment: GitDeployment): void {
    stirred.add(deployment.repo);
    planned ??= setTimeout(() => void flush(), gatherMs);
  }

  deployments.onChange(({ kind, deployment, previous }) => {
    if (!followsGit(deployment)) return;
    if (kind !== "changed" || previous === undefined || !followsGit(previous)) return gather(deployment);
    if (isReconciling(previous.status) && !isReconciling(deployment.status)) gather(deployment);
    if (saysOf(deployment) === saysOf(previous)) return;
    moved.set(`${deployment.repo} ${deployment.status.observedCommit}`, deployment);
    const [now, before] = [deployment.status.lastDeployResult, previous.status.lastDeployResult];
    if (now !== undefined && now.id !== before?.id) {
      deployed.set(`${deployment.repo} ${deployment.spec.source.ref.branch ?? ""}`, deployment);
    }
    gather(deployment);
  });
  return () => clearTimeout(planned);
}

/** What of a status a forge would show. */
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
