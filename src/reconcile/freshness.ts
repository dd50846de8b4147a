/** How recent git's answers have to be for a job. */
import type { Deployment, Freshness, MalformedDeployment, ReconcileRequest } from "../model.ts";
import { followsGit } from "../model.ts";
import type { Logger } from "../log.ts";
import type { Queue } from "../ports.ts";
import { retryAfterMs } from "./decide.ts";

export interface FreshnessDeps {
  readonly lastMove: Queue["lastMove"];
  readonly markMoved: Queue["markMoved"];
  readonly log: Logger;
}

/** An interval promises one check in that time, so an answer may be a part of it old. */
const partOfInterval = 0.3;
const longestMs = 90_000;
const shortestMs = 2_000;
/** For requests: somebody, or another deployment, waits for the result. */
const longestRequestedMs = 30_000;

/**
 * The age up to which an interval check may reuse an answer of git, in milliseconds. It is less than the time between two
 * interval checks of a deployment, so that the second uses a newer answer than the first, also on another server. Other
 * work may follow sooner: should another server then have an older answer, the checkout asks git a second time before
 * the deployment goes back to an ancestor.
 */
export function checkedWithinMs(spec: Deployment["spec"]): number {
  return Math.max(shortestMs, Math.min(longestMs, partOfInterval * Math.min(spec.intervalMs, retryAfterMs(spec))));
}

/**
 * Nothing may be older than the last known move. A job that was not triggered by a push exists because the webhook may
 * have been lost: it reuses only what was answered moments ago.
 */
export async function freshnessFor(
  deployment: Deployment | MalformedDeployment,
  { cause }: ReconcileRequest,
  attempt: number,
  { lastMove }: FreshnessDeps,
): Promise<Freshness | undefined> {
  if (!followsGit(deployment)) return undefined;
  const since = await lastMove(deployment.repo);
  // Every other cause has recorded a move, which Redis has lost since.
  if (since === undefined && cause !== "interval") return undefined;
  if (attempt > 1) return { since, maxAgeMs: shortestMs };
  // Only pushes are certain to have recorded the move first; other requests may come long after it.
  if (cause === "push" || cause === "include") return { since };
  const maxAgeMs = checkedWithinMs(deployment.spec);
  return { since, maxAgeMs: cause === "interval" ? maxAgeMs : Math.min(maxAgeMs, longestRequestedMs) };
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
