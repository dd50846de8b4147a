/**
 * Queues new previews when something that open pull requests were compared with has changed: a deployment's spec, the
 * annotations that matter to previews, its last deploy, or the live objects that its last check found to differ; and when a
 * deployment was created or deleted. concerned-branches.ts decides which. Each replica watches; the queue joins equal requests, and the
 * jobs keep to the budget of each pull request (preview/budget.ts).
 */
import { createPlanned } from "../kit/planned.ts";
import type { Logger } from "../log.ts";
import { type DeploymentChange, keyText, type PreviewRequest, pullRequestText } from "../model.ts";
import { isInto, mayShow, type OpenReport } from "../model/open-report.ts";
import { isPostponed } from "../model/report.ts";
import type { Clock, Queue, Reports } from "../ports.ts";
import { type ConcernedBranch, findConcernedBranches } from "./concerned-branches.ts";

export interface PreviewRequestsDeps {
  readonly reports: Pick<Reports, "open" | "stale">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface PreviewWatchDeps extends PreviewRequestsDeps {
  readonly deployments: { onChange(callback: (change: DeploymentChange) => void): void };
}

/** Edits come in groups, a check may find them one after the other, and a push may deploy hundreds of deployments. */
const gatherMs = 2_000;
/** While Redis is away. */
const retryMs = 30_000;

export interface ChangedDeployment {
  /** As reports name it, see `nameOfPreview`. */
  readonly name: string;
  readonly branches: readonly ConcernedBranch[];
}

/** Returns a function that stops it. */
export function startPreviewWatch({ deployments, ...deps }: PreviewWatchDeps): () => void {
  const { add, stop } = startPreviewRequests(deps);
  deployments.onChange((change) => {
    add({ name: keyText(change.deployment.key), branches: findConcernedBranches(change) });
  });
  return stop;
}

/** Gathers what has changed, and requests the previews that it concerns. */
export function startPreviewRequests({ reports, queue, clock, log }: PreviewRequestsDeps) {
  /** By the deployment's name. */
  const changed = new Map<string, ChangedDeployment>();
  const { plan, stop } = createPlanned(flush);

  async function flush(): Promise<void> {
    const gathered = [...changed.values()];
    changed.clear();
    try {
      const open = readOnce(reports);
      const found = (await Promise.all(gathered.map((one) => findConcerned(one, open)))).flat();
      const distinct = new Map(found.map((report) => [pullRequestText(report.pullRequest), report]));
      const requests = await Promise.all([...distinct.values()].map(toRequest));
      const due = requests.filter((request) => request !== undefined);
      if (due.length > 0) await queue.enqueue(due);
    } catch (error) {
      log.warn({ error: (error as Error).message }, "could not queue previews after a change in the cluster");
      for (const one of gathered) gather(one);
      plan(retryMs);
    }
  }

  /** A preview that waits for its budget will show this, too. */
  async function toRequest({ pullRequest, startedAt }: OpenReport): Promise<PreviewRequest | undefined> {
    const stale = await reports.stale(pullRequest);
    return isPostponed(stale, startedAt, clock.now()) ? undefined : { kind: "preview", pullRequest, cause: "cluster" };
  }

  function gather({ name, branches }: ChangedDeployment): void {
    const earlier = changed.get(name)?.branches ?? [];
    const all = [...earlier, ...branches].map((one) => [JSON.stringify(one), one] as const);
    changed.set(name, { name, branches: [...new Map(all).values()] });
  }

  return {
    add(one: ChangedDeployment): void {
      if (one.branches.length === 0) return;
      gather(one);
      plan(gatherMs);
    },
    stop,
  };
}

async function findConcerned(
  { name, branches }: ChangedDeployment,
  open: Pick<Reports, "open">["open"],
): Promise<OpenReport[]> {
  const found = branches.map(async ({ repo, branch, which, startedBefore = Infinity }) => {
    const into = (await open(repo)).filter((report) => isInto(report, branch) && report.startedAt < startedBefore);
    return which === "all" ? into : into.filter((report) => mayShow(report, name));
  });
  return (await Promise.all(found)).flat();
}

/** Reads each repository's pull requests once: a change may concern hundreds of deployments. */
function readOnce(reports: Pick<Reports, "open">): Reports["open"] {
  const read = new Map<string, ReturnType<Reports["open"]>>();
  return (repo) => {
    const open = read.get(repo) ?? reports.open(repo);
    read.set(repo, open);
    return open;
  };
}
