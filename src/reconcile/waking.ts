/** Queues a reconciliation as soon as a resource changes, so that an edited deployment does not wait for the sweep. */
import type { Logger } from "../log.ts";
import {
  type Cause,
  type Deployment,
  type DeploymentChange,
  isMalformed,
  type MalformedDeployment,
  type ReconcileRequest,
} from "../model.ts";
import type { Deployments, Queue } from "../ports.ts";
import { gatherRequests } from "../requests/gather.ts";
import { findRelieved } from "../guards/discriminators.ts";
import { wakes } from "./due.ts";

export interface WakingDeps {
  readonly deployments: Pick<Deployments, "all"> & { onChange(callback: (change: DeploymentChange) => void): void };
  readonly queue: Pick<Queue, "enqueue" | "markMoved">;
  readonly log: Logger;
}

/**
 * Returns a function that stops it, and first queues what is requested. Requests that Redis does not accept are repeated: no resource shows that another one
 * was removed, and no status which health checks a deployment was found to pass.
 */
export function startWaking({ deployments, queue, log }: WakingDeps): () => Promise<void> {
  const gathered = gatherRequests({ enqueue, refused: "could not queue changes; retrying", log });

  async function enqueue(requests: readonly ReconcileRequest[]): Promise<void> {
    // After an edit or a request, the user expects git's current state, not an earlier answer.
    const repos = new Set(requests.map(({ repo }) => repo).filter((repo) => repo !== undefined));
    await Promise.all([...repos].map((repo) => queue.markMoved(repo)));
    await queue.enqueue(requests);
  }

  function ask(deployment: Deployment | MalformedDeployment, cause: Cause): void {
    const repo = isMalformed(deployment) ? undefined : deployment.repo;
    gathered.add({ kind: "reconcile", deployment: deployment.key, cause, repo });
  }

  deployments.onChange(({ kind, deployment, previous }) => {
    const cause = wakes(kind, deployment, previous);
    if (cause !== undefined) ask(deployment, cause);
    if (kind !== "removed") return;
    for (const other of findRelieved(deployment, deployments.all())) ask(other, "drift");
  });
  return () => gathered.stop();
}
