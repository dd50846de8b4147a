/** What people may ask of one deployment, and when it makes no sense. Pure. */
import { type Deployment, isMalformed, type MalformedDeployment } from "../model.ts";
import { hashToApprove } from "./decide.ts";

export const actions = ["reconcile", "deploy", "validate", "prune", "suspend", "resume", "approve"] as const;
export type Action = (typeof actions)[number];

type Entry = Deployment | MalformedDeployment;

/** The hash of what waits for somebody to approve it. */
export function pendingHash(deployment: Entry): string | undefined {
  if (isMalformed(deployment)) return undefined;
  const { spec, status } = deployment;
  return hashToApprove(spec, status);
}

/** Why this makes no sense as the deployment stands; `undefined` if it does. */
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
