/**
 * Connects the parts that handle pull requests: forges, and the workers that preview and report. Only created if a
 * forge has a login.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { LaneFairness } from "../../jobs/fairness.ts";
import { startPullRequestsSweep } from "../../jobs/sweeps/pull-requests-sweep.ts";
import { startWaitingPreviews } from "../../jobs/sweeps/waiting-previews.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import { startWorker } from "../../jobs/worker.ts";
import { type Config, type ForgeConfig, knownSecrets } from "../config.ts";
import type { LiveConfig } from "../config/live.ts";
import { createForge } from "../forge/create-forge.ts";
import type { ForgeLogin } from "../forge/forge-options.ts";
import type { SpeaksFor } from "../forge/forge-hosts.ts";
import { usualStatusName, withStatusName } from "../forge/status-name.ts";
import { createObservedForge } from "../forge/observed-forge.ts";
import { findRateLimit } from "../forge/rate-limit.ts";
import { type Rest, withRest } from "../forge/rest.ts";
import type { WatchedDeployments } from "../apis/deployments.ts";
import { parseManifest } from "../apis/kluctl/manifest.ts";
import { createLimit, type LimitOptions } from "../kit/limit.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { followedBranch, followsGit, type MergeGroupKey, type RepoId } from "../model.ts";
import { toShown } from "../model/report.ts";
import type { LaneRequests } from "../../jobs/lanes.ts";
import type { Tracing } from "../log/tracing.ts";
import { createTracedJobs } from "./traced.ts";
import type { Clock, Forge, Kluctl, ManifestStore, PostedDeployments, Secrets, Sources, Reports } from "../ports.ts";
import { renderComment } from "../comment/comment.ts";
import { createMergeGroupPreview } from "../preview/merge-group.ts";
import type { AllowedFork } from "../preview/open.ts";
import { createPreview } from "../preview/preview.ts";
import { createKnownReferences } from "../preview/references.ts";
import { startAllowedWaking } from "../preview/wake-allowed.ts";
import type { ReadIdentity } from "../access/identity.ts";
import { createMarker, type Marker } from "../reporting/marker.ts";
import { createEnvironmentWriter } from "../reporting/environments/write-environments.ts";
import { startPreviewWatch } from "../reporting/preview-watch.ts";
import { startRolloutWatch } from "../reporting/rollout-watch.ts";
import { startReportWatch } from "../reporting/watching.ts";
import { writeGroupStatus } from "../reporting/write-group-status.ts";
import { createCommitStatusWriter } from "../reporting/write-commit-status.ts";
import { createReportWriter } from "../reporting/write-report.ts";
import { type FluxPreviewsParts, startFluxPreviews } from "./flux-previews.ts";
import { type FluxReportsDeps, startFluxReports } from "./flux-reports.ts";
import { type Isolation, refusalOfChildren, refusalOfForks } from "./isolation.ts";
import { pruneGuardOf } from "./prune-guard.ts";
import { createPullRequestLinks } from "./pull-request-links.ts";

export interface PreviewsDeps
  extends Pick<FluxReportsDeps, "fluxSources" | "fluxDeployments">, Pick<FluxPreviewsParts, "fluxRenderer" | "client"> {
  readonly live: LiveConfig;
  readonly forges: ReadonlyMap<string, Forge>;
  readonly speaksFor: SpeaksFor;
  readonly deployments: WatchedDeployments;
  readonly secrets: Secrets;
  readonly readIdentity: ReadIdentity;
  readonly sources: Sources;
  readonly kluctl: Kluctl;
  readonly queue: JobQueue;
  readonly reports: Reports;
  readonly manifests: ManifestStore;
  readonly posted: PostedDeployments;
  readonly consumer: Redis;
  readonly fairness: LaneFairness;
  /** UID of kube-system. */
  readonly clusterId: () => Promise<string>;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly audit: (line: AllowedFork) => void;
  /** `undefined`: previews are not confined. */
  readonly isolation: Isolation | undefined;
  readonly kubernetesVersion: () => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface Previews {
  /** Accepts no new jobs; running ones may continue for this long. */
  stop(drainMs: number): Promise<void>;
  /** Queues the reports about what has changed until now, and watches no longer. Call after everything else has ended. */
  stopWatching(): Promise<void>;
}

/** Pull requests that are read, merged or awaited at the same time; a separate limit applies to comparisons. */
const pullRequestsAtOnce = 8;
/** Concurrent reports to forges, which spend most of their time waiting. */
const reportsAtOnce = 4;

/** How often what no webhook announces is looked for. */
export const unannouncedMs = 10_000;

