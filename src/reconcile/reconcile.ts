/**
 * Reconciles one KluctlDeployment: reads the current state, decides whether there is anything to do, and does it under
 * the lease.
 */
import { ApiError, RemoteBusyError } from "../errors.ts";
import { commitOf } from "../model/git-ref.ts";
import {
  annotation,
  type AsOf,
  type Cause,
  finalizer,
  followsGit,
  isMalformed,
  keyText,
  type Attempt,
  type Deployment,
  type GitDeployment,
  type MalformedDeployment,
  type Outcome,
  type ReconcileRequest,
} from "../model.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import type { Held, Leases, Queue, Sources } from "../ports.ts";
import {
  isReconciling,
  pendingCommitOf,
  readyCondition,
  verdictOf,
  type Verdict,
  withPendingCommit,
} from "./status/conditions.ts";
import { readGitCredentials } from "../access/credentials.ts";
import { createDependencyGate } from "../guards/depends-on-gate.ts";
import { dueAt } from "./due.ts";
import { finalize } from "./finalize.ts";
import { projectKey } from "./keys.ts";
import { runCommand } from "../requests/commands.ts";
import { runLoop } from "./loop.ts";
import { refuseRequests } from "../requests/manual.ts";
import { findRequest, isAnnotated, isAsked, nextCommand } from "../requests/requests.ts";
import { createStatusWriter } from "./status/status-writer.ts";
import { tellUnprepared } from "./status/unprepared.ts";
import type { Loop, LoopDeps } from "./work.ts";

export interface ReconcileDeps extends LoopDeps {
  readonly sources: Sources;
  readonly leases: Leases;
  readonly lastMove: Queue["lastMove"];
  readonly markMoved: Queue["markMoved"];
  readonly enqueue: Queue["enqueue"];
}

/** `busy`: another worker holds the deployment's lease; try again soon. */
export type Reconcile = (request: ReconcileRequest, attempt: Attempt) => Promise<Outcome | "busy">;

/** Interval checks within this time share one answer of git, unless their interval is shorter. */
const sharedMs = 30_000;
const leastSharedMs = 2_000;
/** The longest delay while another job fetches from the same slow remote. */
const mostPutOffMs = 10_000;

