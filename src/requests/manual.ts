/** Takes manual requests and records their results. */
import {
  type Deployment,
  isMalformed,
  type MalformedDeployment,
  type ManualKind,
  manualKinds,
  manualResultField,
  type ManualResult,
  requestAnnotation,
} from "../model.ts";
import { describePrepareError } from "../reconcile/status/prepare-error.ts";
import { findRequest, type PendingRequest } from "./requests.ts";
import { createStatusWriter } from "../reconcile/status/status-writer.ts";
import { rfc3339 } from "../kit/time.ts";
import type { LoopDeps, Work } from "../reconcile/work.ts";

export interface TakenRequest {
  readonly kind: ManualKind;
  /** As recorded in the status. */
  readonly result: ManualResult;
  /** The deployment with the request's overrides applied. */
  readonly deployment: Deployment;
  /** Why the request is rejected, if it is. */
  readonly refused: string | undefined;
}

/** The result reported to the user. */
export interface RequestAnswer {
  readonly resultId?: string | undefined;
  readonly commandError?: string | undefined;
}

/**
 * Records the request in the status and removes its annotation before anything is done, in this order: if the server
 * dies in between, both exist rather than neither. The annotation is removed only if it is unchanged, so that a request
 * arriving in the meantime counts as new.
 */
export async function takeRequest(pending: PendingRequest, work: Work): Promise<TakenRequest> {
  const { deployment, deps, status, log, reconcileId } = work;
  const { deployments, clock } = deps;
  const { kind, annotation, request, problem } = pending;
  const result = { request, startTime: rfc3339(clock.now()), reconcileId };
  status.set({ [manualResultField(kind)]: result });
  await status.save("Initializing");
  if (annotation !== undefined) await deployments.removeAnnotation(deployment, requestAnnotation(kind), annotation);
  log.info(
    { request: kind, overrides: request.overridesPatch !== undefined, again: annotation === undefined },
    "working on the request",
  );

  const taken = (as: Deployment, refused?: string) => ({ kind, result, deployment: as, refused });
  if (problem !== undefined) return taken(deployment, problem);
  if (request.overridesPatch === undefined) return taken(deployment);
  const wanted = await deployments.overridden(deployment, request.overridesPatch);
  if (wanted === undefined) return taken(deployment, "the resource was deleted");
  return isMalformed(wanted) ? taken(deployment, wanted.problem) : taken(wanted);
}

/** Answers all requests for a resource that cannot be processed. */
export async function refuseRequests(deployment: MalformedDeployment, problem: string, deps: LoopDeps): Promise<void> {
  const { deployments, clock, newId, log } = deps;
  const pending = manualKinds.map((kind) => findRequest(deployment, kind)).filter((one) => one !== undefined);
  const status = createStatusWriter(deployments, deployment, clock, log);
  const now = rfc3339(clock.now());
  const reconcileId = newId();
  for (const { kind, request } of pending) {
    const result = { request, startTime: now, endTime: now, reconcileId, commandError: cut(problem) };
    status.set({ [manualResultField(kind)]: result });
  }
  await status.finish((await describePrepareError({ message: problem }, deps.kluctl)).ready);
  for (const { kind, annotation } of pending) {
    if (annotation !== undefined) await deployments.removeAnnotation(deployment, requestAnnotation(kind), annotation);
  }
}

/** Clients stop waiting when this is written, so everything they read next must already be in place. */
export function answerRequest(
  { kind, result }: Pick<TakenRequest, "kind" | "result">,
  work: Work,
  answer: RequestAnswer,
): void {
  const { resultId, commandError } = answer;
  const endTime = rfc3339(work.deps.clock.now());
  const words = commandError === undefined ? {} : { commandError: cut(commandError) };
  work.status.set({ [manualResultField(kind)]: { ...result, endTime, ...(resultId && { resultId }), ...words } });
}

/** The status holds up to five of them, among other fields. */
function cut(words: string): string {
  return words.length > 20_000 ? `${words.slice(0, 20_000)}…` : words;
}

/** Joins errors in the format of kluctl's own controller. */
export function errorText(errors: readonly string[]): string | undefined {
  if (errors.length <= 1) return errors[0];
  return `${errors.length} errors occurred:\n${errors.map((error) => `\t* ${error}\n`).join("")}\n`;
}
