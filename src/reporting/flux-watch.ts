/**
 * Queues reports after changes of what Flux applies. Everything is derived from the cluster, so that neither a restart nor
 * the loss of Redis loses a commit that Flux has fetched.
 */
import { createPlanned } from "../kit/planned.ts";
import type { Logger } from "../log.ts";
import { type CommitStatusRequest, type FluxDeployment, type FluxSource, type RepoId, subjectOf } from "../model.ts";
import type { FluxDeployments, FluxSources, Forge, Queue, Reports } from "../ports.ts";
import { commitRequests, unsettledRequests } from "./commit-requests.ts";
import { memberOf } from "./flux-members.ts";

export interface FluxReportWatchDeps {
  readonly fluxSources: Pick<FluxSources, "find" | "onChange">;
  readonly fluxDeployments: Pick<FluxDeployments, "all" | "find" | "onChange">;
  readonly forges: ReadonlyMap<string, Pick<Forge, "id" | "repoName">>;
  readonly reports: Pick<Reports, "unsettled">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

/** Flux writes the status of a resource several times while it applies, and those of many resources at once. */
const gatherMs = 500;
const retryMs = 10_000;

/** Returns a function that stops it. Requests that Redis did not accept are made again. */
export function startFluxReportWatch(deps: FluxReportWatchDeps): () => void {
  const { fluxSources, fluxDeployments, forges, reports, queue, log } = deps;
  const moved = new Map<string, FluxDeployment>();
  /** By repository: the commits to report on, in addition to those that lack their final status. */
  const stirred = new Map<RepoId, Set<string>>();
  /** By UID: what reports show. */
  const known = new Map<string, Shown>();
  const { plan, stop } = createPlanned(flush);

  async function flush(): Promise<void> {
    const deployments = [...moved];
    for (const [, deployment] of deployments) addMember(deployment);
    const commits = [...stirred];
    for (const gathered of [moved, stirred]) gathered.clear();
    try {
      const unsettled = await Promise.all(commits.map(([repo]) => unsettledRequests(forges, reports, repo)));
      const direct = commits.flatMap(([repo, those]) =>
        [...those].flatMap((commit) => commitRequests(forges, repo, commit)),
      );
      const requests = new Map<string, CommitStatusRequest>();
      for (const request of [...unsettled.flat(), ...direct]) requests.set(subjectOf(request), request);
      if (requests.size > 0) await queue.enqueue([...requests.values()]);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue reports to forges");
      for (const [id, one] of deployments) if (!moved.has(id)) moved.set(id, one);
      for (const [repo, those] of commits) add(repo, ...those);
      plan(retryMs);
    }
  }

  function add(repo: RepoId, ...commits: (string | undefined)[]): void {
    const those = stirred.get(repo) ?? new Set<string>();
    stirred.set(repo, those);
    for (const commit of commits) if (commit !== undefined) those.add(commit);
  }

  function addMember(deployment: FluxDeployment): void {
    const member = memberOf(deployment, deps);
    if (member !== undefined) add(member.source.repo, member.source.commit, member.about);
  }

  /** Its source may be known only later. */
  function gather(deployment: FluxDeployment): void {
    moved.set(deployment.uid, deployment);
    plan(gatherMs);
  }

  /** Its source may be deleted, too: a namespace with all that Flux has in it is gone within moments. */
  function gatherNow(deployment: FluxDeployment): void {
    addMember(deployment);
    plan(gatherMs);
  }

  fluxDeployments.onChange((before, after) => {
    if (before !== undefined && before.uid !== after?.uid) known.delete(before.uid);
    if (before !== undefined && (after === undefined || !hasSameOrigin(before, after))) gatherNow(before);
    if (after === undefined) return;
    const [shown, next] = [known.get(after.uid), shownOf(after)];
    const isRecheck = after.ready?.status === "Unknown" && shown?.attempt === next.attempt;
    if (isRecheck || (shown?.attempt === next.attempt && shown.result === next.result)) return;
    known.set(after.uid, next);
    gather(after);
  });
  fluxSources.onChange((before, after) => {
    if (before !== undefined && after !== undefined && isSameToReports(before, after)) return;
    // What is applied from it now has nothing to do with the commits of the earlier repository.
    if (before !== undefined && before.repo !== after?.repo) add(before.repo);
    if (after !== undefined) add(after.repo, after.commit);
    plan(gatherMs);
    // A new one may be what they wait for.
    if (after === undefined || before?.repo === after.repo) return;
    for (const one of fluxDeployments.all()) {
      if (memberOf(one, deps)?.source.uid === after.uid) gather(one);
    }
  });
  return stop;
}

interface Shown {
  readonly attempt: string;
  readonly result: string;
}

function shownOf(deployment: FluxDeployment): Shown {
  const { source, owner, suspended, generation, observedGeneration, isStalled, ready } = deployment;
  const { attempting, attempted, applied, chart, attemptedVersion } = deployment;
  const spec = [source, owner, suspended, generation, observedGeneration];
  return {
    attempt: JSON.stringify([spec, attempting ?? attempted, applied, chart, attemptedVersion]),
    result: JSON.stringify([ready?.status, ready?.reason, ready?.message, ready?.observedGeneration, isStalled]),
  };
}

function hasSameOrigin(...both: [FluxDeployment, FluxDeployment]): boolean {
  const [one, other] = both.map(({ source, owner }) => JSON.stringify([source, owner]));
  return one === other;
}

function isSameToReports(...both: [FluxSource, FluxSource]): boolean {
  const [one, other] = both.map(({ repo, ref, commit, suspended }) => JSON.stringify([repo, ref, commit, suspended]));
  return one === other;
}
