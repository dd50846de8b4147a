/**
 * Step 7 of a push: reads the deployment as it is now, and stops if the request is already fulfilled. Everything else
 * happens under the deployment's lease. Next: src/reconcile/loop.ts.
 */
import { ApiError, RemoteBusyError, SpecChangedError } from "../errors.ts";
import {
  type AnyDeployment,
  type Attempt,
  finalizer,
  followsGit,
  type Held,
  isMalformed,
  type Outcome,
  type ReconcileRequest,
} from "../model.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import type { Leases, Queue, Sources } from "../ports.ts";
import { createDependencyGate } from "../guards/depends-on-gate.ts";
import { finalize } from "./finalize.ts";
import { freshnessFor, requireFresh, type FreshnessDeps } from "./freshness.ts";
import { findFulfilled } from "./fulfilled.ts";
import type { RequestedCheck } from "./parts.ts";
import { settleAwaiting } from "./awaiting.ts";
import { settleBlocked, settleMalformed, settleSuspended, whyStillBlocked } from "./settle.ts";
import { findRequest, isAnnotated, isAsked, nextCommand } from "../requests/requests.ts";
import type { LoopDeps } from "./work.ts";

export interface ReconcileDeps extends LoopDeps, FreshnessDeps {
  readonly sources: Sources;
  readonly leases: Leases;
  readonly enqueue: Queue["enqueue"];
}

/** `busy`: another worker holds the deployment's lease; try again soon. */
export type Reconcile = (request: ReconcileRequest, attempt: Attempt) => Promise<Outcome | "busy">;

type Turn = Pick<Attempt, "attempt" | "signal"> & { readonly held: Held };

/** Delay before the next attempt if all quick ones failed, and not even that could be recorded. */
const unrecordedAgainMs = 60_000;
const unrecorded = "the Kubernetes API does not accept its requests; the log has the error";
/** How often the spec may change right before a deploy, and for how long one that keeps changing is left alone. */
const [mostChanges, changedAgainMs] = [3, 10_000];

