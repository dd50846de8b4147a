/** What somebody who asks something of an older KluctlDeployment has to know of it. Pure. */
import { parseLegacy } from "./resource.ts";
import { parseLegacyStatus } from "./translate-status.ts";

/** Which request to look at it was dealt with last. */
export function lastHandledReconcile(resource: unknown): string | undefined {
  return parseLegacyStatus(parseLegacy(resource)?.status).lastHandledReconcileAt;
}

export function isSuspended(resource: unknown): boolean {
  return parseLegacy(resource)?.spec["suspend"] === true;
}
