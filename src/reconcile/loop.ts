/**
 * One reconciliation of one deployment, under its lease: fetch, compare, deploy, validate, record. Reads top to bottom.
 */
import { PrepareError, RemoteBusyError } from "../errors.ts";
import type { CommandResult, Outcome, ValidateResult } from "../model.ts";
import { redactText } from "../redact/redact-text.ts";
import { apply } from "./apply.ts";
import { failureOf, readyCondition, reason, type Verdict, verdictOf, withNotes } from "./status/conditions.ts";
import { retryOf, toFailure } from "./failures.ts";
import { projectKey } from "./keys.ts";
import { answerRequest, errorText, takeRequest } from "../requests/manual.ts";
import { withProject } from "./project.ts";
import { findRequest } from "../requests/requests.ts";
import { differs } from "./status/results.ts";
import { tellUnprepared } from "./status/unprepared.ts";
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

  const { skipping } = deps;
  const trying = async (): Promise<Ending> => {
    try {
      return await (taken ? attempt(work) : tellingProgress(work, () => attempt(work)));
    } finally {
      await status.settled(); // a job that is postponed releases the lease next
    }
  };
  const { outcome, ready, commandError } = await (skipping?.during(deployment.key, trying) ?? trying());
  if (held.lost.aborted) return outcome; // another worker may already be writing this status

  if (taken) answerRequest(taken, work, { commandError });
  if (signal.aborted) return outcome; // handed back: the next worker finishes the status
  status.set({ observedGeneration: deployment.generation });
  await status.finish(ready);
  if (request.receivedAt !== undefined && ready.status === "True") {
    deps.observe?.pushToLive?.((deps.clock.now() - request.receivedAt) / 1_000);
  }
  log.info({ outcome: outcome.kind, cause: request.cause, ms: deps.clock.now() - startedAt }, "reconciled");
  return outcome;
}

/** Most interval checks finish within this time; reporting progress only afterwards saves one of two status writes. */
const soonMs = 1_000;

