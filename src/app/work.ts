/** The parts that run only on the leader: watches, sweeps and workers. */
import { startRedeliveriesSweep } from "../../jobs/sweeps/redeliveries-sweep.ts";
import { startSweep } from "../../jobs/sweeps/sweep.ts";
import { startWorker, type Timing } from "../../jobs/worker.ts";
import { readMemory } from "../machine/available-memory.ts";
import type { ResultStore } from "../kube/result-store.ts";
import type { ReconcileRequest, RepoId } from "../model.ts";
import type { Deliveries } from "../redis/deliveries.ts";
import type { DeploymentMetrics } from "../metrics/deployments.ts";
import { findUnansweredGroups } from "../preview/open-group.ts";
import { includedLoginKey, loginKey, readGitCredentials, readOciCredentials, tagKey } from "../access/credentials.ts";
import { startDependencyWaking } from "../guards/depends-on-waking.ts";
import { startDriftWaking } from "../skipping/drift-waking.ts";
import { dueAt } from "../reconcile/due.ts";
import type { SweepPaces } from "../intake/sweep-pace.ts";
import type { createReconcile } from "../reconcile/reconcile.ts";
import type { Retries } from "../reconcile/retries.ts";
import { startTidying } from "../reconcile/tidying.ts";
import { startWaking } from "../reconcile/waking.ts";
import type { GitSources } from "../source/sources.ts";
import { startFlux, type FluxDeps } from "./flux.ts";
import { createFitting } from "./fitting-concurrency.ts";
import type { LiveForges } from "./live-forges.ts";
import type { SkippingParts } from "./skipping.ts";
import { type NotificationsDeps, startNotifications } from "./notifications.ts";
import { startPreviews, type PreviewsDeps, unannouncedMs } from "./previews.ts";
import { createTracedJobs } from "./traced.ts";

export interface WorkDeps
  extends
    PreviewsDeps,
    Pick<NotificationsDeps, "sentNotifications" | "identity" | "missedWebhooks" | "logins">,
    Pick<FluxDeps, "fluxSources"> {
  readonly reconcile: ReturnType<typeof createReconcile>;
  readonly retries: Retries;
  /** Absent: nothing is skipped. */
  readonly skippingParts: SkippingParts | undefined;
  /** Resolves when the webhooks leave capacity for other work. */
  readonly turn: () => Promise<void>;
  /** Whether this server is still the leader, as far as it can know. */
  readonly mayBegin: () => boolean;
  readonly sources: GitSources;
  readonly results: ResultStore;
  readonly deploymentMetrics: DeploymentMetrics;
  readonly deliveries: Pick<Deliveries, "latest">;
  readonly hostWebhooks: LiveForges["hostWebhooks"];
  readonly paces: SweepPaces;
}

export interface StartedWork {
  /** Seconds since the last completed sweep. */
  sweepAge(): number;
  /** The number of running jobs. */
  running(): number;
  /** Accepts no new jobs; running ones may continue for this long. */
  stop(drainMs: number): Promise<void>;
}

