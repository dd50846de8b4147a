/**
 * Step 8 of a push: one reconciliation of one deployment, under its lease: fetch, compare, deploy, validate, record.
 * Reads top to bottom, and turns every failure into a status. Next: src/reconcile/apply.ts.
 */
import { PrepareError, RemoteBusyError, SpecChangedError } from "../errors.ts";
import type { Checkout, CommandResult, Health, Identity, Outcome, ValidateResult } from "../model.ts";
import { redactText } from "../redact/redact-text.ts";
import { apply } from "./apply.ts";
import { keptDue } from "./decide.ts";
import {
  failureOf,
  readyCondition,
  reason,
  type Verdict,
  verdictOf,
  withHealth,
  withNotes,
} from "./status/conditions.ts";
import { retryOf, toFailure } from "./failures.ts";
import { projectKey } from "./keys.ts";
import { announceHealth, announceOvertaken, outcomeOf } from "./awaiting.ts";
import { answerRequest, errorText, takeRequest } from "../requests/manual.ts";
import { type Project, withProject } from "./project.ts";
import { findRequest } from "../requests/requests.ts";
import { toStageError } from "./stage-error.ts";
import { differs } from "./status/results.ts";
import { describePrepareError } from "./status/prepare-error.ts";
import { startWork, type Loop, type LoopDeps, type Work } from "./work.ts";

/** Returns `again` if the request was invalid: it has been answered, and the reconciliation has not started yet. */
export async function runLoop(loop: Loop, deps: LoopDeps): Promise<Outcome | "again"> {
  const { deployment, request, signal, held } = loop;
  const startedAt = deps.clock.now();
  const begun = startWork(loop, deps);
  const { status, log } = begun;

  status.set({ projectKey: projectKey(deployment.spec.source) });
  const pending = findRequest(deployment, "reconcile");
  const taken = pending && (await takeRequest(pending, begun));

  if (taken?.refused !== undefined) {
    deps.deployments.event(deployment, "Warning", reason.reconcileFailed, taken.refused);
    answerRequest(taken, begun, { commandError: taken.refused });
    await status.save("Initializing");
    return "again";
  }
  const work: Work = taken
    ? { ...begun, deployment: taken.deployment, asked: { ...taken.result.request, kind: taken.kind } }
    : begun;

  let ended: Ending;
  try {
    ended = await (taken ? attempt(work) : reportingProgress(work, () => attempt(work)));
  } finally {
    await status.settled(); // a job that is postponed releases the lease next
  }
  const { outcome, ready, commandError } = ended;
  if (held.lost.aborted) return outcome; // another worker may already be writing this status

  if (taken) answerRequest(taken, work, { commandError });
  if (signal.aborted) return outcome; // handed back: the next worker finishes the status
  if (work.asked?.overridesPatch === undefined) status.set({ observedGeneration: deployment.generation });
  await status.finish(ready);
  if (request.receivedAt !== undefined && request.cause !== "interval" && ready.status === "True") {
    deps.observe?.pushToLive?.((deps.clock.now() - request.receivedAt) / 1_000);
  }
  log.info({ outcome: outcome.kind, cause: request.cause, ms: deps.clock.now() - startedAt }, "reconciled");
  return outcome;
}

/** Most interval checks finish within this time; reporting progress only afterwards saves one of two status writes. */
const soonMs = 1_000;

async function reportingProgress({ status, request, signal }: Work, doIt: () => Promise<Ending>): Promise<Ending> {
  const announce = () => {
    if (!status.hasProgress && !signal.aborted) status.progress("Initializing");
  };
  if (request.cause !== "interval") {
    announce();
    return doIt();
  }
  const timer = setTimeout(announce, soonMs);
  try {
    const ending = await doIt();
    // The retry time is derived from reconciliations that are seen to end, so a failed one must be seen to start.
    if (ending.ready.status !== "True") announce();
    return ending;
  } finally {
    clearTimeout(timer);
  }
}

interface Ending {
  readonly outcome: Outcome;
  readonly ready: Verdict;
  /** For the request's result, if there is a request. */
  readonly commandError?: string | undefined;
}

/** How a reconciliation that got as far as a result ended, and what it found. */
export interface LoopReport extends Ending {
  /** Absent if nothing may be deployed. */
  readonly found?: LoopFindings | undefined;
}

export interface LoopFindings {
  readonly checkout: Pick<Checkout, "root" | "commit">;
  readonly identity: Identity;
  /** The result of the deploy or, if there was none, of the comparison. */
  readonly rendered: CommandResult;
  readonly deployed: boolean;
  /** Nothing differs, failed or waits. */
  readonly clean: boolean;
  readonly validated: boolean;
  readonly deployResultId: string | undefined;
}

