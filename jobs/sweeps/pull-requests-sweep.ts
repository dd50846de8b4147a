/**
 * Finds what lost webhooks missed: lists the open and the recently closed pull requests of each forge and compares them
 * with the reports.
 */
import { ForgeError } from "../../src/errors.ts";
import { createBoundedMap } from "../../src/kit/bounded-map.ts";
import { withTimeout } from "../../src/kit/deadline.ts";
import type { Logger } from "../../src/log.ts";
import {
  annotation,
  type Deployment,
  type GitDeployment,
  followsGit,
  isMalformed,
  isSwitchedOff,
  type Key,
  keyText,
  type MalformedDeployment,
  type PullRequest,
  type PullRequestKey,
  pullRequestText,
  type RepoId,
} from "../../src/model.ts";
import type { Clock, Deployments, Forge, Reports } from "../../src/ports.ts";
import { changedObjects } from "../../src/model/last-deploy.ts";
import { isInto, mayShow, type OpenReport, toOpenReport } from "../../src/model/open-report.ts";
import { isOpen } from "../../src/model/report.ts";
import { branchesShowing, librariesOf } from "../../src/preview/match-consumers.ts";
import { pullRequestId } from "../../src/redis/keys.ts";
import type { JobQueue } from "../queue.ts";

type SweptForge = Pick<Forge, "id" | "repoName" | "openPullRequests" | "closedPullRequests">;