export function startWork(deps: WorkDeps): StartedWork {
  const { live, deployments, sources, secrets, results, forges, queue, reports, clusterId, metrics, clock, log } = deps;
  const workers = [
    { worker: startReconciler("reconcile", 1, deps), share: 1 },
    { worker: startReconciler("manual", manualShare, deps), share: manualShare },
  ];
  const previews = forges.size > 0 ? startPreviews(deps) : undefined;
  const notifications = startNotifications(deps);
  const flux = startFlux(deps);
  const allow = (concurrency: number) => {
    for (const { worker, share } of workers) worker.allow(Math.ceil(concurrency * share));
  };
  const fitting = createFitting({ configured: () => live.now.concurrency, read: () => readMemory(), allow, log });
  const looking = setInterval(() => fitting.look(), memoryEveryMs);
  live.onChange(() => allow(fitting.allowed));
  const stopWaking = startWaking({ deployments, queue, log });
  const stopWakingDependents = startDependencyWaking({ deployments, queue, log });
  const skips = deps.skippingParts;
  const stopDriftWaking = skips && startDriftWaking({ ...skips, deployments, queue, log, observe: skips.metrics });
  const redeliveries = startRedeliveries(deps);
  /** In order: what was missed is recorded before the next look is judged. */
  let noting = Promise.resolve();
  const afterNoting = (work: () => Promise<void>): void => {
    noting = noting.then(work).catch((error: unknown) => {
      // Redis is unavailable, which its monitoring reports.
      log.debug({ error: (error as Error).message }, "could not record whether webhooks arrive");
    });
  };
  const sweep = startSweep({
    deployments,
    queue,
    reports: {
      find: async (pullRequest) => reports.find(pullRequest),
      open: async (repo) => (forges.size > 0 && live.now.preview.enabled ? reports.open(repo) : []),
    },
    groups: (repo, heads) => findUnansweredGroups({ forges, reports }, repo, heads),
    dueAt,
    retries: deps.retries,
    skipCheck: skips && ((deployment, to) => skips.skipping.skipCheck(deployment, to)),
    groupKey: ({ use, deployment, url }) =>
      use === "source" ? loginKey(deployment) : includedLoginKey(deployment, url),
    tagKey,
    async tag({ deployment, source }, signal) {
      const credentials = await readOciCredentials(deployment, secrets);
      return sources.tag({ ...source, credentials }, signal);
    },
    async heads({ deployment, url }, signal) {
      const credentials = await readGitCredentials(deployment, secrets);
      return sources.heads({ url, credentials }, undefined, signal);
    },
    everyMs: () =>
      live.now.forges.every(({ webhooks }) => webhooks)
        ? live.now.sweep.intervalMs
        : Math.min(live.now.sweep.intervalMs, unannouncedMs),
    paces: {
      everyMs: (repo) => deps.paces.everyMs(repo),
      longestMs: (repo) => deps.paces.longestMs(repo),
      looked: (refs) => afterNoting(() => deps.paces.looked(refs)),
    },
    clock,
    log,
    observe: {
      due: (count) => metrics.outside.sweepDue(count),
      looked: (ok, seconds) => metrics.outside.swept(ok, seconds),
      found: (count) => metrics.outside.sweepFound(count),
      unannounced: (found) =>
        afterNoting(async () => {
          const missed = await deps.missedWebhooks.note(found);
          for (const repo of missed) deps.paces.missed(repo);
          if (missed.length > 0) redeliveries.hurry();
        }),
    },
  });
  startTidying({ deployments, results, clusterId, namespaces: live.now.kubernetes.namespaces, log });
  return {
    sweepAge: () => sweep.age(),
    running: () => workers.reduce((sum, { worker }) => sum + worker.running(), 0),
    async stop(drainMs) {
      clearInterval(looking);
      stopDriftWaking?.();
      await Promise.all([sweep.stop(), redeliveries.stop()]);
      await skips?.audit.stop();
      const others = [previews?.stop(drainMs), notifications.stop(drainMs), flux.stop(drainMs)];
      await Promise.all([...workers.map(({ worker }) => worker.stop(drainMs)), ...others]);
      // The last jobs have changed something, too: others may depend on it, and the next leader reports it.
      await Promise.all([stopWaking(), stopWakingDependents()]);
      await previews?.stopWatching();
      await skips?.applied.stop();
    },
  };
}

function startRedeliveries(deps: WorkDeps) {
  const { live, forges, deployments, deliveries, queue, metrics, clock, log } = deps;
  return startRedeliveriesSweep({
    ...{ deployments, deliveries, queue, clock, log },
    forges: () =>
      live.now.forges.flatMap(({ id, webhooks: sends }) => {
        const [forge, webhooks] = [forges.get(id), deps.hostWebhooks(id)];
        if (!sends || forge === undefined || webhooks?.repeats !== true) return [];
        return [{ id, repoName: (repo: RepoId) => forge.repoName(repo), webhooks }];
      }),
    observe: (forge) => metrics.outside.webhookRepeated(forge),
  });
}

const memoryEveryMs = 5_000;

/** The share of the concurrency that manual requests get in addition, because a user waits for them. */
const manualShare = 0.5;

function startReconciler(lane: "reconcile" | "manual", share: number, deps: WorkDeps) {
  const config = deps.live.now;
  const concurrency = Math.ceil(config.concurrency * share);
  const { consumer, fairness, turn, mayBegin, reconcile, metrics, deploymentMetrics, log } = deps;
  const traced = createTracedJobs<ReconcileRequest>(lane, deps.tracing);
  return startWorker({
    lane,
    connection: consumer,
    prefix: config.redis.prefix,
    concurrency,
    fairness,
    work: (request, attempt) =>
      traced.work(request, attempt, async () => {
        await turn();
        return mayBegin() ? reconcile(request, attempt) : "busy";
      }),
    log,
    observe: {
      started(request, waited) {
        traced.waited(request, waited);
        metrics.jobWaited(lane, waited);
        deploymentMetrics.reconcileStarted();
      },
      finished({ deployment }, result, seconds) {
        metrics.reconciled(result, seconds);
        deploymentMetrics.reconciled(deployment, result, seconds);
      },
    },
    timing: takeOver(config.lease.durationMs),
  });
}

/**
 * Another server that takes over has to find the job first and then see the lease unchanged for its whole duration, so
 * the job's lock expires before the lease. Too early does no harm: only the lease decides who may work.
 */
function takeOver(leaseMs: number): Pick<Timing, "lockMs" | "stalledEveryMs"> {
  const lockMs = Math.max(Math.round(leaseMs / 2), 5_000);
  return { lockMs, stalledEveryMs: Math.round(lockMs / 3) }; // Redis requires whole milliseconds
}
