/** One loop of one deployment, under its lease: fetch, compare, deploy, validate, record. Reads top to bottom. */
import { PrepareError } from "../errors.ts";
import { annotation, type CommandResult, type Outcome, type ValidateResult } from "../model.ts";
import { createRedactor } from "../redact/redactor.ts";
import { prepareFailed, reason, verdictOf, type Verdict } from "./conditions.ts";
import { findVersion } from "./kluctl-version.ts";
import { decide, deployRegardless, type Decision } from "./decide.ts";
import { mayCollide } from "./discriminators.ts";
import { retryOf, toFailure } from "./failures.ts";
import { projectKey } from "./keys.ts";
import { isConfirmed } from "./pruning.ts";
import { finishRequest, takeReconcileRequest } from "./manual.ts";
import { withProject } from "./project.ts";
import { rfc3339 } from "./time.ts";
import { startWork, type Loop, type LoopDeps, type Work } from "./work.ts";

export async function runLoop(loop: Loop, deps: LoopDeps): Promise<Outcome> {
  const { deployment, request, signal, held } = loop;
  const { clock, deployments } = deps;
  const startedAt = clock.now();
  const work = startWork(loop, deps);
  const { status, log, reconcileId } = work;

  const manual = await takeReconcileRequest(deployment, deployments, reconcileId, rfc3339(clock.now()));
  status.set({
    projectKey: projectKey(deployment.spec.source),
    ...(manual && { reconcileRequestResult: manual.result }),
  });
  status.progress("Initializing");

  const { outcome, ready } = await attempt(work, manual?.refused);
  if (held.lost.aborted) return outcome; // somebody else may be writing this status by now

  if (manual) {
    const error = outcome.kind === "failed" ? outcome.message : undefined;
    status.set({ reconcileRequestResult: finishRequest(manual, rfc3339(clock.now()), error) });
  }
  if (signal.aborted) return outcome; // handed back: whoever takes it next finishes the status
  status.set({ observedGeneration: deployment.generation });
  await status.finish(ready);
  log.info({ outcome: outcome.kind, cause: request.cause, ms: clock.now() - startedAt }, "reconciled");
  return outcome;
}

interface Ending {
  readonly outcome: Outcome;
  readonly ready: Verdict;
}

/** Does the work; a failure of it is an ending too, with the words for the status and for people. */
async function attempt(work: Work, refused: string | undefined): Promise<Ending> {
  const { deployment, status, log, deps } = work;
  try {
    if (refused !== undefined) {
      return {
        outcome: { kind: "failed", retry: "person", message: refused },
        ready: verdictOf(deployment.spec, status.current),
      };
    }
    return await bringUpToDate(work);
  } catch (error) {
    const failure = toFailure(error);
    const message = createRedactor(work.secrets).text(failure.message);
    // A deploy without a comparison before it is the first to render: what it cannot render, it did not apply either.
    const unprepared = work.phase === "prepare" || (work.phase === "deploy" && error instanceof PrepareError);
    const ready: Verdict = unprepared
      ? prepareFailed(message, await findVersion(deps.kluctl))
      : { status: "False", reason: work.phase === "deploy" ? reason.deployFailed : reason.validateFailed, message };
    if (unprepared) status.set({ lastPrepareError: message });
    // Nobody knows what of it was applied: whatever the project renders to, it has to be applied again.
    else if (work.phase === "deploy") status.set({ lastObjectsHash: undefined });
    log.warn({ phase: work.phase, retry: failure.retry, error: message }, "reconcile failed");
    if (!work.signal.aborted) deps.deployments.event(deployment, "Warning", ready.reason, message);
    return { outcome: { kind: "failed", retry: failure.retry, message }, ready };
  }
}

async function bringUpToDate(work: Work): Promise<Ending> {
  const { deployment, deps, status } = work;
  const { spec } = deployment;
  return withProject(work, async ({ commit, steps }) => {
    const input = {
      spec,
      status: deployment.status,
      generation: deployment.generation,
      now: deps.clock.now(),
      retrying: work.retrying,
      asked: deployment.deployAsked,
    };

    const regardless = deployRegardless(input);
    const unsure = isNews(regardless) && mayCollide(deployment, deps.deployments.all());
    const compared = regardless === undefined || unsure ? await steps.compare() : undefined;
    const confirmed = deployment.annotations[annotation.confirmPrune];
    const decision: Decision = compared
      ? decide({ ...input, pruneConfirmed: isConfirmed(compared, confirmed) }, compared.objectsHash)
      : { deploy: regardless, waitsForApproval: false, validate: spec.validate };
    status.set({ lastPrepareError: undefined }); // rendered: the project is fine, whatever the cluster makes of it

    const refused = decision.deploy && compared ? steps.refuses(compared) : undefined;
    if (refused !== undefined && compared) {
      steps.record(compared, compared);
      const { lastDeployResult, targetKey } = deployment.status;
      // Still to be deployed; and what it has deployed before is under another key.
      status.set({ lastObjectsHash: undefined, ...(lastDeployResult && { targetKey }) });
      return {
        outcome: { kind: "failed", retry: "person", message: refused },
        ready: { status: "False", reason: reason.deployFailed, message: refused },
      };
    }
    const deployed = decision.deploy === undefined ? undefined : await steps.deploy(decision.deploy, compared);
    if (decision.waitsForApproval && compared) steps.tellApproval(compared);
    const rendered = deployed ?? compared ?? (await steps.compare());
    steps.keepsFromPruning(rendered);
    steps.record(rendered, deployed ? await steps.driftAfter(deployed) : rendered);
    const validated = decision.validate ? await steps.validate(rendered.objectsHash) : undefined;
    if (!spec.validate) status.set({ lastValidateResult: undefined });
    await steps.stored();
    return ending(work, commit, deployed, validated);
  });
}

/** A deployment that was never deployed, or is of another target by now, may meet one that is there already. */
function isNews(reason: Decision["deploy"]): boolean {
  return reason === "never-deployed" || reason === "spec-changed";
}

function ending(
  work: Work,
  commit: string,
  deployed: CommandResult | undefined,
  validated: ValidateResult | undefined,
): Ending {
  const verdict = verdictOf(work.deployment.spec, work.status.current);
  const ready = { ...verdict, message: [verdict.message, ...work.notes].join(" ") };
  if (deployed && deployed.errors.length > 0) {
    return { outcome: { kind: "failed", retry: retryOf(deployed.errors), message: ready.message }, ready };
  }
  if (validated && validated.errors.length > 0) {
    return { outcome: { kind: "failed", retry: "person", message: ready.message }, ready };
  }
  return { outcome: { kind: "done", deployed: deployed !== undefined, commit }, ready };
}
