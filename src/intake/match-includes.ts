/** Decides which deployments a push affects because their projects include the pushed repository. Pure. */
import { describePushed, type Matched } from "./match.ts";
import {
  annotation,
  type Deployment,
  type Ignored,
  isSwitchedOff,
  keyText,
  type PushEvent,
  type ReconcileRequest,
  type RepoId,
} from "../model.ts";
import { type Include, isOf, parseIncludes } from "../model/includes.ts";

/**
 * Adds the deployments that include the repository to those that follow it (`followed`). `including`: see Deployments. A
 * project may include another ref of its own repository than the one that the deployment follows.
 */
export function matchIncludes(
  event: PushEvent,
  including: readonly Deployment[],
  repos: ReadonlySet<RepoId>,
  followed: Matched,
): Matched {
  const done = new Set(followed.requests.map(({ deployment }) => keyText(deployment)));
  const named = new Set(followed.ignored.map(({ deployment }) => deployment));
  const requests: ReconcileRequest[] = [];
  const ignored: Ignored[] = [];
  for (const deployment of including) {
    const { key, repo } = deployment;
    const name = keyText(key);
    if (done.has(name)) continue;
    const reason = reasonToIgnore(event, deployment, repos);
    const { delivery, sender } = event;
    if (reason === undefined)
      requests.push({ kind: "reconcile", deployment: key, cause: "include", repo, delivery, sender });
    else if (!named.has(name)) ignored.push({ deployment: name, reason });
  }
  const added = new Set(requests.map(({ deployment }) => keyText(deployment)));
  const still = followed.ignored.filter(({ deployment }) => !added.has(deployment));
  return { requests: [...followed.requests, ...requests], ignored: [...still, ...ignored] };
}

/** Whether the push moves something that the deployment's project includes. */
export function includesPushed(event: PushEvent, deployment: Deployment, repos: ReadonlySet<RepoId>): boolean {
  return includedOf(deployment, repos).some(({ refs }) => follows(event, refs));
}

function includedOf({ annotations }: Deployment, repos: ReadonlySet<RepoId>): Include[] {
  return parseIncludes(annotations[annotation.includes]).filter(({ url }) => isOf(url, repos));
}

function reasonToIgnore(event: PushEvent, deployment: Deployment, repos: ReadonlySet<RepoId>): string | undefined {
  if (isSwitchedOff(deployment, annotation.webhooks)) return "webhooks are disabled by annotation";
  if (!includesPushed(event, deployment, repos)) {
    return `includes ${describeRefs(includedOf(deployment, repos))}, the push is to ${describePushed(event)}`;
  }
  return deployment.spec.suspend ? "suspended" : undefined;
}

function follows({ ref, defaultBranch }: PushEvent, refs: Include["refs"]): boolean {
  if (refs.length > 0) return refs.includes(ref);
  // If the host does not report the default branch, any branch may be it.
  return defaultBranch === undefined ? ref.startsWith("refs/heads/") : ref === `refs/heads/${defaultBranch}`;
}

function describeRefs(includes: readonly Include[]): string {
  const names = includes.flatMap(({ refs }) => (refs.length === 0 ? ["the default branch"] : refs));
  return [...new Set(names)].join(", ");
}
