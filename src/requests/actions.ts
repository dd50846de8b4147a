/** The actions on one deployment, and when they are not applicable. Pure. */
import { type Deployment, isMalformed, type MalformedDeployment } from "../model.ts";
import { hashToApprove } from "../reconcile/decide.ts";

export const actions = ["reconcile", "deploy", "validate", "prune", "suspend", "resume", "approve"] as const;
export type Action = (typeof actions)[number];

type Entry = Deployment | MalformedDeployment;

/** The hash of the change that is waiting for approval. */
export function pendingHash(deployment: Entry): string | undefined {
  if (isMalformed(deployment)) return undefined;
  const { spec, status } = deployment;
  return hashToApprove(spec, status);
}

/** Why the action is not applicable in the deployment's current state; `undefined` if it is. */
export function objectionTo(action: Action, deployment: Entry): string | undefined {
  if (deployment.deletionTimestamp !== undefined) return "The deployment is being deleted.";
  if (isMalformed(deployment))
    return action === "suspend" || action === "resume" ? undefined : `The spec is invalid: ${deployment.problem}`;
  const { spec } = deployment;
  switch (action) {
    case "suspend":
      return spec.suspend ? "The deployment is already suspended." : undefined;
    case "resume":
      return spec.suspend ? undefined : "The deployment is not suspended.";
    case "approve":
      if (!spec.manual) return "The deployment needs no approval: spec.manual is not set.";
      return pendingHash(deployment) === undefined ? "No change is waiting for approval." : undefined;
    default:
      return undefined;
  }
}
