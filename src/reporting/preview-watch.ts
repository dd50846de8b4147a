/**
 * Queues new previews when something that open pull requests were compared with has changed: the spec of a deployment, or
 * the live objects that its last check found to differ; and, in repositories that it includes, its own deploys. Those of
 * the repository that it follows are watching.ts's. Each replica watches; the queue joins
 * equal requests.
 */
import { isDeepStrictEqual } from "node:util";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { createPlanned } from "../kit/planned.ts";
import type { Logger } from "../log.ts";
import {
  type DeploymentChange,
  followsGit,
  type GitDeployment,
  keyText,
  type PreviewRequest,
  pullRequestText,
} from "../model.ts";
import type { Queue, Reports } from "../ports.ts";
import { librariesOf, type ShownLibrary } from "../preview/match-consumers.ts";

export interface PreviewWatchDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
  readonly reports: Pick<Reports, "openInto" | "find" | "setStale">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
}

/** Edits come in groups, and a check may find them one after the other. */
const gatherMs = 2_000;
/** Some objects change all the time, for example those that an autoscaler writes. */
const [mostPreviews, perMs] = [12, 60 * 60_000];
const mostPullRequests = 2_000;
/** While Redis is away. */
const retryMs = 30_000;

interface Changed {
  readonly deployment: GitDeployment;
  /** Pull requests that did not affect it may do so now. */
  readonly spec: boolean;
  /** Those of its own repository are concerned. */
  readonly own: boolean;
  /** What it includes, and what it did until now. */
  readonly libraries: readonly ShownLibrary[];
}

/** Returns a function that stops it. */
export function startPreviewWatch({ deployments, reports, queue, log }: PreviewWatchDeps): () => void {
  const changed = new Map<string, Changed>();
  /** Requests beyond the budget, by pull request. */
  const owed = new Map<string, PreviewRequest>();
  const previewedAt = createBoundedMap<number[]>({ entries: mostPullRequests, maxAgeMs: perMs });
  const { plan, stop } = createPlanned(flush);

  /** The outdated report of each pull request whose comment says so, by its start. */
  const marked = new Map<string, number>();

  /** Milliseconds until the pull request may be previewed; 0: it is counted as previewed now. */
  function spend(pullRequest: string): number {
    const now = performance.now();
    const times = (previewedAt.get(pullRequest) ?? []).filter((time) => now - time < perMs);
    const [first] = times;
    if (first !== undefined && times.length >= mostPreviews) return first + perMs - now;
    previewedAt.set(pullRequest, [...times, now]);
    return 0;
  }

  async function flush(): Promise<void> {
    const gathered = [...changed.values()];
    changed.clear();
    const due: PreviewRequest[] = [];
    const late: { readonly request: PreviewRequest; readonly waitMs: number }[] = [];
    try {
      const read = readOnce(reports);
      const found = await Promise.all(gathered.map((one) => toRequests(one, read)));
      for (const request of found.flat()) owed.set(pullRequestText(request.pullRequest), request);
      for (const [pullRequest, request] of owed) {
        const waitMs = spend(pullRequest);
        if (waitMs > 0) {
          plan(waitMs);
          late.push({ request, waitMs });
        } else {
          owed.delete(pullRequest);
          marked.delete(pullRequest);
          due.push(request);
        }
      }
      if (due.length > 0) await queue.enqueue(due);
      await Promise.all(late.map(markStale));
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue previews after a change in the cluster");
      for (const one of gathered) {
        const name = keyText(one.deployment.key);
        const newer = changed.get(name);
        changed.set(name, newer ? join(one, newer) : one);
      }
      for (const { pullRequest } of due) previewedAt.delete(pullRequestText(pullRequest)); // none of them was previewed
      for (const request of due) owed.set(pullRequestText(request.pullRequest), request);
      plan(retryMs);
    }
  }

  /** Until the next preview, the comment says that it is outdated. */
  async function markStale({ request: { pullRequest }, waitMs }: { request: PreviewRequest; waitMs: number }) {
    try {
      const report = await reports.find(pullRequest);
      if (report?.state === "working") plan(retryMs); // it may have been compared before the change
      if (report?.state !== "done" || marked.get(pullRequestText(pullRequest)) === report.startedAt) return;
      await reports.setStale(pullRequest, { startedAt: report.startedAt, until: Date.now() + waitMs });
      await queue.enqueue([{ kind: "report", pullRequest }]);
      marked.set(pullRequestText(pullRequest), report.startedAt);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not mark the comment of a pull request as outdated");
    }
  }

  async function toRequests(
    { deployment: { key, repo, spec }, spec: isSpec, own, libraries }: Changed,
    read: PreviewWatchDeps["reports"],
  ): Promise<PreviewRequest[]> {
    const { branch } = spec.source.ref;
    // Without a branch, it is the default branch, whose name only the remote knows.
    const places = [...(own ? [{ repo, branch }] : []), ...libraries];
    const open = (await Promise.all(places.map((place) => read.openInto(place.repo, place.branch)))).flat();
    const isAbout = async (pullRequest: PreviewRequest["pullRequest"]) => {
      const report = isSpec ? undefined : await read.find(pullRequest);
      return isSpec || report?.previews.some(({ deployment }) => keyText(deployment) === keyText(key)) === true;
    };
    const concerned = await Promise.all(open.map(isAbout));
    return open
      .filter((_, at) => concerned[at])
      .map((pullRequest) => ({ kind: "preview", pullRequest, cause: "cluster" }));
  }

  deployments.onChange(({ kind, deployment, previous }) => {
    if (kind !== "changed" || previous === undefined) return;
    if (!followsGit(deployment) || !followsGit(previous)) return;
    const [libraries, before] = [librariesOf(deployment), librariesOf(previous)];
    const isSpec = deployment.generation !== previous.generation;
    const own = isSpec || foundOthers(deployment, previous);
    // What must not be shown any more is removed, too.
    const spec = isSpec || !isDeepStrictEqual(libraries, before);
    const isDeployed = libraries.length > 0 && wasDeployed(deployment, previous);
    if (!own && !spec && !isDeployed) return;
    const name = keyText(deployment.key);
    const earlier = changed.get(name);
    const one = { deployment, spec, own, libraries: distinct([...libraries, ...before]) };
    changed.set(name, earlier ? join(earlier, one) : one);
    plan(gatherMs);
  });

  return stop;
}

