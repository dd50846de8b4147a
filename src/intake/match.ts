/**
 * Step 4 of a push: decides which deployments the push affects, and why it does not affect the others. Pure: it looks
 * only at the event and at what the watch knows. Next: jobs/queue.ts.
 */
import { describeRef } from "../model/git-ref.ts";
import {
  type ChangedPaths,
  type GitDeployment,
  type Ignored,
  type PushEvent,
  type ReconcileRequest,
  type RepoId,
  annotation,
  isSwitchedOff,
  keyText,
} from "../model.ts";
import { parsePathGlobs } from "../kit/glob.ts";
import { parseReads } from "../model/outside-reads.ts";
import { reposOfUrls } from "../model/repo-url.ts";

export interface Matched {
  readonly requests: readonly ReconcileRequest[];
  /** The deployments of the same repository that the push does not affect, with reasons. */
  readonly ignored: readonly Ignored[];
}

/** The maximum number of ignored deployments in a log line. */
const maxLogged = 20;

/** The ignored deployments as fields of a log line. */
export function describeIgnored(ignored: readonly Ignored[]) {
  const named = ignored.slice(0, maxLogged).map(({ deployment, reason }) => [deployment, reason] as const);
  return {
    ignored: named.length === 0 ? undefined : Object.fromEntries(named),
    ignoredMore: ignored.length > maxLogged ? ignored.length - maxLogged : undefined,
  };
}

/**
 * Deployments of other repositories are skipped silently. In case of doubt, a push affects a deployment: a needless
 * check of the repository costs little. This includes deleted refs: the reconciliation reports that the ref is gone and
 * leaves the cluster unchanged.
 */
export function match(
  event: PushEvent,
  deployments: readonly GitDeployment[],
  repos: ReadonlySet<RepoId> = reposOf(event),
): Matched {
  const requests: ReconcileRequest[] = [];
  const ignored: Ignored[] = [];
  for (const deployment of deployments) {
    if (!repos.has(deployment.repo)) continue;
    const { key, repo } = deployment;
    const reason = reasonToIgnore(event, deployment);
    if (reason !== undefined) ignored.push({ deployment: keyText(key), reason });
    else
      requests.push({
        kind: "reconcile",
        deployment: key,
        cause: "push",
        repo,
        delivery: event.delivery,
        sender: event.sender,
      });
  }
  return { requests, ignored };
}

/** The pushed repository, by each URL spelling in the payload. */
export function reposOf({ repoUrls }: Pick<PushEvent, "repoUrls">): ReadonlySet<RepoId> {
  return reposOfUrls(repoUrls);
}

/** The first reason that applies; permanent reasons come before those specific to this push. */
function reasonToIgnore(event: PushEvent, deployment: GitDeployment): string | undefined {
  const { source, suspend } = deployment.spec;
  if (isSwitchedOff(deployment, annotation.webhooks)) {
    return "webhooks are disabled by annotation";
  }
  if (source.ref.commit !== undefined) return `is pinned to ${describeRef(source.ref)}`;
  if (!follows(event, source.ref)) return `follows ${describeRef(source.ref)}, the push is to ${describePushed(event)}`;
  if (suspend) return "suspended";
  return reasonUntouched(event.changed, deployment);
}

function follows(event: PushEvent, ref: GitDeployment["spec"]["source"]["ref"]): boolean {
  if (ref.tag !== undefined) return event.ref === `refs/tags/${ref.tag}`;
  if (ref.branch !== undefined) return event.ref === `refs/heads/${ref.branch}`;
  // If the host does not report the default branch, any branch may be it.
  return event.defaultBranch === undefined
    ? event.ref.startsWith("refs/heads/")
    : event.ref === `refs/heads/${event.defaultBranch}`;
}

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

/** The pushed ref, in words. */
export function describePushed({ ref }: PushEvent): string {
  return ref.startsWith("refs/tags/")
    ? describeRef({ tag: ref.slice("refs/tags/".length) })
    : describeRef({ branch: ref.slice("refs/heads/".length) });
}