/** Runs the reconciliation; a failure becomes an ending too, with messages for the status and for users. */
async function attempt(work: Work): Promise<Ending> {
  const { deployment, status, log, deps } = work;
  try {
    return await deps.parts.bringUpToDate(work);
  } catch (error) {
    if (error instanceof RemoteBusyError) throw error; // nothing failed: the job is queued again
    const { stage, secrets, cause } = toStageError(error);
    if (cause instanceof SpecChangedError) throw cause; // nothing was applied: it starts again with the new spec
    const failure = toFailure(cause);
    const message = await redactText(failure.message, secrets);
    // A deploy without a prior comparison is the first step to render: if rendering fails, nothing was applied.
    const unprepared = stage === "prepare" || (stage === "deploy" && cause instanceof PrepareError);
    const described = unprepared ? await describePrepareError(failure, deps.kluctl, secrets) : undefined;
    const ready: Verdict = described?.ready ?? {
      status: "False",
      reason: stage === "deploy" ? reason.deployFailed : reason.validateFailed,
      message,
    };
    if (described) status.set({ lastPrepareError: described.error, ...keptDue(deployment) });
    // What was applied is unknown, so the next reconciliation must deploy, whatever the project renders to.
    else if (stage === "deploy") status.set({ lastObjectsHash: undefined });
    log.warn({ phase: stage, retry: failure.retry, error: message }, "reconciliation failed");
    if (!work.signal.aborted) deps.deployments.event(deployment, "Warning", ready.reason, message);
    return {
      outcome: { kind: "failed", retry: failure.retry, message },
      ready,
      commandError: described?.error ?? message,
    };
  }
}

export function bringUpToDate(work: Work): Promise<LoopReport> {
  return withProject(work, (project) => work.deps.parts.settleProject(work, project));
}

export async function settleProject(work: Work, project: Project): Promise<LoopReport> {
  const { deployment, status } = work;
  const { spec } = deployment;
  const { commit, checkout, identity, steps } = project;
  announceOvertaken(work, commit);
  const applied = await apply(work, project);
  const { rendered } = applied;
  if (applied.refused !== undefined) {
    steps.recordState(rendered, rendered, { deployed: false });
    const { lastDeployResult, targetKey } = deployment.status;
    // It still has to be deployed, and its previously deployed objects belong to another key.
    if (lastDeployResult) status.set({ lastObjectsHash: undefined, targetKey });
    const message = applied.refused;
    return {
      outcome: { kind: "failed", retry: applied.retry, message },
      ready: { status: "False", reason: reason.deployFailed, message },
      commandError: message,
    };
  }
  const { decision, deployed } = applied;
  const obstacle = steps.findObstacle(rendered);
  if (obstacle) steps.announceObstacle(obstacle);
  const drift = deployed ? await steps.driftAfter(deployed) : rendered;
  steps.recordState(rendered, drift, { deployed: deployed !== undefined });
  const after = { rendered, deployed: deployed !== undefined };
  const validated = decision.validate ? await steps.validate({ objectsHash: rendered.objectsHash, after }) : undefined;
  if (!spec.validate) status.set({ lastValidateResult: undefined });
  const mayBeReady = verdictOf(spec, status.current).status === "True" && !steps.dryRun;
  const health = mayBeReady ? await steps.checkHealth() : undefined;
  await steps.stored();
  const results = { deploy: deployed, validate: validated, diff: drift === deployed ? undefined : drift };
  const commandError = errorText(
    Object.entries(results).flatMap(([command, result]) => (result ? (failureOf(result, command) ?? []) : [])),
  );
  const notes = obstacle ? [obstacle.message] : [];
  const end = ending(work, { commit, deployed, validated, health, notes });
  const clean =
    end.outcome.kind === "done" &&
    end.ready.status === "True" &&
    isClean(rendered, validated, notes) &&
    !decision.waitsForApproval;
  const deployResultId = status.current.lastDeployResult?.id;
  const found = { checkout, identity, rendered, deployed: after.deployed, clean, validated: decision.validate };
  return { ...end, commandError, found: { ...found, deployResultId } };
}

/** Whether nothing is left to do and there is nothing to report. */
function isClean(result: CommandResult, validated: ValidateResult | undefined, notes: readonly string[]): boolean {
  const problems = [...result.errors, ...result.warnings, ...(validated?.warnings ?? []), ...notes];
  return !differs(result) && problems.length === 0;
}

interface Ended {
  readonly commit: string;
  readonly deployed: CommandResult | undefined;
  readonly validated: ValidateResult | undefined;
  readonly health: Health | undefined;
  /** Sentences in `Ready` in addition to the results. */
  readonly notes: readonly string[];
}

function ending({ deployment, status, deps }: Work, { commit, deployed, validated, health, notes }: Ended): Ending {
  const verdict = withHealth(verdictOf(deployment.spec, status.current), health);
  const ready = { ...verdict, message: withNotes(verdict.message, notes) };
  const before = readyCondition(deployment.status)?.status;
  if (ready.status === "True" && before === "False" && !deployed) {
    // A deploy emits its own event. Without a deploy, the failure would remain the last event.
    deps.deployments.event(deployment, "Normal", ready.reason, verdict.message);
  }
  if (deployed && deployed.errors.length > 0) {
    return { outcome: { kind: "failed", retry: retryOf(deployed.errors), message: ready.message }, ready };
  }
  if (validated && validated.errors.length > 0) {
    return { outcome: { kind: "failed", retry: "person", message: ready.message }, ready };
  }
  announceHealth(deployment, health, deps);
  return { outcome: outcomeOf(health) ?? { kind: "done", deployed: deployed !== undefined, commit }, ready };
}