async function tellingProgress(work: Work, doIt: () => Promise<Ending>): Promise<Ending> {
  let told = false;
  const tell = () => {
    if (told || work.phase !== "prepare" || work.signal.aborted) return; // a later phase has reported already
    work.status.progress("Initializing");
    told = true;
  };
  if (work.request.cause !== "interval") {
    tell();
    return doIt();
  }
  const timer = setTimeout(tell, soonMs);
  try {
    const ending = await doIt();
    // The retry time is derived from reconciliations that are seen to end, so a failed one must be seen to start.
    if (ending.ready.status !== "True") tell();
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

/** Runs the reconciliation; a failure becomes an ending too, with messages for the status and for users. */
async function attempt(work: Work): Promise<Ending> {
  const { deployment, status, log, deps } = work;
  try {
    return await bringUpToDate(work);
  } catch (error) {
    if (error instanceof RemoteBusyError) throw error; // nothing failed: the job is queued again
    const failure = toFailure(error);
    const message = await redactText(failure.message, work.secrets);
    // A deploy without a prior comparison is the first step to render: if rendering fails, nothing was applied.
    const unprepared = work.phase === "prepare" || (work.phase === "deploy" && error instanceof PrepareError);
    const told = unprepared ? await tellUnprepared(failure, work) : undefined;
    const ready: Verdict = told?.ready ?? {
      status: "False",
      reason: work.phase === "deploy" ? reason.deployFailed : reason.validateFailed,
      message,
    };
    if (told) status.set({ lastPrepareError: told.error });
    // What was applied is unknown, so the next reconciliation must deploy, whatever the project renders to.
    else if (work.phase === "deploy") status.set({ lastObjectsHash: undefined });
    log.warn({ phase: work.phase, retry: failure.retry, error: message }, "reconciliation failed");
    if (!work.signal.aborted) deps.deployments.event(deployment, "Warning", ready.reason, message);
    return { outcome: { kind: "failed", retry: failure.retry, message }, ready, commandError: told?.error ?? message };
  }
}

async function bringUpToDate(work: Work): Promise<Ending> {
  const { deployment, deps, status } = work;
  const { spec } = deployment;
  const { skipping } = deps;
  // Taken before Secrets are read. Skipped if someone is waiting for the result: the next interval check is soon
  // enough.
  const isAwaited = work.request.cause === "push" || work.asked !== undefined;
  const before = isAwaited ? undefined : await skipping?.begin(deployment, work.signal);
  return withProject(work, async (project) => {
    const { commit, checkout, identity, steps } = project;
    const applied = await apply(work, project);
    const { rendered } = applied;
    if (applied.refused !== undefined) {
      steps.record(rendered, rendered, { deployed: false });
      const { lastDeployResult, targetKey } = deployment.status;
      // It still has to be deployed, and its previously deployed objects belong to another key.
      status.set({ lastObjectsHash: undefined, ...(lastDeployResult && { targetKey }) });
      const message = applied.refused;
      return {
        outcome: { kind: "failed", retry: "person", message },
        ready: { status: "False", reason: reason.deployFailed, message },
        commandError: message,
      };
    }
    const { decision, deployed } = applied;
    steps.keepsFromPruning(rendered);
    const drift = deployed ? await steps.driftAfter(deployed) : rendered;
    steps.record(rendered, drift, { deployed: deployed !== undefined });
    // A requested reconciliation never skips the validation.
    const spared = deployed === undefined && work.asked === undefined && deps.validations?.stands(deployment, rendered);
    const keeps = decision.validate && spared === true;
    if (keeps) steps.keepValidation();
    const validated = decision.validate && !keeps ? await steps.validate(rendered.objectsHash) : undefined;
    if (validated && !deployed) deps.validations?.keep(deployment, rendered, status.current.lastValidateResult);
    if (!spec.validate) status.set({ lastValidateResult: undefined });
    await steps.stored();
    const failed = Object.entries({
      deploy: deployed,
      validate: validated,
      diff: drift === deployed ? undefined : drift,
    });
    const commandError = errorText(
      failed.flatMap(([command, result]) => (result ? (failureOf(result, command) ?? []) : [])),
    );
    const end = ending(work, commit, deployed, validated);
    // A reconciliation with one-off overrides is no evidence for the next one.
    if (work.asked?.overridesPatch !== undefined) skipping?.forget(deployment.key);
    else {
      await skipping?.learn(before, {
        deployment,
        checkout,
        identity,
        rendered,
        deployed: deployed !== undefined,
        clean:
          end.outcome.kind === "done" &&
          end.ready.status === "True" &&
          isClean(work, rendered, validated) &&
          !decision.waitsForApproval,
        validated: validated !== undefined || keeps,
        deployResultId: status.current.lastDeployResult?.id,
        signal: work.signal,
      });
    }
    return { ...end, commandError };
  });
}

/** Whether nothing is left to do and there is nothing to report. */
function isClean(work: Work, result: CommandResult, validated: ValidateResult | undefined): boolean {
  const told = [...result.errors, ...result.warnings, ...(validated?.warnings ?? []), ...work.notes];
  return !differs(result) && told.length === 0;
}

function ending(
  work: Work,
  commit: string,
  deployed: CommandResult | undefined,
  validated: ValidateResult | undefined,
): Ending {
  const verdict = verdictOf(work.deployment.spec, work.status.current);
  const ready = { ...verdict, message: withNotes(verdict.message, work.notes) };
  const before = readyCondition(work.deployment.status)?.status;
  if (ready.status === "True" && before === "False" && !deployed) {
    // A deploy emits its own event. Without a deploy, the failure would remain the last event.
    work.deps.deployments.event(work.deployment, "Normal", ready.reason, verdict.message);
  }
  if (deployed && deployed.errors.length > 0) {
    return { outcome: { kind: "failed", retry: retryOf(deployed.errors), message: ready.message }, ready };
  }
  if (validated && validated.errors.length > 0) {
    return { outcome: { kind: "failed", retry: "person", message: ready.message }, ready };
  }
  return { outcome: { kind: "done", deployed: deployed !== undefined, commit }, ready };
}
