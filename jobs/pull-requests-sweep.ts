/**
 * Finds what a lost webhook missed: asks each forge for the open and the recently closed pull requests, and compares them with
 * the reports.
 */
import { ForgeError } from "../src/errors.ts";
import type { Logger } from "../src/log.ts";
import { isSwitchedOff } from "../src/match.ts";
import {
  annotation,
  type Deployment,
  type GitDeployment,
  followsGit,
  type MalformedDeployment,
  type PullRequest,
  type PullRequestKey,
  pullRequestText,
  type RepoId,
} from "../src/model.ts";
import type { Clock, Deployments, Forge } from "../src/ports.ts";
import { isOpen } from "../src/report.ts";
import { pullRequestId } from "./keys.ts";
import type { JobQueue } from "./queue.ts";
import type { OpenReport, PullRequestReports } from "./reports.ts";

type SweptForge = Pick<Forge, "id" | "repoName" | "openPullRequests" | "closedPullRequests">;

export interface PullRequestsSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  /** Those with a login, by id. */
  readonly forges: ReadonlyMap<string, SweptForge>;
  readonly reports: Pick<PullRequestReports, "open" | "find" | "refused">;
  readonly queue: Pick<JobQueue, "enqueue" | "claim">;
  /** How often each repository is looked at, by whichever replica comes first. */
  readonly everyMs?: number | undefined;
  /** When the first look is: the watch has to know the deployments by then. */
  readonly firstAfterMs?: number | undefined;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface PullRequestsSweep {
  stop(): Promise<void>;
}

const lookTimeoutMs = 60_000;
/** What nobody touched for longer, and nobody previewed, is not news: the first start looks at no old pull request. */
const newsMs = 24 * 3_600_000;
/** No preview takes so long: its job was lost. */
const longestPreviewMs = 3_600_000;
/** What failed was tried a few times within seconds; whatever is down takes longer to come back. */
const mendMs = 10 * 60_000;

