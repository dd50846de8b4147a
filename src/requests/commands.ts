/** Runs one command that a user requested. The reconciliation that follows decides the deployment's final status. */
import { PrepareError } from "../errors.ts";
import type { CommandResult, ManualCommand } from "../model.ts";
import { wasPrune } from "../model/last-deploy.ts";
import { redactText } from "../redact/redact-text.ts";
import { failureOf, reason } from "../reconcile/status/conditions.ts";
import { toFailure } from "../reconcile/failures.ts";
import { projectKey } from "../reconcile/keys.ts";
import { describePrepareError } from "../reconcile/status/prepare-error.ts";
import { type RequestAnswer, answerRequest, takeRequest } from "./manual.ts";
import { withProject } from "../reconcile/project.ts";
import type { PendingRequest } from "./requests.ts";
import type { Steps } from "../reconcile/steps/steps.ts";
import { toStageError } from "../reconcile/stage-error.ts";
import { type Loop, type LoopDeps, startWork, type Work } from "../reconcile/work.ts";

/** Leaves the request unfinished if the work is handed back: the next worker finishes it. */
export async function runCommand(pending: PendingRequest<ManualCommand>, loop: Loop, deps: LoopDeps): Promise<void> {
  const begun = startWork(loop, deps);
  const { status, log, signal } = begun;
  const { clock, deployments } = deps;
  const { kind } = pending;
  const startedAt = clock.now();
  status.set({ projectKey: projectKey(loop.deployment.spec.source) });
  const taken = await takeRequest(pending, begun);
  const { overridesPatch } = taken.result.request;
  const work: Work = { ...begun, deployment: taken.deployment, asked: { kind, overridesPatch } };
  const answer = taken.refused === undefined ? await attempt(kind, work) : { commandError: taken.refused };
  if (signal.aborted) return;
  if (taken.refused !== undefined) deployments.event(loop.deployment, "Warning", reasons[kind], taken.refused);
  answerRequest(taken, work, answer);
  await status.save(`Performed ${kind}`);
  const { commandError } = answer;
  log.info(
    { request: kind, ...(commandError && { error: commandError }), ms: clock.now() - startedAt },
    "request answered",
  );
}

/** Runs the command; the reconciliation that follows picks up what it applied. */
async function attempt(kind: ManualCommand, work: Work): Promise<RequestAnswer> {
  const { deployment, deps, status, log, signal } = work;
  // A diff or a command with overrides does not affect the status of the deployment itself.
  const concernsIt = kind !== "diff" && work.asked?.overridesPatch === undefined;
  try {
    return await withProject(work, async ({ commit, steps }) => {
      const result = await perform(kind, steps, knownHash(work, commit));
      if (concernsIt) status.set({ lastPrepareError: undefined });
      if (kind === "deploy" || kind === "prune") {
        // The command ended: the next reconciliation compares with what it applied or, failing that, with the
        // previously recorded hash. A prune repeats no failed deploy, and its result replaces that of the deploy.
        const { lastObjectsHash, lastDeployResult: last } = deployment.status;
        const isApplied = kind === "deploy" && concernsIt && !steps.dryRun && result.errors.length === 0;
        const applied = isApplied ? result.objectsHash : undefined;
        const hidesErrors = kind === "prune" && !steps.dryRun && (last?.errors ?? 0) > 0 && !wasPrune(last);
        status.set({ lastObjectsHash: hidesErrors ? undefined : (applied ?? lastObjectsHash) });
      }
      const [resultId] = await steps.stored();
      return { resultId, commandError: failureOf(result, kind) };
    });
  } catch (error) {
    const { stage, secrets, cause } = toStageError(error);
    const failure = toFailure(cause);
    const message = await redactText(failure.message, secrets);
    const unprepared = stage === "prepare" || cause instanceof PrepareError;
    const described = unprepared ? await describePrepareError(failure, deps.kluctl, secrets) : undefined;
    if (described && concernsIt) {
      status.set({ lastPrepareError: described.error });
      status.progress(`Performed ${kind}`, described.ready);
    }
    log.warn({ request: kind, phase: stage, error: message }, "request failed");
    const why = unprepared ? reason.prepareFailed : reasons[kind];
    if (!signal.aborted) deps.deployments.event(deployment, "Warning", why, message);
    return { commandError: described?.error ?? message };
  }
}

const reasons: Readonly<Record<ManualCommand, string>> = {
  diff: reason.diffFailed,
  deploy: reason.deployFailed,
  prune: reason.pruneFailed,
  validate: reason.validateFailed,
};

/** The hash of the rendered objects, if it is known without rendering: validation does not return it. */
function knownHash({ deployment, asked }: Work, commit: string): string | undefined {
  const { status, generation } = deployment;
  const same = status.observedCommit === commit && status.observedGeneration === generation;
  return same && asked?.overridesPatch === undefined ? status.lastObjectsHash : undefined;
}

async function perform(
  kind: ManualCommand,
  steps: Steps,
  objectsHash: string | undefined,
): Promise<Pick<CommandResult, "errors" | "warnings"> & { readonly objectsHash?: string | undefined }> {
  switch (kind) {
    case "diff":
      return steps.diff();
    case "deploy":
      return steps.deploy({ why: "requested" });
    case "prune":
      return steps.prune();
    case "validate":
      return steps.validate({ objectsHash });
  }
}
