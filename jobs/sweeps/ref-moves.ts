/** Requests what deployments need because their refs have moved. */
import { commitOf, describeRef } from "../../src/model/git-ref.ts";
import type { Logger } from "../../src/log.ts";
import {
  type FoundPush,
  type GitDeployment,
  type Heads,
  keyText,
  type PreviewRequest,
  pullRequestText,
  type RepoId,
} from "../../src/model.ts";
import type { Clock, Deployments, Reports } from "../../src/ports.ts";
import type { OpenReport } from "../../src/model/open-report.ts";
import { pendingCommitOf } from "../../src/reconcile/status/conditions.ts";
import { createBoundedMap } from "../../src/kit/bounded-map.ts";
import { createLimit } from "../../src/kit/limit.ts";
import type { SkipCheck } from "./due-sweep.ts";
import type { JobQueue } from "../queue.ts";
import { isTracked } from "./remotes.ts";
import { longestSilenceMs, silenceMs } from "./silence.ts";

export interface RefMovesDeps {
  readonly deployments: Pick<Deployments, "all">;
  readonly queue: Pick<JobQueue, "enqueue" | "markMoved">;
  /** Whether to skip a deployment because the move does not affect it. Absent: none is skipped. */
  readonly skipCheck?: SkipCheck | undefined;
  /** Absent: pull requests are not previewed. */
  readonly reports?: Pick<Reports, "open" | "find"> | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly observe?:
    | {
        found(deployments: number): void;
        /** Commits that no webhook has announced yet. */
        unannounced?(found: readonly FoundPush[]): void;
      }
    | undefined;
}

export interface RefMoves {
  /**
   * Compares what the deployments have recorded with where their refs are, according to an answer that was requested at
   * `askedAt` (epoch milliseconds). A deployment that stays behind is requested less and less often.
   */
  request(
    members: readonly GitDeployment[],
    heads: Heads,
    times: { readonly askedAt: number; readonly periodMs: number },
  ): Promise<void>;
  /**
   * Requests the open pull requests that were compared with another commit of their base branch, whether or not a deployment
   * has taken that commit by now: what merging them would change is different.
   */
  requestOutdated(repos: readonly RepoId[], heads: Heads): Promise<void>;
  /** Only these deployments exist. */
  forgetOthers(members: readonly GitDeployment[]): void;
}

/** How many deployments are checked concurrently for whether the move affects them. */
const checkedAtOnce = 8;
/** Pull requests that were requested because of a commit of their base: a preview may fail, or be none of ours. */
const askedFor = { entries: 5_000, maxAgeMs: longestSilenceMs };

/** A request that was made because a deployment's ref pointed to `commit`. */
interface Asked {
  readonly commit: string | undefined;
  readonly times: number;
  readonly againAt: number;
}