export interface PullRequestsSweepDeps {
  readonly deployments: Pick<Deployments, "all" | "tracking" | "including">;
  /** The repositories of Flux whose pull requests are previewed, too. Absent: none. */
  readonly fluxRepos?: (() => readonly RepoId[]) | undefined;
  /** The forges with a login, by id. */
  readonly forges: ReadonlyMap<string, SweptForge>;
  readonly reports: Pick<Reports, "open" | "find" | "refused" | "unpublished" | "stale">;
  readonly queue: Pick<JobQueue, "enqueue" | "claim">;
  /** How often each repository of a forge is checked, by whichever replica comes first. */
  readonly everyMs?: ((forge: string) => number) | undefined;
  /** When the first sweep runs: by then, the watch must have listed the deployments. */
  readonly firstAfterMs?: number | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

interface ShownDeploy {
  readonly key: Key;
  /** The branches whose pull requests may show it; `undefined` is the default branch. */
  readonly branches: readonly (string | undefined)[];
  /** Epoch milliseconds by the clock of the server that deployed. */
  readonly endedAt: number;
}

interface Missed {
  readonly key: PullRequestKey;
  /** Its head or its base branch is not that of its report, or it is not open any more. */
  readonly hasMoved: boolean;
}

export interface PullRequestsSweep {
  stop(): Promise<void>;
}

const lookTimeoutMs = 60_000;
/**
 * Pull requests without a report that were not updated within this time are ignored, so that the first start does not
 * preview old ones.
 */
const newsMs = 24 * 3_600_000;
/** Limit per repository and sweep, so that an emptied Redis does not exhaust the forge's rate limit; the next sweep continues. */
const mostClosedAtOnce = 20;
/** No preview takes this long: its job must have been lost. */
const longestPreviewMs = 3_600_000;
/** A server whose clock is ahead records deploys in the future of all previews: each is requested once an hour at most. */
const rememberedRequests = { entries: 5_000, maxAgeMs: 3_600_000 };
/** By then, a job that was due is done, put off for a reason, or lost. */
const unpublishedMs = 5 * 60_000;
/** A failed preview has already been retried within seconds; an outage takes longer to end. */
const mendMs = 10 * 60_000;

export function startPullRequestsSweep(deps: PullRequestsSweepDeps): PullRequestsSweep {
  const { deployments, forges, reports, queue, clock, log } = deps;
  const { everyMs = () => 300_000 } = deps;
  const soonestMs = () => Math.min(...[...forges.keys()].map(everyMs));
  const { firstAfterMs = Math.min(10_000, soonestMs()) } = deps;
  const stopped = new AbortController();
  /** Forges and repositories whose failure has been logged. */
  const silent = new Set<string>();
  /** By pull request: the last deploy that may concern one of its repository, in epoch milliseconds, when it was requested. */
  const askedAfter = createBoundedMap<number>(rememberedRequests);
  let sweeping: Promise<unknown> | undefined;

  function sweep(): void {
    const repos = [...new Set([...previewedRepos(deployments.all()), ...(deps.fluxRepos?.() ?? [])])];
    sweeping ??= Promise.all([...forges.values()].map((forge) => sweepForge(forge, repos))).finally(() => {
      sweeping = undefined;
    });
  }

  /** One repository at a time, to limit the load on the forge; if the forge is down, the others are not queried. */
  async function sweepForge(forge: SweptForge, repos: readonly RepoId[]): Promise<void> {
    for (const repo of repos) {
      const repoName = forge.repoName(repo);
      if (repoName === undefined) continue;
      if (stopped.signal.aborted) return;
      try {
        if (!(await queue.claim(`pull requests of ${repo} on ${forge.id}`, Math.floor(everyMs(forge.id) * 0.9))))
          continue;
        await look(forge, repo, repoName);
        if ([forge.id, `${forge.id} ${repoName}`].filter((id) => silent.delete(id)).length > 0) {
          log.info({ forge: forge.id, repo: repoName }, "forge lists pull requests again");
        }
      } catch (error) {
        if (stopped.signal.aborted || tellFailure(error, forge, repoName) === "forge") return;
      }
    }
  }

  /** Logs the failure and returns what to skip until the next sweep: the whole forge or only this repository. */
  function tellFailure(error: unknown, forge: SweptForge, repoName: string): "forge" | "repository" {
    const { message } = error as Error;
    if (!(error instanceof ForgeError)) {
      // Redis is unavailable, which its monitoring reports. The next sweep finds the same again.
      log.debug({ forge: forge.id, error: message }, "sweep of pull requests postponed");
      return "forge";
    }
    const { problem } = error;
    const what = problem === "unreachable" || problem === "rate-limited" ? "forge" : "repository";
    const id = what === "forge" ? forge.id : `${forge.id} ${repoName}`;
    logOnce(id, error, { forge: forge.id, repo: repoName });
    return what;
  }

  function logOnce(id: string, { problem, message }: ForgeError, of: { forge: string; repo: string }): void {
    if (!silent.has(id)) log.warn({ ...of, problem, error: message }, "could not list pull requests");
    silent.add(id);
  }

  async function look(forge: SweptForge, repo: RepoId, repoName: string): Promise<void> {
    // Reads the reports first: a pull request opened in between then counts as new, not as closed.
    const known = new Map(
      (await reports.open(repo))
        .filter(({ pullRequest }) => pullRequest.forge === forge.id)
        .map((report) => [pullRequestId(report.pullRequest), report]),
    );
    const signal = withTimeout(lookTimeoutMs, stopped.signal);
    const deploys = deploysShownIn(repo);
    const found = await findMissedOpen(forge, { repoName, deploys }, known, signal);
    const missed = found.map(({ key }) => key);
    const lastDeploy = lastOf(deploys);
    await requestPreviews(missed, await findUnlimited(found));
    for (const key of missed) askedAfter.set(pullRequestId(key), lastDeploy);
    await requestReports(forge, repoName, missed);
    // Last, so that a failure of this request delays nothing else, and the next repository is queried all the same.
    const closed = `closed pull requests of ${repoName} on ${forge.id}`;
    try {
      await requestPreviews(await findMissedClosed(forge, repoName, missed, signal));
      silent.delete(closed);
    } catch (error) {
      if (!(error instanceof ForgeError) || stopped.signal.aborted) throw error;
      logOnce(closed, error, { forge: forge.id, repo: repoName });
    }
  }

  /** Ids of pull requests that have moved while a preview of their old head waits for its budget: they do not wait with it. */
  async function findUnlimited(found: readonly Missed[]): Promise<ReadonlySet<string>> {
    const moved = found.filter(({ hasMoved }) => hasMoved).map(({ key }) => key);
    const waiting = await Promise.all(moved.map(async (key) => (await reports.stale(key))?.until !== undefined));
    return new Set(moved.filter((_, at) => waiting[at]).map(pullRequestId));
  }

  /** `unlimited`: their requests replace a waiting one. */
  async function requestPreviews(
    missed: readonly PullRequestKey[],
    unlimited: ReadonlySet<string> = new Set(),
  ): Promise<void> {
    if (missed.length === 0) return;
    const causeOf = (key: PullRequestKey) => (unlimited.has(pullRequestId(key)) ? "pull-request" : "sweep");
    await queue.enqueue(
      missed.map((pullRequest) => ({ kind: "preview", pullRequest, cause: causeOf(pullRequest) }) as const),
    );
    log.info({ pullRequests: missed.map(pullRequestText) }, "found pull requests without a webhook");
  }

  /** Open pull requests without a current report, and those whose report says that they are open although they are not. */
  async function findMissedOpen(
    forge: SweptForge,
    { repoName, deploys }: { readonly repoName: string; readonly deploys: readonly ShownDeploy[] },
    reported: ReadonlyMap<string, OpenReport>,
    signal: AbortSignal,
  ): Promise<readonly Missed[]> {
    const known = new Map(reported);
    const missed: Missed[] = [];
    for (const pullRequest of await forge.openPullRequests(repoName, signal)) {
      const { key } = pullRequest;
      const report = known.get(pullRequestId(key));
      const hasMoved = report !== undefined && isOfAnother(report, pullRequest);
      if (await isNews(pullRequest, report, deploys)) missed.push({ key, hasMoved });
      known.delete(pullRequestId(key));
    }
    return [...missed, ...[...known.values()].map(({ pullRequest: key }) => ({ key, hasMoved: true }))];
  }

  /**
   * Recently closed pull requests without a report that says so: they may have a comment that looks as if they were open. Each is
   * previewed only once, because that creates the report even if there is no comment.
   */
  async function findMissedClosed(
    forge: SweptForge,
    repoName: string,
    requested: readonly PullRequestKey[],
    signal: AbortSignal,
  ): Promise<readonly PullRequestKey[]> {
    const handled = new Set(requested.map(pullRequestId));
    const missed: PullRequestKey[] = [];
    for (const { key, state } of await forge.closedPullRequests(repoName, clock.now() - newsMs, signal)) {
      if (handled.has(pullRequestId(key))) continue;
      if ((await reports.find(key))?.state !== state) missed.push(key);
      if (missed.length === mostClosedAtOnce) break;
    }
    return missed;
  }

  /**
   * Those that the forge rejected, because the login may have been given permissions or been replaced in the meantime, and
   * those whose job was lost.
   */
  async function requestReports(
    { id }: SweptForge,
    repoName: string,
    missed: readonly PullRequestKey[],
  ): Promise<void> {
    const asked = new Set(missed.map(pullRequestId));
    const all = [...(await reports.refused(id)), ...(await reports.unpublished(id, unpublishedMs))];
    const distinct = new Map(all.map((key) => [pullRequestId(key), key]));
    const unwritten = [...distinct.values()].filter(
      (key) => key.repoName.toLowerCase() === repoName.toLowerCase() && !asked.has(pullRequestId(key)),
    );
    if (unwritten.length === 0) return;
    const requests = unwritten.map(async (pullRequest) =>
      (await reports.find(pullRequest)) === undefined
        ? ({ kind: "preview", pullRequest, cause: "sweep" } as const)
        : ({ kind: "report", pullRequest } as const),
    );
    await queue.enqueue(await Promise.all(requests));
    log.debug({ pullRequests: unwritten.map(pullRequestText) }, "requested reports that were not published");
  }

  async function isNews(
    pullRequest: PullRequest,
    known: OpenReport | undefined,
    deploys: readonly ShownDeploy[],
  ): Promise<boolean> {
    const now = clock.now();
    if (known === undefined) {
      if (pullRequest.updatedAt < now - newsMs) return false;
      const report = await reports.find(pullRequest.key);
      // Nothing followed or included the repository then.
      return report === undefined || report.repo === undefined || !isOpen(report) || isOutdated(toOpenReport(report));
    }
    return isOutdated(known) || (await isOverdue(known));

    function isOutdated(report: OpenReport): boolean {
      if (isOfAnother(report, pullRequest)) return true;
      const age = now - report.startedAt;
      if (report.state === "working") return age > longestPreviewMs;
      if (report.mendable === true && age > mendMs) return true;
      const asked = askedAfter.get(pullRequestId(pullRequest.key)) ?? -Infinity;
      const concerned = deploys.filter(
        ({ key, branches }) => mayShow(report, keyText(key)) && branches.some((branch) => isInto(report, branch)),
      );
      return lastOf(concerned) > Math.max(report.startedAt, asked);
    }
  }

  /** Whether the preview that was to replace the report should have started: the host refused it, or its job was lost. */
  async function isOverdue({ pullRequest, startedAt }: OpenReport): Promise<boolean> {
    const stale = await reports.stale(pullRequest);
    return stale?.startedAt === startedAt && clock.now() - (stale.until ?? Infinity) > unpublishedMs;
  }

  /**
   * The last deploys of what pull requests of the repository may show. The watch requests the previews, unless no server was
   * running, or Redis was away, when the deploy ended. It leaves out deploys that changed nothing, and so does this.
   */
  function deploysShownIn(repo: RepoId): readonly ShownDeploy[] {
    const all = new Set<Deployment>([...deployments.tracking(repo), ...deployments.including(repo)]);
    return [...all].flatMap((deployment) => {
      const { lastDeployResult: last } = deployment.status;
      const endedAt = last === undefined || !changedObjects(last) ? NaN : Date.parse(last.endTime);
      const here = branchesShowing(deployment).filter((one) => one.repo === repo);
      const branches = here.map(({ branch }) => branch);
      return Number.isNaN(endedAt) || branches.length === 0 ? [] : [{ key: deployment.key, branches, endedAt }];
    });
  }

  let timer = setTimeout(function next() {
    sweep();
    timer = setTimeout(next, soonestMs());
  }, firstAfterMs);

  return {
    async stop() {
      clearTimeout(timer);
      stopped.abort();
      await sweeping;
    },
  };
}

function lastOf(deploys: readonly ShownDeploy[]): number {
  return Math.max(-Infinity, ...deploys.map(({ endedAt }) => endedAt));
}

function isOfAnother(report: OpenReport, { head, baseBranch }: PullRequest): boolean {
  return report.head !== head || report.baseBranch !== baseBranch;
}

/** The repositories in which a pull request can affect a deployment. */
function previewedRepos(deployments: readonly (Deployment | MalformedDeployment)[]): RepoId[] {
  const previewed = deployments.filter(
    (one): one is GitDeployment =>
      followsGit(one) &&
      one.deletionTimestamp === undefined &&
      one.spec.source.ref.commit === undefined &&
      one.spec.source.ref.tag === undefined &&
      !isSwitchedOff(one, annotation.preview),
  );
  const included = deployments.flatMap((one) =>
    isMalformed(one) || one.deletionTimestamp !== undefined ? [] : librariesOf(one).map(({ repo }) => repo),
  );
  return [...new Set([...previewed.map(({ repo }) => repo), ...included])];
}