export function createReconcile(deps: ReconcileDeps): Reconcile {
  const { deployments, leases, parts, log } = deps;
  const dependencies = createDependencyGate(deps);

  return async function reconcile(request, attempt) {
    try {
      return await reconcileUnlessFulfilled(request, attempt);
    } catch (error) {
      // The job waits without occupying a slot.
      if (error instanceof RemoteBusyError) return { kind: "later", afterMs: error.retryAfterMs, why: error.message };
      if (!(error instanceof ApiError)) throw error;
      // Nothing can be read or recorded now: the only option is to try again.
      log.warn({ ...request.deployment, error: error.message }, "request to the Kubernetes API failed");
      // No status shows what failed, so nothing would request it again: for causes without a commit, no sweep would.
      if (attempt.lastAttempt) return { kind: "later", afterMs: unrecordedAgainMs, why: unrecorded, afresh: true };
      return { kind: "failed", retry: "soon", message: error.message };
    }
  };

  /** Postpones the job if the remote is slow, except for requests and deletions. */
  function throwIfSlow(deployment: AnyDeployment): void {
    if (!followsGit(deployment) || deployment.deletionTimestamp !== undefined || isAsked(deployment)) return;
    const slowForMs = deps.sources.slowForMs(deployment.repo);
    if (slowForMs !== undefined) throw new RemoteBusyError(deployment.repo, slowForMs);
  }

  async function reconcileUnlessFulfilled(
    request: ReconcileRequest,
    { attempt, signal }: Attempt,
  ): Promise<Outcome | "busy"> {
    const { deployment: key } = request;
    const readAt = monotonicNow();
    const deployment = await deployments.get(key);
    if (deployment === undefined) return { kind: "skipped", why: "the resource was deleted" };
    throwIfSlow(deployment);
    const freshness = await freshnessFor(deployment, request, attempt, deps);
    const fulfilled = attempt > 1 ? undefined : await whyFulfilled(request, { deployment, freshness, signal });
    if (fulfilled !== undefined) return { kind: "skipped", why: fulfilled };

    const held = await leases.hold(key, deployment);
    if (held === undefined) return "busy";
    try {
      const isCurrent = held.untouchedSince !== undefined && held.untouchedSince <= readAt;
      const known = isCurrent ? deployment : undefined;
      return await underLease(request, { attempt, held, signal: AbortSignal.any([signal, held.lost]) }, known);
    } finally {
      await held
        .release()
        .catch((error: unknown) => log.warn({ err: error, ...key }, "could not release the lease; it will expire"));
    }
  }

  /** Why there is nothing to do for any of the request's causes, if so. */
  async function whyFulfilled(request: ReconcileRequest, read: Omit<RequestedCheck, "cause">) {
    let first: string | undefined;
    for (const cause of [request.cause, ...(request.also ?? [])]) {
      const { why } = await parts.findFulfilled({ ...read, cause }, (check) =>
        findFulfilled(check, { ...deps, dependencies }),
      );
      if (why === undefined) return cause === "interval" ? whyStillBlocked(request, read, dependencies) : undefined;
      first ??= why;
    }
    return first;
  }

  /**
   * The state may have changed before the lease was acquired: read it again, then act. Not needed if no other worker
   * can have changed it in the meantime (`known`); a user's request made in these moments triggers a job of its own.
   */
  async function underLease(request: ReconcileRequest, turn: Turn, known: AnyDeployment | undefined): Promise<Outcome> {
    let changes = 0;
    const againIfChanged = (error: unknown): Outcome | "again" => {
      if (!(error instanceof SpecChangedError)) throw error;
      return ++changes < mostChanges ? "again" : { kind: "later", afterMs: changedAgainMs, why: error.message };
    };
    let outcome = await step(request, turn, known).catch(againIfChanged);
    while (outcome === "again") outcome = await step(request, turn).catch(againIfChanged);
    return outcome;
  }

  /** Runs one requested command or, if there is none, the reconciliation; `again`: there is more to do. */
  async function step(request: ReconcileRequest, turn: Turn, known?: AnyDeployment): Promise<Outcome | "again"> {
    const { attempt, held, signal } = turn;
    const deployment = known ?? (await deployments.get(request.deployment));
    if (deployment === undefined) return { kind: "skipped", why: "the resource was deleted" };
    if (deployment.deletionTimestamp !== undefined) {
      return deployment.finalizers.includes(finalizer)
        ? finalize({ deployment, request, held, signal }, deps)
        : { kind: "skipped", why: "being deleted" };
    }
    if (isMalformed(deployment)) return settleMalformed(deployment, deps, signal);
    if (!deployment.finalizers.includes(finalizer)) await deployments.setFinalizer(deployment, finalizer, true);
    if (isAnnotated(deployment)) await requireFresh(deployment, deps);
    const freshness = await freshnessFor(deployment, request, attempt, deps);
    const loop = { deployment, request, freshness, retrying: attempt > 1, held, signal };
    const command = nextCommand(deployment);
    if (command !== undefined) {
      await parts.runCommand(command, loop, deps);
      if (!signal.aborted) return "again";
      return { kind: "failed", retry: "soon", message: `the requested ${command.kind} was interrupted` };
    }
    // Requests are carried out even if the deployment is suspended or blocked: the user knows and waits for the result.
    if (findRequest(deployment, "reconcile") !== undefined) return parts.runLoop(loop, deps);
    const awaiting = await settleAwaiting(loop, deps);
    if (awaiting !== undefined) return awaiting;
    if (deployment.spec.suspend) return settleSuspended(loop, deps);
    const blocked = await dependencies.whyBlocked(deployment, freshness, signal);
    return blocked === undefined ? parts.runLoop(loop, deps) : settleBlocked(loop, blocked, deps);
  }
}
