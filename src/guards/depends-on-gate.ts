/** Blocks a deployment until its dependencies are ready. It waits in its status and does not occupy a worker. */
import { type Deployment, type Freshness, type Key, keyText } from "../model.ts";
import type { Verdict } from "../reconcile/status/conditions.ts";
import { cycleMessage, dependenciesOf, findCycle, impossibleVerdict } from "./depends-on.ts";
import { createDependencyWaits, type DependencyWaitsDeps } from "./depends-on-waits.ts";
import type { Deployments } from "../ports.ts";

export interface DependencyGateDeps extends DependencyWaitsDeps {
  readonly deployments: Pick<Deployments, "get" | "resource" | "all">;
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

export function createDependencyGate(deps: DependencyGateDeps): DependencyGate {
  const { deployments } = deps;
  const waits = createDependencyWaits(deps);

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
    const { keys, readyExpr } = dependenciesOf(deployment);
    if (impossible !== undefined || keys.length === 0) return impossible;
    return readyExpr === undefined
      ? waits.forReady(deployment, keys, freshness, signal)
      : waits.forExpression(deployment, keys, readyExpr, signal);
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

  return { whyBlocked, whyBlockedForever };
}
