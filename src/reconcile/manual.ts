/** The annotation `kluctl.io/request-reconcile`: how `kluctl gitops reconcile` and the web UI ask for a loop, and read that it is done. */
import { annotation, type Deployment } from "../model.ts";
import type { Deployments } from "../ports.ts";
import { pendingRequest } from "./due.ts";

export interface ManualRequest {
  /** What the asker waits for in `status.reconcileRequestResult`. */
  readonly result: Readonly<Record<string, unknown>>;
  /** Why it cannot be done, if so. */
  readonly refused: string | undefined;
}

/**
 * Takes the pending request, or one that was taken before and not finished. The annotation goes first, and only if nobody changed it, so that a
 * request that arrives while this one is worked on is seen as a new one.
 */
export async function takeReconcileRequest(
  deployment: Deployment,
  deployments: Pick<Deployments, "removeAnnotation">,
  reconcileId: string,
  startTime: string,
): Promise<ManualRequest | undefined> {
  const value = pendingRequest(deployment);
  if (value === undefined) {
    const result = unfinishedRequest(deployment);
    return result && { result, refused: refusalOf(result["request"]) };
  }
  await deployments.removeAnnotation(deployment, annotation.requestReconcile, value);
  const request = parseRequest(value);
  return { result: { request, startTime, reconcileId }, refused: refusalOf(request) };
}

/** A request that was taken by a loop which came to no end: its asker still waits for an `endTime`. */
export function unfinishedRequest({ status }: Deployment): ManualRequest["result"] | undefined {
  const { reconcileRequestResult: result } = status;
  return result === undefined || result["endTime"] ? undefined : result;
}

function refusalOf(request: unknown): string | undefined {
  const overrides = typeof request === "object" && request !== null && "overridesPatch" in request;
  return overrides ? "a request cannot override the deployment's spec yet: change the resource instead" : undefined;
}

/** The finished form: the asker stops waiting when `endTime` appears. */
export function finishRequest(request: ManualRequest, endTime: string, commandError: string | undefined) {
  return { ...request.result, endTime, ...(commandError !== undefined && { commandError }) };
}

/** A bare value, as people annotate by hand, names the request as well as the command line's own JSON does. */
function parseRequest(value: string): { requestValue: string; overridesPatch?: unknown } {
  try {
    const { requestValue, overridesPatch } = JSON.parse(value) as { requestValue?: unknown; overridesPatch?: unknown };
    if (typeof requestValue === "string" && requestValue !== "") {
      return { requestValue, ...(overridesPatch !== undefined && overridesPatch !== null && { overridesPatch }) };
    }
  } catch {
    // not JSON: the value itself is the name
  }
  return { requestValue: value };
}
