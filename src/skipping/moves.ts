/**
 * Decides whether a project that reads nothing outside its directory can render differently at another commit. Pure.
 */
import { touchesKnown } from "../intake/touched-files.ts";
import type { ChangedPaths, GitDeployment } from "../model.ts";

/** Returns the reason; `undefined`: none of its inputs changed. `changed` comes from git itself, not from a host. */
export function whyConcerned(changed: ChangedPaths, deployment: GitDeployment): string | undefined {
  if (!changed.complete) return "too many files changed";
  if (changed.paths.length === 0) return undefined;
  if (touchesKnown(changed, deployment)) return "files of the project changed";
  const { path } = deployment.spec.source;
  const found = changed.paths.find((changedPath) => isFoundByName(changedPath, path));
  return found === undefined ? undefined : `${found} may be read without being referenced`;
}

/** kluctl, Helm and git look for dot files on their own, including in the directories above the project. */
export function isFoundByName(changedPath: string, project: string): boolean {
  const parts = changedPath.split("/");
  const at = parts.findIndex((part) => part.startsWith("."));
  const above = parts.slice(0, at).map((part) => `${part}/`);
  return at !== -1 && `${project}/`.startsWith(above.join(""));
}
