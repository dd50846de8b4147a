/** How recent git's answers have to be for a job. */
import type { AsOf, Deployment, MalformedDeployment, ReconcileRequest } from "../model.ts";
import { followsGit } from "../model.ts";
import type { Logger } from "../log.ts";
import type { Clock, Queue } from "../ports.ts";

export interface FreshnessDeps {
  readonly lastMove: Queue["lastMove"];
  readonly markMoved: Queue["markMoved"];
  readonly clock: Clock;
  readonly log: Logger;
}

/** Interval checks within this time share one answer of git, unless their interval is shorter. */
const sharedMs = 30_000;
const leastSharedMs = 2_000;

/**
 * A job that was not triggered by a push exists because the webhook may have been lost: it may reuse an answer that
 * another such job got moments ago, but not one as old as the last known move. An answer must never be older than one
 * that an earlier reconciliation of the same deployment had, or the deployment would go back to an older commit. So the
 * name contains the move and the current time slot, which is no longer than the deployment's own interval.
 */
export async function freshnessFor(
  deployment: Deployment | MalformedDeployment,
  { cause }: ReconcileRequest,
  attempt: number,
  deps: FreshnessDeps,
): Promise<AsOf | undefined> {
  if (!followsGit(deployment)) return undefined;
  const move = await deps.lastMove(deployment.repo);
  const isFirst = attempt === 1;
  // Only a push is certain to have recorded the move first; other requests may come long after it.
  if (cause === "push" && isFirst) return move === undefined ? undefined : { name: move, moved: true };
  if (move === undefined && !(cause === "interval" && isFirst)) return undefined;
  const { intervalMs, retryIntervalMs = intervalMs } = deployment.spec;
  const ms = Math.max(leastSharedMs, Math.min(sharedMs, intervalMs, retryIntervalMs));
  const name = `${move ?? "no move"}, interval ${ms} ${Math.floor(deps.clock.now() / ms)}`;
  // The sweep saw the repository move, and most users request a reconciliation after a change.
  return { name, moved: (cause === "sweep" || cause === "manual") && isFirst };
}

/**
 * A user's request expects git's current state and may have been made after the last move was recorded, while this job
 * was already queued. From here on every job gets a newer answer, so that later jobs do not go back to an older commit.
 */
export async function requireFresh(deployment: Deployment, { markMoved, log }: FreshnessDeps): Promise<void> {
  if (!followsGit(deployment)) return;
  await markMoved(deployment.repo).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    log.warn(
      { ...deployment.key, error: why },
      "could not mark the repository as changed; an earlier answer of git may be used",
    );
  });
}
