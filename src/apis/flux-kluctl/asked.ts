/** What a caller who makes a request of a legacy KluctlDeployment has to read from it. Pure. */
import { parseLegacy } from "./resource.ts";
import { parseLegacyStatus } from "./translate-status.ts";

/** Returns the value of the reconcile request that was handled last. */
export function lastHandledReconcile(resource: unknown): string | undefined {
  return parseLegacyStatus(parseLegacy(resource)?.status).lastHandledReconcileAt;
}

export function isSuspended(resource: unknown): boolean {
  return parseLegacy(resource)?.spec["suspend"] === true;
}
