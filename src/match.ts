/** Whom does a push concern? Pure, and able to explain itself. */
import { describeRef } from "./git-ref.ts";
import {
  type ChangedPaths,
  type GitDeployment,
  type PushEvent,
  type ReconcileRequest,
  type RepoId,
  annotation,
  keyText,
} from "./model.ts";
import { parsePathGlobs } from "./path-glob.ts";
import { repoId } from "./repo-url.ts";

export interface Matched {
  readonly requests: readonly ReconcileRequest[];
  /** The deployments of the same repository that the push does not concern, and why. */
  readonly ignored: readonly Ignored[];
}

export interface Ignored {
  /** `namespace/name` */
  readonly deployment: string;
  readonly reason: string;
}

/** So many ignored deployments are named in a log line. */
const maxLogged = 20;

/** As fields of a log line. */
export function describeIgnored(ignored: readonly Ignored[]) {
  const named = ignored.slice(0, maxLogged).map(({ deployment, reason }) => [deployment, reason] as const);
  return {
    ignored: named.length === 0 ? undefined : Object.fromEntries(named),
    ignoredMore: ignored.length > maxLogged ? ignored.length - maxLogged : undefined,
  };
}

/**
 * Deployments of other repositories are left out without a word. In doubt a push concerns a deployment: a needless
 * look at the repository costs little. That includes a deleted ref: the reconcile reports that it is gone and leaves
 * the cluster as it is.
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

/** The repository that a push was to, in each of the spellings that the payload offers. */
export function reposOf({ repoUrls }: Pick<PushEvent, "repoUrls">): ReadonlySet<RepoId> {
  return new Set(repoUrls.map(repoId).filter((repo) => repo !== undefined));
}

/** The first that applies, the lasting reasons before those of this one push. */
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

export function isSwitchedOff(
  { annotations }: Pick<GitDeployment, "annotations">,
  name: typeof annotation.webhooks | typeof annotation.preview,
): boolean {
  return annotations[name]?.trim().toLowerCase() === "false";
}

function follows(event: PushEvent, ref: GitDeployment["spec"]["source"]["ref"]): boolean {
  if (ref.tag !== undefined) return event.ref === `refs/tags/${ref.tag}`;
  if (ref.branch !== undefined) return event.ref === `refs/heads/${ref.branch}`;
  // Where the host does not say which branch is the default one, any may be.
  return event.defaultBranch === undefined
    ? event.ref.startsWith("refs/heads/")
    : event.ref === `refs/heads/${event.defaultBranch}`;
}

/** Says so if no changed path lies under the deployment's project, or matches the globs of its annotation. */
export function reasonUntouched(changed: ChangedPaths, { spec, annotations }: GitDeployment): string | undefined {
  const directory = spec.source.path;
  if (touches(changed, directory, annotations[annotation.paths])) return undefined;
  const globs = annotations[annotation.paths] === undefined ? "" : ` or annotation ${annotation.paths}`;
  return `no changed path under ${directory}/${globs}`;
}

/**
 * A list that may lack something touches everything, and so do globs that cannot be read: a typing error must not hold
 * back a deploy.
 */
function touches(changed: ChangedPaths, directory: string, globText: string | undefined): boolean {
  if (!changed.complete || changed.paths.length === 0 || directory === "") return true;
  const prefix = `${directory}/`;
  if (changed.paths.some((path) => path.startsWith(prefix) || path === directory)) return true;
  const globs = parsePathGlobs(globText ?? "");
  return globs === undefined || changed.paths.some((path) => globs.some((matches) => matches(path)));
}

function describePushed({ ref }: PushEvent): string {
  return ref.startsWith("refs/tags/")
    ? describeRef({ tag: ref.slice("refs/tags/".length) })
    : describeRef({ branch: ref.slice("refs/heads/".length) });
}
