/** Queues a reconciliation as soon as a resource changes, so that an edited deployment does not wait for the sweep. */
import type { Logger } from "../log.ts";
import {
  type Cause,
  type Deployment,
  type DeploymentChange,
  isMalformed,
  keyText,
  type MalformedDeployment,
  type ReconcileRequest,
} from "../model.ts";
import type { Deployments, Queue } from "../ports.ts";
import { findRelieved } from "../guards/discriminators.ts";
import { wakes } from "./due.ts";

export interface WakingDeps {
  readonly deployments: Pick<Deployments, "all"> & { onChange(callback: (change: DeploymentChange) => void): void };
  readonly queue: Pick<Queue, "enqueue" | "markMoved">;
  readonly log: Logger;
}

/** Two hundred resources that are applied together become one batch, and their repository is queried only once. */
const gatherMs = 20;
/** Delay before retrying requests that Redis did not accept: no sweep would find all of them. */
const againMs = 5_000;

/**
 * Returns a function that stops it. Requests that Redis does not accept are repeated: no resource shows that another one
 * was removed, and no status which health checks a deployment was found to pass.
 */
export function startWaking({ deployments, queue, log }: WakingDeps): () => void {
  const gathered = new Map<string, ReconcileRequest>();
  let planned: NodeJS.Timeout | undefined;
  let stopped = false;

  async function flush(requests: readonly ReconcileRequest[]): Promise<void> {
    // After an edit or a request, the user expects git's current state, not an earlier answer.
    const repos = new Set(requests.map(({ repo }) => repo).filter((repo) => repo !== undefined));
    await Promise.all([...repos].map((repo) => queue.markMoved(repo)));
    await queue.enqueue(requests);
  }

  function ask(deployment: Deployment | MalformedDeployment, cause: Cause): void {
    const repo = isMalformed(deployment) ? undefined : deployment.repo;
    gather({ kind: "reconcile", deployment: deployment.key, cause, repo });
    plan(gatherMs);
  }

  function gather(request: ReconcileRequest): void {
    gathered.set(`${keyText(request.deployment)} ${request.cause}`, request);
  }

  function plan(afterMs: number): void {
    planned ??= setTimeout(() => {
      planned = undefined;
      const requests = [...gathered.values()];
      gathered.clear();
      flush(requests).catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        log.warn({ requests: requests.length, error: reason }, "could not queue changes; retrying");
        if (stopped) return;
        requests.forEach(gather);
        plan(againMs);
      });
    }, afterMs);
  }

  deployments.onChange(({ kind, deployment, previous }) => {
    const cause = wakes(kind, deployment, previous);
    if (cause !== undefined) ask(deployment, cause);
    if (kind !== "removed") return;
    for (const other of findRelieved(deployment, deployments.all())) ask(other, "drift");
  });
  return () => {
    stopped = true;
    clearTimeout(planned);
  };
}