export function startPullRequestsSweep(deps: PullRequestsSweepDeps): PullRequestsSweep {
  const { deployments, forges, reports, queue, clock, log } = deps;
  const { everyMs = 300_000, firstAfterMs = Math.min(10_000, everyMs) } = deps;
  const stopped = new AbortController();
  /** What cannot be asked and was told so. */
  const silent = new Set<string>();
  let sweeping: Promise<unknown> | undefined;

  function sweep(): void {
    const repos = previewedRepos(deployments.all());
    sweeping ??= Promise.all([...forges.values()].map((forge) => sweepForge(forge, repos))).finally(() => {
      sweeping = undefined;
    });
  }

  /** One repository after the other, to spare the forge; one that is down is not asked for the others. */
  async function sweepForge(forge: SweptForge, repos: readonly RepoId[]): Promise<void> {
    for (const repo of repos) {
      const repoName = forge.repoName(repo);
      if (repoName === undefined) continue;
      if (stopped.signal.aborted) return;
      try {
        if (!(await queue.claim(`pull requests of ${repo} on ${forge.id}`, Math.floor(everyMs * 0.9)))) continue;
        await look(forge, repo, repoName);
        if ([forge.id, `${forge.id} ${repoName}`].filter((id) => silent.delete(id)).length > 0) {
          log.info({ forge: forge.id, repo: repoName }, "forge lists pull requests again");
        }
      } catch (error) {
        if (stopped.signal.aborted || tellFailure(error, forge, repoName) === "forge") return;
      }
    }
  }

  /** Says what cannot be asked until the next time: the whole forge or only this repository. */
  function tellFailure(error: unknown, forge: SweptForge, repoName: string): "forge" | "repository" {
    const { message } = error as Error;
    if (!(error instanceof ForgeError)) {
      // Redis is away: whoever watches over it says so. What was found is found again.
      log.debug({ forge: forge.id, error: message }, "sweep of pull requests postponed");
      return "forge";
    }
    const { problem } = error;
    const what = problem === "unreachable" || problem === "rate-limited" ? "forge" : "repository";
    const id = what === "forge" ? forge.id : `${forge.id} ${repoName}`;
    if (!silent.has(id)) {
      log.warn({ forge: forge.id, repo: repoName, problem, error: message }, "could not list pull requests");
    }
    silent.add(id);
    return what;
  }

  async function look(forge: SweptForge, repo: RepoId, repoName: string): Promise<void> {
    // The reports first: what is opened in between is then news, and not gone.
    const known = new Map(
      (await reports.open(repo))
        .filter(({ pullRequest }) => pullRequest.forge === forge.id)
        .map((report) => [pullRequestId(report.pullRequest), report]),
    );
    const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(lookTimeoutMs)]);
    const missed = await findMissedOpen(forge, repoName, known, signal);
    await requestPreviews(missed);
    await retryRefused(forge, repoName, missed);
    // Last, so that a failure of this request delays nothing else.
    await requestPreviews(await findMissedClosed(forge, repoName, missed, signal));
  }

  async function requestPreviews(missed: readonly PullRequestKey[]): Promise<void> {
    if (missed.length === 0) return;
    await queue.enqueue(missed.map((pullRequest) => ({ kind: "preview", pullRequest, cause: "sweep" }) as const));
    log.info({ pullRequests: missed.map(pullRequestText) }, "found pull requests without a webhook");
  }

  /** Open pull requests without a current report, and those whose report says that they are open although they are not. */
  async function findMissedOpen(
    forge: SweptForge,
    repoName: string,
    reported: ReadonlyMap<string, OpenReport>,
    signal: AbortSignal,
  ): Promise<readonly PullRequestKey[]> {
    const known = new Map(reported);
    const missed: PullRequestKey[] = [];
    for (const pullRequest of await forge.openPullRequests(repoName, signal)) {
      const id = pullRequestId(pullRequest.key);
      if (await isNews(pullRequest, known.get(id))) missed.push(pullRequest.key);
      known.delete(id);
    }
    return [...missed, ...[...known.values()].map(({ pullRequest }) => pullRequest)];
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
    }
    return missed;
  }

  /** Somebody may have given the login its rights meanwhile, or exchanged it. */
  async function retryRefused({ id }: SweptForge, repoName: string, missed: readonly PullRequestKey[]): Promise<void> {
    const asked = new Set(missed.map(pullRequestId));
    const refused = (await reports.refused(id)).filter(
      (key) => key.repoName.toLowerCase() === repoName.toLowerCase() && !asked.has(pullRequestId(key)),
    );
    if (refused.length === 0) return;
    const requests = refused.map(async (pullRequest) =>
      (await reports.find(pullRequest)) === undefined
        ? ({ kind: "preview", pullRequest, cause: "sweep" } as const)
        : ({ kind: "report", pullRequest } as const),
    );
    await queue.enqueue(await Promise.all(requests));
    log.debug({ pullRequests: refused.map(pullRequestText) }, "retrying reports that the forge rejected");
  }

  async function isNews(pullRequest: PullRequest, known: OpenReport | undefined): Promise<boolean> {
    const now = clock.now();
    if (known === undefined && pullRequest.updatedAt < now - newsMs) return false;
    const report = known ?? (await reports.find(pullRequest.key));
    if (report === undefined || !isOpen(report)) return true;
    if (report.head !== pullRequest.head || report.baseBranch !== pullRequest.baseBranch) return true;
    const age = now - report.startedAt;
    return report.state === "working" ? age > longestPreviewMs : report.mendable === true && age > mendMs;
  }

  let timer = setTimeout(() => {
    sweep();
    timer = setInterval(sweep, everyMs);
  }, firstAfterMs);

  return {
    async stop() {
      clearTimeout(timer);
      stopped.abort();
      await sweeping;
    },
  };
}

/** Those in which a pull request can concern somebody. */
function previewedRepos(deployments: readonly (Deployment | MalformedDeployment)[]): RepoId[] {
  const previewed = deployments.filter(
    (one): one is GitDeployment =>
      followsGit(one) &&
      one.deletionTimestamp === undefined &&
      one.spec.source.ref.commit === undefined &&
      one.spec.source.ref.tag === undefined &&
      !isSwitchedOff(one, annotation.preview),
  );
  return [...new Set(previewed.map(({ repo }) => repo))];
}
