/** Blocks a deployment until its dependencies are ready. It waits in its status and does not occupy a worker. */
import { commitOf } from "../model/git-ref.ts";
import {
  type Freshness,
  followsGit,
  keyText,
  type Deployment,
  type Heads,
  type GitDeployment,
  type Key,
  type MalformedDeployment,
  type ReconcileRequest,
} from "../model.ts";
import type { Deployments, Queue, Secrets, Sources } from "../ports.ts";
import type { Verdict } from "../reconcile/status/conditions.ts";
import { readGitCredentials } from "../access/credentials.ts";
import {
  cycleMessage,
  dependenciesOf,
  findCycle,
  impossibleVerdict,
  waitingVerdict,
  whyNotReady,
} from "./depends-on.ts";

export interface DependencyGateDeps {
  readonly deployments: Pick<Deployments, "get" | "all">;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
  readonly enqueue: Queue["enqueue"];
}

/** Returns the Ready verdict while the deployment is blocked, `undefined` if it is not. */
export interface DependencyGate {
  whyBlocked(
    deployment: Deployment,
    freshness: Freshness | undefined,
    signal: AbortSignal,
  ): Promise<Verdict | undefined>;
  /** Blocked by a condition that can never be met, as far as the watch knows. No I/O. */
  whyBlockedForever(deployment: Deployment): Verdict | undefined;
}

export function createDependencyGate({ deployments, secrets, sources, enqueue }: DependencyGateDeps): DependencyGate {
  function whyBlockedForever(deployment: Deployment): Verdict | undefined {
    const { keys, problem } = dependenciesOf(deployment);
    if (problem !== undefined) return impossibleVerdict(problem);
    const cycle = keys.length === 0 ? undefined : findCycle(deployment.key, dependenciesAmong(deployment));
    return cycle && impossibleVerdict(cycleMessage(cycle));
  }

  async function whyBlocked(
    deployment: Deployment,
    freshness: Freshness | undefined,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const impossible = whyBlockedForever(deployment);
    const { keys } = dependenciesOf(deployment);
    if (impossible !== undefined || keys.length === 0) return impossible;
    const found = await Promise.all(keys.map(async (key) => ({ key, dependency: await deployments.get(key) })));
    const heads = await headsOf(deployment, found, freshness, signal);
    const behind: ReconcileRequest[] = [];
    const waitsFor = found.flatMap(({ key, dependency }) => {
      const commit = heads && commonCommit(deployment, dependency, heads);
      const why = whyNotReady(dependency, commit);
      if (why === undefined) return [];
      // If the push does not affect the dependency, or its webhook was lost, the dependency would stay behind until the
      // next sweep.
      if (dependency && followsGit(dependency) && commit !== undefined && dependency.status.observedCommit !== commit)
        behind.push({ kind: "reconcile", deployment: key, cause: "sweep", repo: dependency.repo });
      return [{ key, why }];
    });
    if (waitsFor.length === 0) return undefined;
    if (behind.length > 0) await enqueue(behind);
    return waitingVerdict(waitsFor);
  }

  /** Uses the watch's state: a cycle that is being created or removed right now is detected the next time. */
  function dependenciesAmong(start: Deployment): (key: Key) => readonly Key[] {
    const known = new Map(deployments.all().map((entry) => [keyText(entry.key), entry]));
    known.set(keyText(start.key), start);
    return (key) => {
      const entry = known.get(keyText(key));
      return entry === undefined ? [] : dependenciesOf(entry).keys;
    };
  }

  /**
   * Reads the heads only if a dependency follows the same repository. Errors of the remote are ignored here: the
   * reconciliation meets and reports them.
   */
  async function headsOf(
    deployment: Deployment,
    found: readonly { readonly dependency: Deployment | MalformedDeployment | undefined }[],
    freshness: Freshness | undefined,
    signal: AbortSignal,
  ): Promise<Heads | undefined> {
    if (!followsGit(deployment) || !found.some(({ dependency }) => sharesRepo(deployment, dependency)))
      return undefined;
    try {
      const credentials = await readGitCredentials(deployment, secrets);
      return await sources.heads({ url: deployment.spec.source.url, credentials }, freshness, signal);
    } catch {
      signal.throwIfAborted();
      return undefined;
    }
  }

  return { whyBlocked, whyBlockedForever };
}

function sharesRepo(
  deployment: GitDeployment,
  dependency: Deployment | MalformedDeployment | undefined,
): dependency is GitDeployment {
  return dependency !== undefined && followsGit(dependency) && dependency.repo === deployment.repo;
}

/** The commit that both currently follow, if it is the same. */
function commonCommit(
  deployment: Deployment,
  dependency: Deployment | MalformedDeployment | undefined,
  heads: Heads,
): string | undefined {
  if (!followsGit(deployment) || !sharesRepo(deployment, dependency)) return undefined;
  const commit = commitOf(deployment.spec.source.ref, heads);
  return commit === commitOf(dependency.spec.source.ref, heads) ? commit : undefined;
}
