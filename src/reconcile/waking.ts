/** Turns changes of the resources into requests, at once: whoever edits a deployment does not wait for the sweep. */
import type { Logger } from "../log.ts";
import { isMalformed, keyText, type Deployment, type MalformedDeployment } from "../model.ts";
import type { Queue } from "../ports.ts";
import { wakes } from "./due.ts";

interface Change {
  readonly kind: "added" | "changed" | "removed";
  readonly deployment: Deployment | MalformedDeployment;
  readonly previous?: Deployment | MalformedDeployment | undefined;
}

export interface WakingDeps {
  readonly deployments: { onChange(callback: (change: Change) => void): void };
  readonly queue: Pick<Queue, "enqueue" | "markMoved">;
  readonly log: Logger;
}

/** Returns how to stop. What Redis does not take is left to the sweep: it finds the same from the same resources. */
export function startWaking({ deployments, queue, log }: WakingDeps): () => void {
  let stopped = false;
  deployments.onChange(({ kind, deployment, previous }) => {
    const cause = stopped ? undefined : wakes(kind, deployment, previous);
    if (cause === undefined) return;
    const repo = isMalformed(deployment) ? undefined : deployment.repo;
    // Whoever asks, or just edited it, expects git as it is now, and not as it was when somebody last looked.
    const moved = repo === undefined ? Promise.resolve() : queue.markMoved(repo);
    moved
      .then(() => queue.enqueue([{ kind: "reconcile", deployment: deployment.key, cause, repo }]))
      .catch((error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        log.warn({ deployment: keyText(deployment.key), error: reason }, "could not queue a change; the sweep will");
      });
  });
  return () => {
    stopped = true;
  };
}
