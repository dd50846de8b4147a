/** Turns changes of the resources into requests, at once: whoever edits a deployment does not wait for the sweep. */
import type { Logger } from "../log.ts";
import { isMalformed, type Cause, type Deployment, type MalformedDeployment, type ReconcileRequest } from "../model.ts";
import type { DeploymentChange, Deployments, Queue } from "../ports.ts";
import { findRelieved } from "./discriminators.ts";
import { wakes } from "./due.ts";

export interface WakingDeps {
  readonly deployments: Pick<Deployments, "all"> & { onChange(callback: (change: DeploymentChange) => void): void };
  readonly queue: Pick<Queue, "enqueue" | "markMoved">;
  readonly log: Logger;
}

/** Two hundred resources that are applied together are one batch: their repository is asked once, not for each. */
const gatherMs = 20;
/** What Redis did not take, and no sweep finds. */
const againMs = 5_000;

/** Returns how to stop. What Redis does not take is left to the sweep, where it finds the same from the same resources. */
export function startWaking({ deployments, queue, log }: WakingDeps): () => void {
  let gathered: ReconcileRequest[] = [];
  let planned: NodeJS.Timeout | undefined;
  let stopped = false;

  async function flush(requests: readonly ReconcileRequest[]): Promise<void> {
    // Whoever asks, or just edited it, expects git as it is now, and not as it was when somebody last looked.
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
        // Nothing in a resource says that another one is gone.
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
