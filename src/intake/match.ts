/**
 * Step 4 of a push: decides which deployments the push affects, and why it does not affect the others. Pure: it looks
 * only at the event and at what the watch knows. Next: jobs/queue.ts.
 */
import { describeRef } from "../model/git-ref.ts";
import {
  type GitDeployment,
  type Ignored,
  type PushEvent,
  type ReconcileRequest,
  type RepoId,
  annotation,
  isSwitchedOff,
  keyText,
} from "../model.ts";
import { reposOfUrls } from "../model/repo-url.ts";
import { reasonUntouched } from "./touched-files.ts";

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

/** The pushed ref, in words. */
export function describePushed({ ref }: PushEvent): string {
  return ref.startsWith("refs/tags/")
    ? describeRef({ tag: ref.slice("refs/tags/".length) })
    : describeRef({ branch: ref.slice("refs/heads/".length) });
}
