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
  if (deployment.deletionTimestamp !== undefined) return "It is being deleted.";
  if (isMalformed(deployment))
    return action === "suspend" || action === "resume" ? undefined : `Its spec cannot be read: ${deployment.problem}`;
  const { spec } = deployment;
  switch (action) {
    case "suspend":
      return spec.suspend ? "It is suspended already." : undefined;
    case "resume":
      return spec.suspend ? undefined : "It is not suspended.";
    case "approve":
      if (!spec.manual) return "It needs no approval: spec.manual is not set.";
      return pendingHash(deployment) === undefined ? "Nothing waits for approval." : undefined;
    default:
      return undefined;
  }
}