export function createReconcile(deps: ReconcileDeps): Reconcile {
  const { deployments, leases, log } = deps;
  const dependencies = createDependencyGate(deps);

  return async function reconcile(request, attempt) {
    try {
      return await look(request, attempt);
    } catch (error) {
      if (error instanceof RemoteBusyError) return comeAgain(error);
      if (!(error instanceof ApiError)) throw error;
      // Nothing can be read or recorded now: the only option is to try again.
      log.warn({ ...request.deployment, error: error.message }, "request to the Kubernetes API failed");
      return { kind: "failed", retry: "soon", message: error.message };
    }
  };

  /** The job waits without occupying a slot; the slower the remote, the longer. */
  function comeAgain({ slowForMs, message }: RemoteBusyError): Outcome {
    return { kind: "later", afterMs: Math.min(slowForMs / 5, mostPutOffMs), why: message };
  }

  /** Postpones the job if the remote is slow, except for requests and deletions. */
  function leaveIfSlow(deployment: Deployment | MalformedDeployment): void {
    if (!followsGit(deployment) || deployment.deletionTimestamp !== undefined || isAsked(deployment)) return;
    const slowForMs = deps.sources.slowForMs(deployment.repo);
    if (slowForMs !== undefined) throw new RemoteBusyError(deployment.repo, slowForMs);
  }

  async function look(request: ReconcileRequest, { attempt, lastAttempt, signal }: Attempt): Promise<Outcome | "busy"> {
    const { deployment: key } = request;
    const readAt = monotonicNow();
    const deployment = await deployments.get(key);
    if (deployment === undefined) return { kind: "skipped", why: "the resource was deleted" };
    leaveIfSlow(deployment);
    const asOf = await lastMove(deployment, request, attempt);
    const nothing = attempt > 1 ? undefined : await nothingToDo(deployment, request, asOf, signal);
    if (nothing !== undefined) return { kind: "skipped", why: nothing };

    const held = await leases.hold(key, deployment);
    if (held === undefined) return "busy";
    try {
      const isCurrent = held.untouchedSince !== undefined && held.untouchedSince <= readAt;
      const known = isCurrent ? deployment : undefined;
      const underIt = { attempt, lastAttempt, signal: AbortSignal.any([signal, held.lost]) };
      return await underLease(request, held, underIt, known);
    } finally {
      await held
        .release()
        .catch((error: unknown) => log.warn({ err: error, ...key }, "could not release the lease; it will expire"));
    }
  }

  /**
   * The freshness required of git's answers. A job that was not triggered by a push exists because the webhook may have
   * been lost: it may reuse an answer that another such job got moments ago, but not one as old as the last known move.
   * An answer must never be older than one that an earlier reconciliation of the same deployment had, or the deployment
   * would go back to an older commit. So the name contains the move and the current time slot, which is no longer than
   * the deployment's own interval.
   */
  async function lastMove(
    deployment: Deployment | MalformedDeployment,
    { cause }: ReconcileRequest,
    attempt: number,
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
   * A user's request expects git's current state and may have been made after the last move was recorded, while this
   * job was already queued. From here on every job gets a newer answer, so that later jobs do not go back to an older
   * commit.
   */
  async function askAnew(deployment: Deployment): Promise<void> {
    if (!followsGit(deployment)) return;
    await deps.markMoved(deployment.repo).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      log.warn(
        { ...deployment.key, error: why },
        "could not mark the repository as changed; an earlier answer of git may be used",
      );
    });
  }

  /**
   * The state may have changed before the lease was acquired: read it again, then act. Not needed if no other worker
   * can have changed it in the meantime (`known`); a user's request made in these moments triggers a job of its own.
   */
  async function underLease(
    request: ReconcileRequest,
    held: Held,
    attempt: Attempt,
    known: Deployment | MalformedDeployment | undefined,
  ): Promise<Outcome> {
    let outcome = await step(request, held, attempt, known);
    while (outcome === "again") outcome = await step(request, held, attempt);
    return outcome;
  }

  /** Runs one requested command or, if there is none, the reconciliation; `again`: there is more to do. */
  async function step(
    request: ReconcileRequest,
    held: Held,
    { attempt, lastAttempt, signal }: Attempt,
    known?: Deployment | MalformedDeployment,
  ): Promise<Outcome | "again"> {
    const { deployment: key } = request;
    const deployment = known ?? (await deployments.get(key));
    if (deployment === undefined) return { kind: "skipped", why: "the resource was deleted" };
    if (deployment.deletionTimestamp !== undefined) {
      return deployment.finalizers.includes(finalizer)
        ? finalize({ deployment, request, held, lastAttempt, signal }, deps)
        : { kind: "skipped", why: "being deleted" };
    }
    if (isMalformed(deployment)) return reportMalformed(deployment, signal);
    if (!deployment.finalizers.includes(finalizer)) await deployments.setFinalizer(deployment, finalizer, true);
    if (isAnnotated(deployment)) await askAnew(deployment);
    const asOf = await lastMove(deployment, request, attempt);
    const loop = { deployment, request, asOf, retrying: attempt > 1, held, signal };
    const command = nextCommand(deployment);
    if (command !== undefined) {
      await runCommand(command, loop, deps);
      if (!signal.aborted) return "again";
      return { kind: "failed", retry: "soon", message: `the requested ${command.kind} was interrupted` };
    }
    // Requests are carried out even if the deployment is suspended or blocked: the user knows and waits for the result.
    if (findRequest(deployment, "reconcile") !== undefined) return runLoop(loop, deps);
    if (deployment.spec.suspend) return settleSuspended(loop, await pendingCommit(loop));
    const heldBack = await dependencies.holds(deployment, asOf, signal);
    if (heldBack !== undefined) return settleHeldBack(loop, heldBack);
    return runLoop(loop, deps);
  }

  async function reportMalformed(deployment: MalformedDeployment, signal: AbortSignal): Promise<Outcome> {
    const { problem, status: before } = deployment;
    if (isAsked(deployment)) await refuseRequests(deployment, problem, deps);
    const isReported = before.lastPrepareError === problem && readyCondition(before)?.status === "False";
    if (!isReported || isReconciling(before)) {
      const status = createStatusWriter(deployments, deployment, deps.clock, log, signal);
      status.set({ lastPrepareError: problem, observedGeneration: deployment.generation });
      const { ready } = await tellUnprepared({ message: problem }, { deps, secrets: [] });
      await status.finish(ready);
      log.warn({ ...deployment.key, error: problem }, "the resource is invalid");
      deployments.event(deployment, "Warning", ready.reason, problem);
    }
    return { kind: "failed", retry: "person", message: `${keyText(deployment.key)}: ${problem}` };
  }

  /** The commit that a suspended deployment would deploy, if it is a newer one: the sweep saw the ref move. */
  async function pendingCommit({ deployment, request, asOf, signal }: Loop): Promise<string | undefined> {
    if (request.cause !== "sweep" || !followsGit(deployment)) return pendingCommitOf(deployment);
    try {
      const commit = await headOf(deployment, asOf, signal);
      return commit === deployment.status.observedCommit ? undefined : commit;
    } catch (error) {
      if (error instanceof RemoteBusyError) throw error;
      log.debug({ ...deployment.key, error: String(error) }, "newer commit unknown"); // the sweep reports remote errors
      return pendingCommitOf(deployment);
    }
  }

  async function headOf(deployment: GitDeployment, asOf: AsOf | undefined, signal: AbortSignal) {
    const { source } = deployment.spec;
    const credentials = await readGitCredentials(deployment, deps.secrets);
    const heads = await deps.sources.heads({ url: source.url, credentials }, asOf, signal, { leaves: true });
    return commitOf(source.ref, heads);
  }

  /**
   * A suspended deployment is not reconciled, but its generation is observed and its status names the commit that is
   * not deployed.
   */
  async function settleSuspended({ deployment, signal }: Loop, pending: string | undefined): Promise<Outcome> {
    const { spec, status, generation } = deployment;
    const ready = readyCondition(status);
    const verdict = ready !== undefined && ready.status !== "Unknown" ? ready : verdictOf(spec, status);
    const message = withPendingCommit(verdict.message, pending);
    if (status.observedGeneration !== generation || isReconciling(status) || message !== ready?.message) {
      const writer = createStatusWriter(deployments, deployment, deps.clock, log, signal);
      writer.set({ observedGeneration: generation, projectKey: projectKey(spec.source) });
      await writer.finish({ ...verdict, message });
    }
    return { kind: "skipped", why: "suspended" };
  }

  /**
   * Reports what the deployment waits for. Its generation stays unobserved, because the change is yet to be handled.
   */
  async function settleHeldBack({ deployment, request, signal }: Loop, verdict: Verdict): Promise<Outcome> {
    const { cause } = request;
    const { status, generation } = deployment;
    const { status: ready, reason, message } = readyCondition(status) ?? {};
    const waits = verdict.status === "Unknown";
    const told = reason === verdict.reason && message === verdict.message;
    // Nothing about it changed: that it cannot be checked right now does not make it unready.
    const fine =
      waits &&
      (cause === "interval" || cause === "drift") &&
      ready === "True" &&
      status.observedGeneration === generation;
    if ((!told && !fine) || isReconciling(status)) {
      await createStatusWriter(deployments, deployment, deps.clock, log, signal).finish(fine ? undefined : verdict);
    }
    if (!told && !fine) {
      deployments.event(deployment, waits ? "Normal" : "Warning", verdict.reason, verdict.message);
    }
    log.info({ ...deployment.key, cause, why: verdict.message }, "blocked by a dependency");
    return waits
      ? { kind: "skipped", why: verdict.message }
      : { kind: "failed", retry: "person", message: `${keyText(deployment.key)}: ${verdict.message}` };
  }

  /**
   * Requests outlive their causes: a delivery is sent twice, every replica sees the same change, a job runs again
   * because its end was not recorded. Returns why there is nothing to do, if so, without a lease and without kluctl.
   */
  async function nothingToDo(
    deployment: Deployment | MalformedDeployment,
    { cause, also = [] }: ReconcileRequest,
    asOf: AsOf | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    let first: string | undefined;
    for (const one of [cause, ...also]) {
      const why = await nothingToDoFor(one, deployment, asOf, signal);
      if (why === undefined) return undefined;
      first ??= why;
    }
    return first;
  }

  async function nothingToDoFor(
    cause: Cause,
    deployment: Deployment | MalformedDeployment,
    asOf: AsOf | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { status, generation } = deployment;
    if (deployment.deletionTimestamp !== undefined || isAsked(deployment)) return undefined;
    if (isMalformed(deployment) || cause === "drift" || isReconciling(status)) return undefined;
    if (cause === "interval") {
      const now = deps.clock.now();
      // The request may have been queued before the previous reconciliation ended.
      if (dueAt(deployment, { retryAt: deps.retryAt?.(deployment) }, now) > now) return "no longer due";
      return (await deps.skipping?.spareJob(deployment, undefined, { move: asOf?.name })) === "skipped"
        ? "nothing can have changed"
        : undefined;
    }
    if (status.observedGeneration !== generation) return undefined;
    if (deployment.spec.suspend) return cause === "sweep" ? undefined : "suspended";
    if (deployment.annotations[annotation.confirmPrune] !== undefined) return undefined;
    if (cause === "manual") return "the request was already answered";
    // The job that would have retried a failure may be gone: its worker died, or this job replaced it.
    if (readyCondition(status)?.status !== "True") return undefined;
    if (cause === "change" && dependencies.holdsForever(deployment) !== undefined) return undefined;
    if (cause === "change") return "this change was already handled";
    try {
      if (!followsGit(deployment)) return undefined;
      const at = deps.clock.now();
      const commit = await headOf(deployment, asOf, signal);
      if (commit === undefined) return undefined;
      if (commit === status.observedCommit) return `already at ${commit}`;
      // Pushes skip this check, because someone waits for them and a reported push usually affects the project's
      // inputs.
      const spared = cause === "sweep" && (await deps.skipping?.spareJob(deployment, { commit, at }));
      return spared === "skipped" ? `none of its inputs changed up to ${commit}` : undefined;
    } catch (error) {
      if (error instanceof RemoteBusyError) throw error;
      return undefined; // the reconciliation meets the same error and reports it
    }
  }
}
