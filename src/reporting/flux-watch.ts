/**
 * Queues reports after changes of what Flux applies. Everything is derived from the cluster, so that neither a restart nor
 * the loss of Redis loses a commit that Flux has fetched.
 */
import type { Logger } from "../log.ts";
import {
  type CommitStatusRequest,
  type FluxDeployment,
  type FluxSource,
  keyText,
  type RepoId,
  subjectOf,
} from "../model.ts";
import type { FluxDeployments, FluxSources, Forge, Queue, Reports } from "../ports.ts";
import { commitRequests, unsettledRequests } from "./commit-requests.ts";
import { reportsOn } from "./flux-line.ts";

export interface FluxReportWatchDeps {
  readonly fluxSources: Pick<FluxSources, "find" | "onChange">;
  readonly fluxDeployments: Pick<FluxDeployments, "all" | "onChange">;
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
  const fetched = new Map<string, FluxSource>();
  /** By UID: what reports show. */
  const known = new Map<string, Shown>();
  let planned: NodeJS.Timeout | undefined;
  let isStopped = false;

  async function flush(): Promise<void> {
    planned = undefined;
    const commits = new Map<RepoId, Set<string>>();
    const add = ({ repo }: FluxSource, ...found: (string | undefined)[]): void => {
      const those = commits.get(repo) ?? new Set<string>();
      commits.set(repo, those);
      for (const commit of found) if (commit !== undefined) those.add(commit);
    };
    const [deployments, sources] = [[...moved.values()], [...fetched.values()]];
    for (const gathered of [moved, fetched]) gathered.clear();
    for (const source of sources) add(source, source.commit);
    for (const deployment of deployments) {
      const source = deployment.source && fluxSources.find(deployment.source);
      if (source !== undefined) add(source, source.commit, reportsOn(deployment, source));
    }
    try {
      const unsettled = await Promise.all([...commits.keys()].map((repo) => unsettledRequests(forges, reports, repo)));
      const direct = [...commits].flatMap(([repo, those]) =>
        [...those].flatMap((commit) => commitRequests(forges, repo, commit)),
      );
      const requests = new Map<string, CommitStatusRequest>();
      for (const request of [...unsettled.flat(), ...direct]) requests.set(subjectOf(request), request);
      if (requests.size > 0) await queue.enqueue([...requests.values()]);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue reports to forges");
      for (const one of deployments) if (!moved.has(one.uid)) moved.set(one.uid, one);
      for (const one of sources) if (!fetched.has(one.uid)) fetched.set(one.uid, one);
      plan(retryMs);
    }
  }

  function plan(afterMs: number): void {
    if (!isStopped) planned ??= setTimeout(() => void flush(), afterMs);
  }

  function gather(deployment: FluxDeployment): void {
    moved.set(deployment.uid, deployment);
    plan(gatherMs);
  }

  fluxDeployments.onChange((before, after) => {
    if (before !== undefined && before.uid !== after?.uid) known.delete(before.uid);
    if (before !== undefined && (after === undefined || !hasSameSource(before, after))) gather(before);
    if (after === undefined) return;
    const [shown, next] = [known.get(after.uid), shownOf(after)];
    const isRecheck = after.ready?.status === "Unknown" && shown?.attempt === next.attempt;
    if (isRecheck || (shown?.attempt === next.attempt && shown.result === next.result)) return;
    known.set(after.uid, next);
    gather(after);
  });
  fluxSources.onChange((before, after) => {
    if (after === undefined || (before !== undefined && isSameToReports(before, after))) return;
    fetched.set(after.uid, after);
    plan(gatherMs);
    // A new one may be what they wait for.
    if (before?.repo === after.repo) return;
    for (const one of fluxDeployments.all()) {
      if (one.source && keyText(one.source) === keyText(after.key)) gather(one);
    }
  });
  return () => {
    isStopped = true;
    clearTimeout(planned);
  };
}

interface Shown {
  readonly attempt: string;
  readonly result: string;
}

function shownOf(deployment: FluxDeployment): Shown {
  const { source, suspended, generation, observedGeneration, isStalled, ready } = deployment;
  const { attempting, attempted, applied } = deployment;
  const commits = [attempting ?? attempted, applied];
  return {
    attempt: JSON.stringify([source && keyText(source), suspended, generation, observedGeneration, ...commits]),
    result: JSON.stringify([ready?.status, ready?.reason, ready?.message, ready?.observedGeneration, isStalled]),
  };
}

function hasSameSource({ source: one }: FluxDeployment, { source: other }: FluxDeployment): boolean {
  return (one && keyText(one)) === (other && keyText(other));
}

function isSameToReports(one: FluxSource, other: FluxSource): boolean {
  const shown = [one, other].map(({ repo, ref, commit, suspended }) => JSON.stringify([repo, ref, commit, suspended]));
  return shown[0] === shown[1];
}