export type ForgesDeps = Pick<PreviewsDeps, "metrics" | "clock" | "log">;

/** Returns `undefined` if the forge has no login. */
export async function openForge(
  config: ForgeConfig,
  { statusName }: Pick<Config, "statusName">,
  rest: Rest,
  deps: ForgesDeps,
): Promise<Forge | undefined> {
  const login = loginOf(config);
  if (login === undefined) return undefined;
  const { id, kind, apiUrl, webUrl, reportAs } = config;
  const { log, metrics } = deps;
  const onAnswer = noteRateLimit(id, deps);
  const made = await createForge({ id, kind, apiUrl, webUrl, login, reportAs, onAnswer, log });
  const forge = createObservedForge(withStatusName(made, statusName), (...what) =>
    metrics.outside.forgeAsked(id, ...what),
  );
  return withRest(forge, rest);
}

/** Takes the headers of a forge's responses. */
export function noteRateLimit(id: string, { metrics }: Pick<ForgesDeps, "metrics">): (headers: Headers) => void {
  return (headers) => {
    const allowed = findRateLimit(headers);
    if (allowed) metrics.outside.forgeAllows(id, allowed);
  };
}

/** Returns `undefined` if the forge has no login: then only its webhooks are used. */
export function loginOf({ token, app }: ForgeConfig): ForgeLogin | undefined {
  if (token !== undefined) return { token: token.reveal() };
  return app && { app: { appId: app.id, privateKey: app.privateKey.reveal() } };
}

