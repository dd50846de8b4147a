/**
 * Updates comment and statuses of a pull request to its report. The job only has the pull request's key: it writes the
 * current report when it runs, so the next job makes up for a lost write.
 */
import { isDeepStrictEqual } from "node:util";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { Logger } from "../log.ts";
import {
  type AnyDeployment,
  type CommitKey,
  isMalformed,
  type Outcome,
  type PullRequest,
  type PullRequestKey,
  pullRequestText,
  type RepoId,
  type ReportRequest,
} from "../model.ts";
import type { Clock, Deployments, FluxDeployments, Forge, Queue, Reports, Secrets, Sources } from "../ports.ts";
import { toForgeOutcome } from "../preview/forge-outcome.ts";
import { hasFinalVerdict, withoutTime } from "../comment/comment.ts";
import { describeReport } from "../preview/summary.ts";
import { readGitCredentials } from "../access/credentials.ts";
import { includesFrom } from "../model/includes.ts";
import { isForeign, isOpen, isPostponed, markStale, type Report, type Staleness, toShown } from "../model/report.ts";
import { unsettledRequests } from "./commit-requests.ts";
import { createFollowMerge, type Followed, waitsFor } from "./follow-merge.ts";
import type { Marker } from "./marker.ts";
import { detailsOf, withDetails } from "./status-details.ts";
import { sharedStatuses, statusesOf } from "./statuses.ts";
import { createTellFailure } from "./tell-failure.ts";
import { markWaiting } from "./waiting.ts";
import { type OwnComments, writeComment } from "./write-comment.ts";
import { endPending, isSaid, takeBack, writeStatuses } from "./write-statuses.ts";

