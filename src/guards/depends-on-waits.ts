/** What a deployment waits for: dependencies that are not ready, not at the same commit, or do not meet its expression. */
import { commitOf } from "../model/git-ref.ts";
import { type CelValue, evaluateCel, isTooExpensive } from "../kit/cel.ts";
import type { JsonObject } from "../kit/json.ts";
import {
  annotation,
  type Freshness,
  followsGit,
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
import { impossibleVerdict, waitingVerdict, whyGone, whyNotReady } from "./depends-on.ts";

export interface DependencyWaitsDeps {
  readonly deployments: Pick<Deployments, "get" | "resource">;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads">;
  readonly enqueue: Queue["enqueue"];
}

/** Its functions return the Ready verdict while the deployment waits, `undefined` if it does not. */
export function createDependencyWaits({ deployments, secrets, sources, enqueue }: DependencyWaitsDeps) {
  /** Each has to be ready, and at the same commit if it follows the same repository. */
  async function forReady(
    deployment: Deployment,
    keys: readonly Key[],
    freshness: Freshness | undefined,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
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

  /** Like Flux, the expression replaces the built-in conditions, among them that both are at the same commit. */
  async function forExpression(
    { key }: Deployment,
    keys: readonly Key[],
    expression: string,
    signal: AbortSignal,
  ): Promise<Verdict | undefined> {
    const [found, resources, self] = await Promise.all([
      Promise.all(keys.map((one) => deployments.get(one))),
      Promise.all(keys.map((one) => deployments.resource(one))),
      deployments.resource(key),
    ]);
    const tasks = keys.map(({ namespace }, i) => {
      const dep = resources[i] ?? {};
      const variables = { self: self ?? {}, dep: namespace === key.namespace ? dep : shownAbroad(dep) };
      return { expressions: { ready: expression }, variables };
    });
    try {
      const values = await evaluateCel(tasks, signal);
      const waitsFor = keys.flatMap((one, i) => {
        const why = whyGone(found[i]) ?? whyNotMet(values[i]?.["ready"]);
        return why === undefined ? [] : [{ key: one, why }];
      });
      return waitsFor.length === 0 ? undefined : waitingVerdict(waitsFor);
    } catch (error) {
      if (!isTooExpensive(error)) throw error;
      return impossibleVerdict(`annotation ${annotation.readyExpr}: ${error.message}; simplify the expression`);
    }
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

  return { forReady, forExpression };
}

function whyNotMet(value: CelValue | undefined): string | undefined {
  if (value === true) return undefined;
  return value === false
    ? `${annotation.readyExpr} is false`
    : `${annotation.readyExpr} cannot be evaluated: ${String(value)}`;
}

/**
 * The part of a resource in another namespace that an expression may depend on: its author may not be allowed to read
 * the spec there, and an expression is a question that is answered with yes or no.
 */
function shownAbroad({ apiVersion, kind, metadata, status }: JsonObject): JsonObject {
  const { name, namespace, generation, labels } = (metadata ?? {}) as JsonObject;
  const { conditions, observedGeneration, observedCommit } = (status ?? {}) as JsonObject;
  const shown = { conditions, observedGeneration, observedCommit };
  return { apiVersion, kind, metadata: { name, namespace, generation, labels }, status: shown };
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