function join(earlier: Changed, later: Changed): Changed {
  return {
    deployment: later.deployment,
    spec: earlier.spec || later.spec,
    own: earlier.own || later.own,
    libraries: distinct([...earlier.libraries, ...later.libraries]),
  };
}

function distinct(libraries: readonly ShownLibrary[]): ShownLibrary[] {
  return [...new Map(libraries.map((one) => [JSON.stringify([one.repo, one.branch]), one])).values()];
}

function wasDeployed({ status: now }: GitDeployment, { status: before }: GitDeployment): boolean {
  return now.lastDeployResult !== undefined && now.lastDeployResult.id !== before.lastDeployResult?.id;
}

/** Reads each branch's pull requests and each report once: a change may concern hundreds of deployments. */
function readOnce(reports: PreviewWatchDeps["reports"]): PreviewWatchDeps["reports"] {
  const branches = new Map<string, ReturnType<typeof reports.openInto>>();
  const found = new Map<string, ReturnType<typeof reports.find>>();
  return {
    ...reports,
    openInto(repo, branch) {
      const name = JSON.stringify([repo, branch]);
      const open = branches.get(name) ?? reports.openInto(repo, branch);
      branches.set(name, open);
      return open;
    },
    find(pullRequest) {
      const name = pullRequestText(pullRequest);
      const report = found.get(name) ?? reports.find(pullRequest);
      found.set(name, report);
      return report;
    },
  };
}

/** Whether the last check found other differences than the one before. The first check changes nothing that is shown. */
function foundOthers({ status: now }: GitDeployment, { status: before }: GitDeployment): boolean {
  const [next, last] = [now.lastDriftDetectionResult?.document, before.lastDriftDetectionResult?.document];
  if (next === undefined || last === undefined || next["id"] === last["id"]) return false;
  return !isDeepStrictEqual(next["objects"] ?? [], last["objects"] ?? []);
}