export interface ReportWriterDeps {
  readonly forges: ReadonlyMap<string, Forge>;
  readonly reports: Reports;
  readonly queue: Pick<Queue, "enqueue">;
  /** For how long its next preview has waited in the queue; `undefined` if none waits there. Absent: comments do not say so. */
  readonly waitedMs?: ((key: PullRequestKey) => Promise<number | undefined>) | undefined;
  readonly deployments: Pick<Deployments, "get" | "including"> & { synced(): boolean };
  readonly fluxDeployments?: Pick<FluxDeployments, "read"> | undefined;
  readonly secrets: Secrets;
  readonly sources: Pick<Sources, "heads" | "contains">;
  readonly speaksFor: (forge: string, url: string) => boolean;
  readonly render: (report: Report, options: { readonly maxLength: number; readonly marker: string }) => string;
  readonly markerOf: (forge: string) => Promise<Marker>;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A base that changes faster than it can be compared must not prevent the comment without end. */
const mostRestarts = 3;
/** Hosts answer for a moment, or to a login without permission, that there is no such pull request. */
const believedAfterMs = 5 * 60_000;
/** Pull requests whose comments were written by this process. */
const mostWritten = 1_000;

interface Published {
  readonly outcome: Outcome;
  /** Whether the comment and the statuses do not show the report yet. */
  readonly isOwed: boolean;
}

export function createReportWriter(deps: ReportWriterDeps) {
  const { forges, reports, queue, log } = deps;
  const merges = createFollowMerge(deps);
  const tellFailure = createTellFailure(deps);
  const written = createBoundedMap<true>({ entries: mostWritten });
  /** When the host first answered that there is no such pull request. */
  const missingSince = createBoundedMap<number>({ entries: mostWritten });
  let warned = false;

  function warnOfAnother(): void {
    if (!warned)
      log.warn("another Towline server in this cluster writes the same comments: set a different statusName for each");
    warned = true;
  }

  return async function writeReport({ pullRequest: key }: ReportRequest, signal?: AbortSignal): Promise<Outcome> {
    const forge = forges.get(key.forge);
    if (forge === undefined) return { kind: "skipped", why: "the forge is no longer configured" };
    // Before it is read: what is saved from now on has a job of its own.
    const mark = await reports.setUnpublished(key);
    const { outcome, isOwed } = await writeUnlessStale(forge, key, signal);
    if (outcome.kind !== "later") await reports.setRefused(key, outcome.kind === "failed");
    // A rejected report has a record of its own.
    if (!isOwed || outcome.kind === "failed") await reports.setPublished(key, mark);
    return outcome;
  };

  async function writeUnlessStale(
    forge: Forge,
    key: PullRequestKey,
    signal: AbortSignal | undefined,
  ): Promise<Published> {
    const stored = await reports.find(key);
    if (stored === undefined) {
      return { outcome: { kind: "skipped", why: "there is no record of this pull request any more" }, isOwed: false };
    }
    const { report, outcome, followed: ahead } = await merges.ahead(stored, signal);
    if (outcome !== undefined) return { outcome, isOwed: report.written === undefined };
    try {
      const outdated = await reports.stale(key);
      // The comment says so: whether the base moved as well makes no difference.
      const isWaiting = isPostponed(outdated, report.startedAt, deps.clock.now());
      // All of these are questions to the host, whose answers take longer than anything else here.
      const base = isWaiting ? Promise.resolve(undefined) : readBase(report, signal);
      const comments = ask(forge.ownComments(key, signal));
      const now = await forge.pullRequest(key, signal);
      if (now === undefined) return { outcome: missing(key), isOwed: true };
      missingSince.delete(pullRequestText(key));
      const stale = whyStale(report, now, await base);
      if (stale === undefined) {
        const { report: followed, againMs: laterMs } = ahead ?? (await merges.follow(report, now, signal));
        const mark = await withoutWaiting(key);
        return await write(forge, markStale(followed, mark), { now, comments, laterMs }, signal);
      }
      const waitedMs = stale.cause === "pull-request" ? await deps.waitedMs?.(key) : undefined;
      const waiting = markWaiting(report, now, waitedMs);
      if (waiting !== undefined) {
        await noteWaiting(key, { startedAt: report.startedAt, waiting: waiting.waiting });
        await postComment(forge, waiting, comments, signal);
        return { outcome: { kind: "skipped", why: "its next preview waits for others" }, isOwed: true };
      }
      await queue.enqueue([{ kind: "preview", pullRequest: key, cause: stale.cause }]);
      return { outcome: { kind: "skipped", why: stale.why }, isOwed: true };
    } catch (error) {
      return { outcome: logged(report, toForgeOutcome(error)), isOwed: true };
    }
  }

  /** Read again, as below: previews change the mark while the host is asked, and that must not be lost. */
  async function noteWaiting(key: PullRequestKey, waiting: Staleness): Promise<void> {
    const mark = await reports.stale(key);
    const others = mark?.startedAt === waiting.startedAt ? mark : undefined;
    await reports.setStale(key, { ...others, ...waiting });
  }

  /** The pull request is again what was compared, so that no other result is awaited. */
  async function withoutWaiting(key: PullRequestKey): Promise<Staleness | undefined> {
    const mark = await reports.stale(key);
    if (mark?.waiting === undefined) return mark;
    const { waiting: _, ...others } = mark;
    const rest = others.until === undefined ? undefined : others;
    await reports.setStale(key, rest);
    return rest;
  }

  /** The host does not find it. If that lasts, it is believed until the sweep requests the report again. */
  function missing(key: PullRequestKey): Outcome {
    const name = pullRequestText(key);
    const now = deps.clock.now();
    const since = missingSince.get(name) ?? now;
    missingSince.set(name, since);
    const forMs = now - since;
    if (forMs >= believedAfterMs) return { kind: "skipped", why: "the pull request was deleted" };
    return { kind: "later", afterMs: Math.max(forMs, 2_000), why: "the host does not find the pull request" };
  }

  /** Checked right before a write: a report of another head or base is outdated. */
  function whyStale(report: Report, now: PullRequest, base: string | undefined) {
    if (now.head !== report.head) return { cause: "pull-request", why: "there is a newer head" } as const;
    if (now.baseBranch !== report.baseBranch) return { cause: "pull-request", why: "the base was changed" } as const;
    if (isOpen(report) !== (now.state === "open"))
      return { cause: "pull-request", why: `it is ${now.state} now` } as const;
    return base === undefined || base === report.base ? undefined : ({ cause: "base", why: "the base moved" } as const);
  }

  /**
   * `undefined` if it does not matter or cannot be read: a comment about a possibly old base is better than none. Never
   * rejects.
   */
  async function readBase(report: Report, signal?: AbortSignal): Promise<string | undefined> {
    if (report.state !== "done" || report.base === undefined || report.restarts >= mostRestarts) return undefined;
    const { previews, baseBranch, repo } = report;
    const own = previews.filter(({ kind }) => kind === undefined);
    const first = own.find(({ includes }) => !includes) ?? own[0];
    try {
      const deployment = first && (await deps.deployments.get(first.deployment));
      if (deployment === undefined || isMalformed(deployment)) return undefined;
      const credentials = await readGitCredentials(deployment, deps.secrets);
      const url = first?.includes ? urlOfIncluded(deployment, repo) : deployment.spec.source.url;
      if (url === undefined) return undefined;
      // A slow host must not occupy the workers that report to all hosts.
      const heads = await deps.sources.heads({ url, credentials }, undefined, signal, { leaves: true });
      return heads.commits.get(`refs/heads/${baseBranch}`);
    } catch (error) {
      log.debug({ error: (error as Error).message }, "the base could not be read again");
      return undefined;
    }
  }

  /** `laterMs`: when to write again, because the rollout could not be read completely. */
  async function write(
    forge: Forge,
    report: Report,
    { now, comments, laterMs }: { now: PullRequest; comments: OwnComments; laterMs: number | undefined },
    signal?: AbortSignal,
  ): Promise<Published> {
    const { url } = report;
    const outcomes: Outcome[] = [];
    const attempt = async <T>(part: () => Promise<T>): Promise<T | undefined> => {
      try {
        return await part();
      } catch (error) {
        outcomes.push(toForgeOutcome(error));
        return undefined;
      }
    };

    // Neither waits for the other: a host may reject one and accept the other.
    const comment = await attempt(() => postComment(forge, report, comments, signal));
    await attempt(() => postStatuses(forge, report, comment?.url ?? url, signal));
    const told: Followed = (await attempt(() => tellFailure(forge, report, comment?.url, signal))) ?? { report };
    for (const earlier of report.earlierHeads) {
      await attempt(() => leave(forge, report, earlier, signal));
    }
    await requestReleased(report);
    const outcome = logged(report, worstOf(outcomes));
    if (outcome.kind !== "done") return { outcome, isOwed: true };
    if (told.againMs !== undefined) return { outcome: waitsFor(told.againMs), isOwed: false };
    await merges.noteWritten(told.report, now);
    return { outcome: laterMs === undefined ? outcome : waitsFor(laterMs), isOwed: false };
  }

  /** While a pull request proposes a commit that is deployed already, the commit's summary is its own, and then the deploy's. */
  async function requestReleased(report: Report): Promise<void> {
    const { repo, head, mergeCommit, earlierHeads } = report;
    const released = new Set([...earlierHeads, ...(isOpen(report) ? [] : [head, mergeCommit])]);
    if (repo === undefined || released.size === 0) return;
    const requests = (await unsettledRequests(forges, reports, repo)).filter(({ commit }) =>
      released.has(commit.commit),
    );
    if (requests.length > 0) await queue.enqueue(requests);
  }

  async function postComment(forge: Forge, report: Report, comments: OwnComments, signal?: AbortSignal) {
    const { pullRequest: key, previews, obstacle, unshown = [] } = toShown(report);
    const marker = await deps.markerOf(forge.id);
    const body = deps.render(report, { maxLength: forge.maxCommentLength, marker: marker.text(key) });
    const concerned = previews.length + unshown.length > 0 || obstacle !== undefined;
    const how = concerned && isOpen(report) ? "create" : "edit-only";
    const name = pullRequestText(key);
    // Comments by another process may predate a change of the watched namespaces.
    const onForeign = written.get(name) ? warnOfAnother : undefined;
    // If Redis lost the report of the last preview, the comment may still show it.
    const isUpToDate = (existing: string) =>
      withoutTime(existing) === withoutTime(body) || (!concerned && hasFinalVerdict(existing, report));
    const comment = await writeComment({ forge, marker, comments, onForeign, isUpToDate }, key, body, how, signal);
    if (comment !== undefined) written.set(name, true);
    return comment;
  }

  /** Also covers other pull requests that propose the same commit. */
  async function postStatuses(forge: Forge, report: Report, url: string, signal: AbortSignal | undefined) {
    const { head, obstacle } = report;
    const target = { forge, reports };
    const readOthers = async () => ({
      others: await proposing(report, head),
      groups: await reports.groupStatuses(commitOf(report, head)),
    });
    const { others, groups } = await readOthers();
    const all = isOpen(report) ? [report, ...others] : others;
    if (all.length === 0 && groups.size === 0)
      return endPending(target, commitOf(report, head), describeReport(report), signal);
    const alone = others.length === 0 && groups.size === 0;
    const wanted = alone
      ? withDetails(statusesOf(report, url), () => detailsOf(report, deps.render, forge.maxDetailsBytes))
      : sharedStatuses(all, groups.values());
    await writeStatuses(target, commitOf(report, head), wanted, signal);
    // Meanwhile the job of another pull request with this head may have written what is newer.
    if (!isDeepStrictEqual(await readOthers(), { others, groups }))
      await queue.enqueue([{ kind: "report", pullRequest: report.pullRequest }]);
    const as =
      obstacle === undefined || isForeign(report)
        ? ({ state: "success", description: "no longer reported here", neutral: true } as const)
        : ({ state: "canceled", description: describeReport(report) } as const);
    return takeBack(target, commitOf(report, head), { wanted, as }, signal);
  }

  /** The pull request no longer has this commit as its head; another pull request may still have it. */
  async function leave(forge: Forge, report: Report, earlier: string, signal: AbortSignal | undefined) {
    const others = await proposing(report, earlier);
    if (others.length === 0) {
      const why = `superseded by ${report.head.slice(0, 7)}`;
      return endPending({ forge, reports }, commitOf(report, earlier), why, signal);
    }
    // Only if there is something to change: otherwise two pull requests that swapped heads would trigger each other without end.
    if (isSaid(sharedStatuses(others), await reports.statuses(commitOf(report, earlier)))) return;
    await queue.enqueue(others.map(({ pullRequest }) => ({ kind: "report", pullRequest })));
  }

  async function proposing({ repo, pullRequest }: Report, head: string): Promise<readonly Report[]> {
    const all = repo === undefined ? [] : await reports.proposing(repo, head);
    return all.filter((one) => pullRequestText(one.pullRequest) !== pullRequestText(pullRequest));
  }

  function logged(report: Report, outcome: Outcome): Outcome {
    const about = { pullRequest: pullRequestText(report.pullRequest), head: report.head, state: report.state };
    if (outcome.kind === "failed") log.warn({ ...about, error: outcome.message }, "forge rejected the report");
    else if (outcome.kind === "later") log.info({ ...about, why: outcome.why }, "forge temporarily unavailable");
    else log.info(about, "reported");
    return outcome;
  }
}

function commitOf({ pullRequest: { forge, repoName } }: Report, commit: string): CommitKey {
  return { forge, repoName, commit };
}

/** A question whose answer may not be needed: a failure matters only to who waits for it. */
function ask<T>(answer: Promise<T>): Promise<T> {
  answer.catch(() => undefined);
  return answer;
}

/** The repository's URL, as the deployment's project includes it. */
function urlOfIncluded(deployment: AnyDeployment, repo: RepoId | undefined): string | undefined {
  return repo && includesFrom(deployment, new Set([repo]))?.[0]?.url;
}

/** Combines the outcomes of the parts of one job: if one has to wait for a forge, the job runs again as a whole. */
function worstOf(outcomes: readonly Outcome[]): Outcome {
  const waiting = outcomes.filter((outcome) => outcome.kind === "later");
  if (waiting.length > 0) return waiting.reduce((one, other) => (one.afterMs >= other.afterMs ? one : other));
  return outcomes.find(({ kind }) => kind === "failed") ?? { kind: "done" };
}
