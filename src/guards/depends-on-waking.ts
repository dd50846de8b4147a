/** Queues the dependents of a deployment when the watch sees that it has become ready. */
import type { Logger } from "../log.ts";
import {
  type Deployment,
  type DeploymentChange,
  isMalformed,
  type Key,
  keyText,
  type MalformedDeployment,
  type ReconcileRequest,
} from "../model.ts";
import type { Queue } from "../ports.ts";
import { gatherRequests } from "../requests/gather.ts";
import { type Dependencies, dependenciesOf, findCycle, isHeldBack, whyNotReady } from "./depends-on.ts";

export interface DependencyWakingDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

type Entry = Deployment | MalformedDeployment;

interface Dependent {
  readonly entry: Entry;
  readonly keys: readonly Key[];
  /** The same keys as text. */
  readonly names: ReadonlySet<string>;
  /** Any change of a dependency may make it ready. */
  readonly byExpression: boolean;
}

/**
 * Returns a function that stops it. What Redis does not accept is repeated, and a server that starts requests each
 * blocked deployment once: a dependency that became ready while no server was watching does not change again.
 */
export function startDependencyWaking({ deployments, queue, log }: DependencyWakingDeps): () => Promise<void> {
  const dependents = new Map<string, Dependent>();
  const enqueue = (requests: readonly ReconcileRequest[]) => queue.enqueue(requests);
  const gathered = gatherRequests({ enqueue, refused: "could not queue waiting dependents; retrying", log });

  deployments.onChange(({ kind, deployment, previous }) => {
    const id = keyText(deployment.key);
    const before = dependents.get(id);
    const { keys, readyExpr }: Dependencies = kind === "removed" ? { keys: [] } : dependenciesOf(deployment);
    const byExpression = readyExpr !== undefined;
    const dependent: Dependent = { entry: deployment, keys, names: new Set(keys.map(keyText)), byExpression };
    if (keys.length > 0) dependents.set(id, dependent);
    else dependents.delete(id);

    const others = [...dependents.values()].filter((dependent) => dependent.names.has(id));
    if (kind === "changed") {
      if (becameReady(deployment, previous)) others.forEach(wake);
      else others.filter((other) => other.byExpression && isHeldBack(other.entry)).forEach(wake);
      // An annotation does not change the generation, so nothing else would notice. It may also close or break a cycle.
      if (annotationsDiffer(deployment, previous)) [dependent, ...circleOf(dependent), ...heldBack()].forEach(wake);
    } else {
      if (kind === "added" && isHeldBack(deployment)) wake(dependent);
      others.filter(({ entry }) => isHeldBack(entry)).forEach(wake);
      if (kind === "removed" && before !== undefined) heldBack().forEach(wake);
    }
  });

  function heldBack(): Dependent[] {
    return [...dependents.values()].filter(({ entry }) => isHeldBack(entry));
  }

  function circleOf({ entry }: Dependent): Dependent[] {
    const circle = findCycle(entry.key, (key) => dependents.get(keyText(key))?.keys ?? []) ?? [];
    return circle.map((key) => dependents.get(keyText(key))).filter((member) => member !== undefined);
  }

  function wake({ entry }: Dependent): void {
    const repo = isMalformed(entry) ? undefined : entry.repo;
    gathered.add({ kind: "reconcile", deployment: entry.key, cause: "change", repo });
  }

  return () => gathered.stop();
}

/** It became ready, or was ready and has moved to another commit, which may be the one that dependents wait for. */
function becameReady(now: Entry, before: Entry | undefined): boolean {
  if (whyNotReady(now, undefined) !== undefined) return false;
  if (before === undefined || whyNotReady(before, undefined) !== undefined) return true;
  return now.status.observedCommit !== before.status.observedCommit || approvalOf(now) !== approvalOf(before);
}

function approvalOf({ status }: Entry): string {
  return JSON.stringify([status.lastObjectsHash, status.lastDeployResult?.id]);
}

function annotationsDiffer(now: Entry, before: Entry | undefined): boolean {
  return before !== undefined && JSON.stringify(dependenciesOf(now)) !== JSON.stringify(dependenciesOf(before));
}
