/**
 * Determines what merging a pull request would change in the live cluster, and stores the result for the report job.
 */
import { setTimeout as sleepFor } from "node:timers/promises";
import { QueueUnavailableError, RemoteBusyError, SupersededError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  type Attempt,
  type Outcome,
  type PreviewRequest,
  type PullRequest,
  type PullRequestKey,
  pullRequestText,
} from "../model.ts";
import type { Deployments, Forge, ManifestStore, Queue, Reports, Sources } from "../ports.ts";
import type { DeploymentManifests } from "../model/manifests.ts";
import { type Report, type Staleness, toShown } from "../model/report.ts";
import { isLimited, isRemade, mayRemakeAt } from "./budget.ts";
import { toReport } from "./findings.ts";
import { findCandidates } from "./flux/candidates.ts";
import { toForgeOutcome } from "./forge-outcome.ts";
import { librariesOf } from "./match-consumers.ts";
import { reposOfUrls } from "../model/repo-url.ts";
import { type OpenDeps, previewOpen } from "./open.ts";
import { withOwnShare } from "./own-share.ts";

export interface PreviewDeps extends OpenDeps {
  /** False: no project is rendered, even for requests from before previews were disabled. */
  readonly enabled: boolean;
  /** Whether a forge may report about the repository at this URL. */
  readonly speaksFor: (forge: string, url: string) => boolean;
  /** The forges with credentials for their API, by id. */
  readonly forges: ReadonlyMap<string, Pick<Forge, "pullRequest">>;
  readonly deployments: Pick<Deployments, "tracking" | "including"> & { synced(): boolean };
  readonly reports: Pick<
    Reports,
    "find" | "save" | "setRefused" | "setUnpublished" | "setPublished" | "stale" | "setStale" | "addRemake" | "remakes"
  >;
  /** Absent: there is no page that shows them. */
  readonly manifests?: Pick<ManifestStore, "save"> | undefined;
  readonly queue: Pick<Queue, "enqueue">;
  /** Absent: no repository is known to be slow. */
  readonly slowForMs?: Sources["slowForMs"] | undefined;
  readonly log: Logger;
  /** Rejects when the signal aborts. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<unknown>;
}

/** Runs the job of a pull request. */
export type PreviewPullRequest = (request: PreviewRequest, attempt: Attempt) => Promise<Outcome>;

type ClosedPullRequest = PullRequest & { readonly state: "closed" | "merged" };

const notSyncedMs = 1_000;
/** While another job fetches from a slow remote. */
const slowMs = 5_000;

/**
 * It reads git and the cluster and writes nothing but its report: it never touches the deployments' status, conditions,
 * events, results or leases.
 */
export function createPreview(deps: PreviewDeps): PreviewPullRequest {
  const sleep = deps.sleep ?? ((ms, signal) => sleepFor(ms, undefined, { signal, ref: false }));

  return async function preview(request, attempt) {
    const { pullRequest, delivery } = request;
    const log = deps.log.child({ pullRequest: pullRequestText(pullRequest), delivery });
    try {
      return await look(request, attempt, log);
    } catch (error) {
      const outcome = toOutcome(error, attempt.signal, log);
      if (outcome.kind === "failed" && outcome.retry === "person") await noteRefused(pullRequest);
      return outcome;
    }
  };

  /** The sweep requests the report again, and as it is outdated, a preview. A time that was set before is kept. */
  async function noteRefused(key: PullRequestKey): Promise<void> {
    await deps.reports.setRefused(key, true);
    const report = await deps.reports.find(key);
    if (report?.state !== "done") return;
    const { startedAt } = report;
    const before = await deps.reports.stale(key);
    if (before?.startedAt === startedAt && before.until !== undefined) return;
    await deps.reports.setStale(key, { startedAt, until: deps.clock.now() });
  }

  async function look({ pullRequest: key, cause }: PreviewRequest, attempt: Attempt, log: Logger): Promise<Outcome> {
    const forge = deps.forges.get(key.forge);
    if (forge === undefined)
      return { kind: "skipped", why: `no login is configured for the API of forge ${key.forge}` };
    // An incomplete list of deployments would make it look as if none were affected.
    if (!deps.deployments.synced() || deps.flux?.isLoading()) {
      return { kind: "later", afterMs: notSyncedMs, why: "the deployments are not loaded yet" };
    }
    const pullRequest = await forge.pullRequest(key, attempt.signal);
    const previous = await deps.reports.find(key);
    if (pullRequest === undefined) {
      // Nothing is left to publish, and nothing else would end the mark. A host may also hide a pull request for a moment.
      if (previous === undefined) await deps.reports.setPublished(key, await deps.reports.setUnpublished(key));
      return { kind: "skipped", why: "there is no such pull request" };
    }
    if (pullRequest.state !== "open") return close({ ...pullRequest, state: pullRequest.state }, previous);
    if (!deps.enabled) return { kind: "skipped", why: "previews of pull requests are disabled (preview.enabled)" };
    const stale = await deps.reports.stale(key);
    const remaking = { cause, pullRequest, previous };
    const until = isLimited(remaking) ? mayRemakeAt(await deps.reports.remakes(key), deps.clock.now()) : 0;
    if (previous !== undefined && until > deps.clock.now()) return postpone(previous, stale, until);
    // Changes from now on are requested again, because this preview may not see them.
    if (stale !== undefined) await deps.reports.setStale(key, undefined);
    const readers = readersOf(pullRequest);
    const wantsManifests = deps.manifests !== undefined;
    const slow = [...readers.repos].find((repo) => deps.slowForMs?.(repo) !== undefined);
    if (slow !== undefined) return { kind: "later", afterMs: slowMs, why: new RemoteBusyError(slow, slowMs).message };
    if (isRemade(remaking)) await deps.reports.addRemake(key, deps.clock.now());
    const open = { ...readers, wantsManifests, cause, previous, ...attempt, log, save, sleep };
    return previewOpen(open, withOwnShare(deps, key, `#${key.number}`));
  }

  /**
   * The request stays in the queue until then, and the comment says so. If the previous preview was aborted, it says no longer
   * that it is in progress.
   */
  async function postpone(previous: Report, stale: Staleness | undefined, until: number): Promise<Outcome> {
    const shown = toShown(previous);
    const { pullRequest, startedAt } = shown;
    const isAborted = previous.state === "working";
    if (isAborted || stale?.startedAt !== startedAt || stale.until !== until || stale.reported !== true) {
      await deps.reports.setStale(pullRequest, { startedAt, until });
      if (isAborted) await save(shown);
      else await deps.queue.enqueue([{ kind: "report", pullRequest }]);
      await deps.reports.setStale(pullRequest, { startedAt, until, reported: true });
    }
    const why = "the pull request was previewed again too often in the last hour";
    return { kind: "later", afterMs: until - deps.clock.now(), why };
  }

  /** There may be a comment without a stored report: it must not look as if the pull request were open. */
  async function close(pullRequest: ClosedPullRequest, previous: Report | undefined): Promise<Outcome> {
    const now = deps.clock.now();
    const unknown = { previews: [], ignored: [], secrets: [] };
    const { repo } = readersOf(pullRequest);
    const fresh = toReport({ pullRequest, previous, repo }, unknown, { startedAt: now });
    const report = previous === undefined ? fresh : withFinalHead(lastFindings(previous), fresh);
    const { state, mergeCommit } = pullRequest;
    const { title, author, openedAt } = fresh;
    const finishedAt = report.finishedAt ?? now;
    // The host reported a change: what was written may be there no more.
    await save({ ...report, title, author, openedAt, state, finishedAt, mergeCommit, written: undefined });
    return { kind: "done" };
  }

  /**
   * The previous findings, with the head and base branch that the pull request had when it was closed. A report about another
   * head is never written: the report job requests a new preview instead, and that would produce the same report again.
   */
  function withFinalHead(previous: Report, { head, baseBranch, earlierHeads, earlierPreviews }: Report): Report {
    const { head: before, baseBranch: into } = previous;
    return head === before && baseBranch === into
      ? previous
      : { ...previous, head, baseBranch, earlierHeads, earlierPreviews, base: undefined };
  }

  /** While it was previewed again, those of the last comparison, unless it is known by now which deployments it affects. */
  function lastFindings(previous: Report): Report {
    return previous.previews.length > 0 ? { ...previous, latest: undefined } : toShown(previous);
  }

  /** A forge's pull request is no reason to render content of a repository on another forge, and to show it there. */
  function readersOf(pullRequest: PullRequest) {
    const repoUrls = pullRequest.repoUrls.filter((url) => deps.speaksFor(pullRequest.key.forge, url));
    const repos = reposOfUrls(repoUrls);
    const flux = deps.flux && findCandidates(pullRequest, repos, deps.flux);
    const deployments = [...repos].flatMap((repo) => deps.deployments.tracking(repo));
    const including = [...new Set([...repos].flatMap((repo) => deps.deployments.including(repo)))];
    const library = [...repos].find((repo) => including.some((one) => librariesOf(one).some((of) => of.repo === repo)));
    return {
      pullRequest: { ...pullRequest, repoUrls },
      repos,
      deployments,
      including,
      flux,
      repo: deployments[0]?.repo ?? library ?? flux?.sources[0]?.repo,
    };
  }

  /** The report is complete without them. */
  async function saveManifests(
    { pullRequest, startedAt }: Report,
    deployments: readonly DeploymentManifests[],
  ): Promise<void> {
    await deps.manifests?.save(pullRequest, { startedAt, deployments: [...deployments] }).catch((error: unknown) => {
      deps.log.warn({ pullRequest: pullRequestText(pullRequest), err: error }, "could not store the manifests");
    });
  }

  /** The report is stored first, because the report job reads it. */
  async function save(report: Report, manifests: readonly DeploymentManifests[] = []): Promise<void> {
    if (manifests.length > 0) await saveManifests(report, manifests);
    await deps.reports.setUnpublished(report.pullRequest); // if that job is lost, the sweep requests another one
    await deps.reports.save(report);
    await deps.queue.enqueue([{ kind: "report", pullRequest: report.pullRequest }]);
  }
}

function toOutcome(error: unknown, signal: AbortSignal, log: Logger): Outcome {
  const message = error instanceof Error ? error.message : String(error);
  if (signal.aborted) {
    return signal.reason instanceof SupersededError
      ? { kind: "skipped", why: "superseded" }
      : { kind: "failed", retry: "soon", message };
  }
  if (error instanceof QueueUnavailableError) return { kind: "failed", retry: "soon", message };
  const outcome = toForgeOutcome(error);
  // Temporary failures of the forge are logged where the job is postponed.
  if (outcome.kind === "failed") log.warn({ error: outcome.message }, "request to the forge failed");
  return outcome;
}
