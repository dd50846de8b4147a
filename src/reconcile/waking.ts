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
import { findRelieved } from "../guards/discriminators.ts";
import { wakes } from "./due.ts";

export interface WakingDeps {
  readonly deployments: Pick<Deployments, "all"> & { onChange(callback: (change: DeploymentChange) => void): void };
  readonly queue: Pick<Queue, "enqueue" | "markMoved">;
  readonly log: Logger;
}

/** Two hundred resources that are applied together become one batch, and their repository is queried only once. */
const gatherMs = 20;
/** Delay before retrying requests that Redis did not accept and that no sweep would find. */
const againMs = 5_000;

/**
 * Returns a function that stops it. Most requests that Redis does not accept are left to the sweep, which derives the
 * same ones from the resources.
 */
export function startWaking({ deployments, queue, log }: WakingDeps): () => void {
  let gathered: ReconcileRequest[] = [];
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
    gathered.push({ kind: "reconcile", deployment: deployment.key, cause, repo });
    plan(gatherMs);
  }

  function plan(afterMs: number): void {
    planned ??= setTimeout(() => {
      planned = undefined;
      const requests = gathered;
      gathered = [];
      flush(requests).catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        log.warn({ requests: requests.length, error: reason }, "could not queue changes; retrying");
        // No resource shows that another one was removed, so the sweep cannot find these.
        const lost = requests.filter(({ cause }) => cause === "drift");
        if (stopped || lost.length === 0) return;
        gathered.unshift(...lost);
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
