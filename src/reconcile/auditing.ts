/** Audit log entries for changes. Names and counts only: no field of any object and no message. */
import { KluctlUnavailableError, PrepareError } from "../errors.ts";
import { type Change, type CommandResult, type Deployment, manualResultField, type TargetKey } from "../model.ts";
import { withoutLogin } from "../model/repo-url.ts";
import type { LoopDeps, Work } from "./work.ts";

export interface Doing {
  readonly action: Change["action"];
  readonly why: string;
  readonly commit: string;
  readonly dryRun: boolean;
}

/** kluctl's request values are a time and a number; users may write anything. */
const longestRequest = 100;

type Audited = Pick<Work, "deployment" | "request" | "reconcileId" | "status" | "asked"> & {
  readonly deps: Pick<LoopDeps, "audit" | "clock">;
};

/** Runs `act` and records it, also if it broke off. If rendering failed, nothing changed and nothing is recorded. */
export async function audited<T extends Pick<CommandResult, "objects" | "errors" | "objectsHash">>(
  work: Audited,
  doing: Doing,
  targetKeyOf: (result: T) => TargetKey,
  act: () => Promise<T>,
): Promise<T> {
  const { deps, deployment, request, reconcileId, status, asked } = work;
  const startedAt = deps.clock.now();
  const record = (came: Pick<Change, "result" | "objects" | "objectsHash">, target: TargetKey | undefined) =>
    deps.audit?.({
      ...doing,
      ...sourceOf(deployment),
      cause: causeOf(work),
      sender: request.sender,
      delivery: request.delivery,
      request: asked && status.current[manualResultField(asked.kind)]?.request.requestValue.slice(0, longestRequest),
      deployment: deployment.key,
      cluster: target?.clusterId,
      target: target?.targetName,
      discriminator: target?.discriminator,
      serviceAccount: deployment.spec.serviceAccountName,
      approved: deployment.spec.manual ? deployment.spec.manualObjectsHash : undefined,
      ...came,
      reconcileID: reconcileId,
      ms: deps.clock.now() - startedAt,
    });
  try {
    const result = await act();
    const { errors, objectsHash } = result;
    record(
      { result: errors.length > 0 ? "errors" : "ok", objects: countChanged(result), objectsHash },
      targetKeyOf(result),
    );
    return result;
  } catch (error) {
    const nothingDone = error instanceof PrepareError || error instanceof KluctlUnavailableError;
    if (!nothingDone) record({ result: "interrupted" }, deployment.status.targetKey);
    throw error;
  }
}

/**
 * A resource that was created or changed is also due, so the interval check may reach it before the watch event does.
 */
function causeOf({ deployment: { generation, status }, request: { cause } }: Pick<Work, "deployment" | "request">) {
  return cause === "interval" && status.observedGeneration !== generation ? "change" : cause;
}

/** The audit log entry for deleting everything a deployment has deployed. */
export function deletion(
  { deployment, request }: Pick<Work, "deployment" | "request">,
  came: Pick<Change, "dryRun" | "result" | "objects" | "reconcileID" | "ms">,
): Change {
  return {
    action: "delete",
    why: "the deployment was deleted",
    ...sourceOf(deployment),
    cause: request.cause,
    ...placeOf(deployment),
    commit: deployment.status.observedCommit ?? "",
    ...came,
  };
}

export function countChanged({ objects, errors }: Pick<CommandResult, "objects" | "errors">): Change["objects"] {
  return {
    new: objects.filter((object) => object.new).length,
    changed: objects.filter((object) => object.changes.length > 0).length,
    deleted: objects.filter((object) => object.deleted).length,
    errors: errors.length,
  };
}

/** The audit log entry for a wait that a newer commit ended: nothing was being changed. */
export function awaited(
  { deployment, request, reconcileId, deps }: Omit<Audited, "status" | "asked">,
  { from, to }: { readonly from: string; readonly to: string },
): Change {
  const since = Date.parse(deployment.status.lastDeployResult?.endTime ?? "");
  const now = deps.clock.now();
  return {
    action: "health-check",
    why: `superseded by ${to}`,
    ...sourceOf(deployment),
    cause: request.cause,
    sender: request.sender,
    delivery: request.delivery,
    ...placeOf(deployment),
    commit: from,
    dryRun: false,
    result: "superseded",
    reconcileID: reconcileId,
    ms: Number.isNaN(since) ? 0 : Math.max(0, now - since),
  };
}

/** Where it has deployed last, and as whom. */
function placeOf({ key, spec, status: { targetKey } }: Deployment) {
  return {
    deployment: key,
    cluster: targetKey?.clusterId,
    target: targetKey?.targetName,
    discriminator: targetKey?.discriminator,
    serviceAccount: spec.serviceAccountName,
  };
}

function sourceOf({ spec: { source } }: Deployment): Pick<Change, "repo" | "ref"> {
  const { branch, digest, tag, commit } = { branch: undefined, digest: undefined, commit: undefined, ...source.ref };
  return { repo: withoutLogin(source.url), ref: branch ?? digest ?? tag ?? commit ?? "" };
}