export function startPreviews(deps: PreviewsDeps): Previews {
  const { live, forges, deployments, secrets, sources, queue, reports, consumer, fairness, metrics, clock, log } = deps;
  const shared = { connection: consumer, prefix: live.now.redis.prefix, fairness, log };

  const isolatedForks = () => ({
    refusal: refusalOfForks(deps.isolation),
    kubernetesVersion: deps.kubernetesVersion,
  });
  const comparisons = createLimit(live.now.preview.concurrency);
  const lastMove = queue.lastMove.bind(queue);
  const fluxPreviews = startFluxPreviews(deps);
  const previewing = {
    flux: fluxPreviews?.deps,
    get enabled() {
      return live.now.preview.enabled;
    },
    get renderForks() {
      return live.now.preview.forksInMergeQueue;
    },
    forges,
    speaksFor: deps.speaksFor,
    deployments,
    secrets,
    sources,
    slowForMs: (repo: RepoId) => sources.slowForMs(repo),
    kluctl: deps.kluctl,
    readIdentity: deps.readIdentity,
    references: createKnownReferences(),
    lastMove,
    allDeployments: () => deployments.all(),
    reports,
    manifests: live.now.page && deps.manifests,
    queue,
    limit: <T>(work: () => Promise<T>, options: LimitOptions) => comparisons.run(work, options),
    get settings() {
      const { preview: own, dryRun } = live.now;
      return {
        serviceAccount: own.serviceAccountName,
        dryRun,
        serverSecrets: knownSecrets(live.now),
        pruneGuard: pruneGuardOf(live.now),
        confined: own.isolation !== "off",
        forks: own.forks === "isolated" ? isolatedForks() : undefined,
        children: {
          refusal: refusalOfChildren(deps.isolation),
          kubernetesVersion: deps.kubernetesVersion,
          parse: parseManifest,
        },
      };
    },
    audit: deps.audit,
    clusterName: async () => live.now.clusterName ?? (await deps.clusterId()).slice(0, 8),
    newId: randomUUID,
    write: (...group: [MergeGroupKey, RepoId | undefined, AbortSignal]) =>
      writeGroupStatus({ forges, reports }, ...group),
    clock,
    log,
  };
  const preview = createPreview(previewing);
  const previewGroup = createMergeGroupPreview(previewing);
  const traced = createTracedJobs<LaneRequests["preview"]>("preview", deps.tracing);
  const previewer = startWorker({
    ...shared,
    lane: "preview",
    concurrency: pullRequestsAtOnce,
    work: (request, attempt) =>
      traced.work(request, attempt, () =>
        request.kind === "preview" ? preview(request, attempt) : previewGroup(request, attempt),
      ),
    observe: {
      started(request, waited) {
        traced.waited(request, waited);
        metrics.jobWaited("preview", waited);
      },
      finished: (_request, result, seconds) => metrics.previewed(result, seconds),
    },
  });

  const links = createPullRequestLinks({ live, clock });
  const writeReport = createReportWriter({
    forges,
    reports,
    queue,
    deployments,
    fluxDeployments: deps.fluxDeployments,
    secrets,
    sources,
    speaksFor: deps.speaksFor,
    render: (report, options) => renderComment(report, { ...options, pageUrl: links.urlOf(toShown(report)) }),
    markerOf: createMarkers(live, deps.clusterId),
    async waitedMs(pullRequest) {
      const job = await queue.find({ kind: "preview", pullRequest, cause: "pull-request" });
      return job?.at === undefined ? undefined : clock.now() - job.at;
    },
    clock,
    log,
  });
  const writeEnvironments = createEnvironmentWriter({
    posted: deps.posted,
    isEnabled: (id) => live.now.forges.some((forge) => forge.id === id && forge.deployments),
    task: () => live.now.statusName,
    log,
  });
  const flux = startFluxReports(deps);
  const writeCommitStatus = createCommitStatusWriter({
    flux: flux?.statuses,
    followedRepos: () =>
      new Set([
        ...deployments.all().flatMap((one) => (followsGit(one) ? [one.repo] : [])),
        ...(deps.fluxSources?.all() ?? []).map(({ repo }) => repo),
      ]),
    urlOf: (commit) => links.urlOfCommit(commit),
    ...{ forges, reports, queue, deployments, secrets, sources, lastMove, writeEnvironments, log },
  });
  const reporter = startWorker({
    ...shared,
    lane: "report",
    concurrency: reportsAtOnce,
    work: (request, { signal }) =>
      request.kind === "report" ? writeReport(request, signal) : writeCommitStatus(request, signal),
    observe: {
      started: (_request, waited) => metrics.jobWaited("report", waited),
      finished: (request, result, seconds) => metrics.reported(request.kind, result, seconds),
    },
  });

  const stopWatching = startReportWatch({ deployments, forges, reports, queue, clock, log });
  const stopRolloutWatch = startRolloutWatch({ deployments, reports, queue, log });
  const stopPreviewWatch = startPreviewWatch({ deployments, reports, queue, clock, log });
  const stopWaking = startAllowedWaking({ deployments, forges, reports, queue, clock, log });
  const everyMs = (id: string) =>
    live.now.forges.find((forge) => forge.id === id)?.webhooks === false
      ? Math.min(live.now.preview.intervalMs, unannouncedMs)
      : live.now.preview.intervalMs;
  const sweep = live.now.preview.enabled
    ? startPullRequestsSweep({
        deployments,
        fluxRepos: () => previewedFluxRepos(deps),
        forges,
        reports,
        queue,
        everyMs,
        clock,
        log,
      })
    : undefined;
  const waiting = live.now.preview.enabled ? startWaitingPreviews({ queue, log }) : undefined;
  // A configured login alone does not mean that code of anyone who opens a pull request may be rendered.
  if (!sweep) log.info({ forges: [...forges.keys()] }, "previews disabled: preview.enabled is false");
  live.onChange(({ preview }) => comparisons.resize(preview.concurrency));

  return {
    stopWatching,
    async stop(drainMs) {
      stopRolloutWatch();
      stopPreviewWatch();
      stopWaking();
      await Promise.all([sweep?.stop(), flux?.stop(), waiting?.stop()]);
      await Promise.all([previewer.stop(drainMs), reporter.stop(drainMs)]);
      await fluxPreviews?.stop();
    },
  };
}

/** The repositories of which Flux applies a branch. */
function previewedFluxRepos({ live, fluxSources }: Pick<PreviewsDeps, "live" | "fluxSources">): readonly RepoId[] {
  if (!live.now.flux.previews) return [];
  const branches = (fluxSources?.all() ?? []).filter(({ ref }) => followedBranch(ref) !== undefined);
  return branches.map(({ repo }) => repo);
}

/**
 * Markers are signed with a secret that the forge and the server already share, so that all replicas find each other's
 * comments.
 */
function createMarkers(live: LiveConfig, clusterId: () => Promise<string>) {
  const markers = new WeakMap<ForgeConfig, Marker>();
  return async function markerOf(id: string): Promise<Marker> {
    const { forges, statusName: name, kubernetes } = live.now;
    const forge = forges.find((one) => one.id === id);
    const known = forge && markers.get(forge);
    if (known) return known;
    const login = forge?.token ?? forge?.app?.privateKey;
    const secrets = forge?.webhookSecrets.length ? forge.webhookSecrets : login ? [login] : [];
    const marker = createMarker({
      secrets: secrets.map((secret) => secret.reveal()),
      instance: `${await clusterId()}${name === usualStatusName ? "" : ` ${name}`}`,
      owner: kubernetes.namespaces.toSorted().join(),
    });
    if (forge) markers.set(forge, marker);
    return marker;
  };
}