export function createRefMoves(deps: RefMovesDeps): RefMoves {
  const { deployments, queue, clock, log, observe } = deps;
  const asked = new Map<string, Asked>();
  /** Deployments whose ref was deleted, and that have not been requested since it exists again. */
  const gone = new Set<string>();
  /** By pull request: the commit of the base branch for which it was requested. */
  const askedBases = createBoundedMap<string>(askedFor);

  async function request(
    members: readonly GitDeployment[],
    heads: Heads,
    { askedAt, periodMs }: { readonly askedAt: number; readonly periodMs: number },
  ): Promise<void> {
    const now = clock.now();
    const behind = new Set(members.filter((one) => differs(one, heads, now)).map(({ key }) => keyText(key)));
    if (behind.size === 0) return;
    // Some may have caught up since they were grouped.
    const moved = deployments
      .all()
      .filter(isTracked)
      .filter((one) => behind.has(keyText(one.key)) && differs(one, heads, now));
    if (moved.length === 0) return;
    for (const repo of new Set(moved.map(({ repo }) => repo))) await queue.markMoved(repo);
    const suspended = moved.filter(({ spec }) => spec.suspend);
    const others = moved.filter(({ spec }) => !spec.suspend);
    const concerned = await findConcerned(others, heads, askedAt);
    await queue.enqueue(
      [...concerned, ...suspended].map(
        ({ key, repo }) => ({ kind: "reconcile", deployment: key, cause: "sweep", repo }) as const,
      ),
    );
    for (const deployment of [...concerned, ...suspended]) {
      const key = keyText(deployment.key);
      const commit = commitOf(deployment.spec.source.ref, heads);
      const before = asked.get(key);
      const times = before && before.commit === commit ? before.times + 1 : 0;
      asked.set(key, { commit, times, againAt: now + silenceMs(times, periodMs) });
      if (commit !== undefined) gone.delete(key);
      // Only its status is updated to name the commit that is not deployed: no webhook was missed.
      if (deployment.spec.suspend) continue;
      log.info(
        { ...deployment.key, ref: describeRef(deployment.spec.source.ref), commit },
        "found new commits without a webhook",
      );
    }
    observe?.found(concerned.length);
    observe?.unannounced?.(concerned.map((deployment) => toFoundPush(deployment, heads)));
  }

  /** Leaves out deployments that are not affected by the changes. */
  async function findConcerned(moved: readonly GitDeployment[], heads: Heads, at: number): Promise<GitDeployment[]> {
    const limit = createLimit(checkedAtOnce);
    const answers = moved.map((deployment) =>
      limit.run(async () => {
        const commit = commitOf(deployment.spec.source.ref, heads);
        const answer = commit === undefined ? undefined : await deps.skipCheck?.(deployment, { commit, at });
        return answer === undefined || answer === "check" ? [deployment] : [];
      }),
    );
    return (await Promise.all(answers)).flat();
  }

  async function requestOutdated(repos: readonly RepoId[], heads: Heads): Promise<void> {
    const { reports } = deps;
    if (reports === undefined) return;
    const open = (await Promise.all(repos.map((repo) => reports.open(repo)))).flat();
    const compared = open
      .filter(({ state }) => state === "done")
      .map(async (report) => ({ ...report, base: await baseOf(report) }));
    const outdated = (await Promise.all(compared)).flatMap(({ pullRequest, baseBranch, base }) => {
      const tip = heads.commits.get(`refs/heads/${baseBranch}`);
      const isOutdated = base !== undefined && tip !== undefined && tip !== base;
      return isOutdated && askedBases.get(pullRequestText(pullRequest)) !== tip ? [{ pullRequest, tip }] : [];
    });
    if (outdated.length === 0) return;
    await queue.enqueue(
      outdated.map(({ pullRequest }): PreviewRequest => ({ kind: "preview", pullRequest, cause: "base" })),
    );
    for (const { pullRequest, tip } of outdated) askedBases.set(pullRequestText(pullRequest), tip);
  }

  /** Earlier versions did not list it. */
  async function baseOf({ pullRequest, base, affects }: OpenReport): Promise<string | undefined> {
    return affects === undefined ? (await deps.reports?.find(pullRequest))?.base : base;
  }

  /** Whether to reconcile the deployment. One that stays behind because it fails is requested less and less often. */
  function differs({ key, spec, status }: GitDeployment, heads: Heads, now: number): boolean {
    const commit = commitOf(spec.source.ref, heads);
    if (commit === undefined) gone.add(keyText(key));
    // Its ref exists again, at the recorded commit, but the status still contains the error.
    else if (gone.has(keyText(key)) && status.lastPrepareError !== undefined && !spec.suspend) return true;
    const pending = pendingCommitOf({ spec, status });
    const isGone = commit === undefined && spec.suspend && pending === undefined; // there is nothing to report
    if (isGone || (commit !== undefined && commit === (pending ?? status.observedCommit))) {
      asked.delete(keyText(key));
      gone.delete(keyText(key));
      return false;
    }
    if (commit === undefined && status.lastPrepareError !== undefined) return false; // its status reports this
    const before = asked.get(keyText(key));
    return before === undefined || before.commit !== commit || now >= before.againAt;
  }

  return {
    request,
    requestOutdated,
    forgetOthers(members) {
      const known = new Set(members.map(({ key }) => keyText(key)));
      for (const key of asked.keys()) if (!known.has(key)) asked.delete(key);
      for (const key of gone) if (!known.has(key)) gone.delete(key);
    },
  };
}

export function toFoundPush({ repo, spec: { source } }: GitDeployment, heads: Heads): FoundPush {
  return { repo, url: source.url, ref: describeRef(source.ref), commit: commitOf(source.ref, heads) };
}
