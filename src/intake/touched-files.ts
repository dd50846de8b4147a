/** Whether changed files are ones that a deployment reads: for pushes, pull requests, and checks that may be skipped. Pure. */
import { parsePathGlobs } from "../kit/glob.ts";
import { annotation, type ChangedPaths, type GitDeployment } from "../model.ts";
import { parseReads } from "../model/outside-reads.ts";

/**
 * Why the changes do not affect the deployment: no changed path is below its project, is one that the project may read, or
 * matches the globs of its annotation. `undefined` if they do, or may.
 */
export function reasonUntouched(changed: ChangedPaths, deployment: GitDeployment): string | undefined {
  const { directory, globs, reads } = placesOf(deployment);
  if (reads === undefined || touches(changed, [directory, ...reads], globs)) return undefined;
  const others = globs === undefined ? reads.map((path) => `, ${path}`).join("") : ` or annotation ${annotation.paths}`;
  return `no changed path under ${directory}/${others}`;
}

/** Whether a changed path is one that the project is known to read. */
export function touchesKnown(changed: ChangedPaths, deployment: GitDeployment): boolean {
  const { directory, globs, reads = [] } = placesOf(deployment);
  return touches(changed, [directory, ...reads], globs);
}

/** What the user says wins over what was found. */
function placesOf({ spec, annotations }: GitDeployment) {
  const directory = spec.source.path;
  const globs = annotations[annotation.paths];
  return { directory, globs, reads: globs === undefined ? parseReads(directory, annotations[annotation.reads]) : [] };
}

/** An incomplete list affects everything, and so do invalid globs: a typo must not prevent a deploy. */
function touches(changed: ChangedPaths, places: readonly string[], globText: string | undefined): boolean {
  if (!changed.complete || changed.paths.length === 0 || places.includes("")) return true;
  const isIn = (path: string) => places.some((place) => path === place || path.startsWith(`${place}/`));
  if (changed.paths.some(isIn)) return true;
  const globs = parsePathGlobs(globText ?? "");
  return globs === undefined || changed.paths.some((path) => globs.some((matches) => matches(path)));
}
