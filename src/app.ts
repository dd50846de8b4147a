/** Creates all parts of the server from a Config and connects them. No other module does this. */
import { hostname } from "node:os";
import { join } from "node:path";
import { connectProducer, connectWorker } from "./redis/connection.ts";
import { createDeliveries } from "./redis/deliveries.ts";
import { createFairness } from "../jobs/fairness.ts";
import { laneOf, lanes } from "../jobs/lanes.ts";
import { createLogLines } from "./redis/log-lines.ts";
import { createQueue, type JobQueue } from "../jobs/queue.ts";
import { createReports } from "./redis/reports.ts";
import { createCluster } from "./app/cluster.ts";
import { createDataDir } from "./app/data-dir.ts";
import { pruneGuardOf } from "./app/prune-guard.ts";
import { checkLogins, openLiveForges } from "./app/live-forges.ts";
import { findRedis, watchRedis } from "./app/redis.ts";
import { createInStage } from "./app/stages.ts";
import { findIsolation, forksOf } from "./app/isolation.ts";
import { startReload } from "./app/reload.ts";
import { findRunner } from "./app/runner-isolation.ts";
import { showIsolation } from "./app/show-isolation.ts";
import { createSkippingParts } from "./app/skipping.ts";
import { openSourceOverrides } from "./app/source-overrides.ts";
import { startTools } from "./app/tools.ts";
import { startTracing } from "./app/tracing-sdk.ts";
import { startWayIn, type WayIn } from "./app/way-in.ts";
import { startWork, type StartedWork } from "./app/work.ts";
import { type Config, knownSecrets } from "./config.ts";
import { createLiveConfig } from "./config/live.ts";
import { epochNow } from "./kit/monotonic.ts";
import { readKubernetesVersion } from "./kube/cluster-facts.ts";
import { startLeadership, type Leadership } from "./kube/leader.ts";
import { createServerEvents } from "./kube/server-events.ts";
import { createLogger, createSecretList, type Logger } from "./log.ts";
import { createAuditLog } from "./log/audit.ts";
import { createMetrics } from "./metrics.ts";
import { createDeploymentMetrics } from "./metrics/deployments.ts";
import type { Request } from "./model.ts";
import { newOurId } from "./reconcile/our-ids.ts";
import { parts } from "./reconcile/parts.ts";
import { createReconcile } from "./reconcile/reconcile.ts";
import { createRetries } from "./reconcile/retries.ts";
import type { GitSources } from "./source/sources.ts";
import type { Reading } from "./cli/commands.ts";
import { readVersion } from "./cli/version.ts";

export interface App extends Pick<WayIn, "webhooksPort" | "adminPort" | "pagePort"> {
  /** How long running jobs may continue when the server stops. */
  drainMs(): number;
  /** Resolves with the reason when another controller has taken over and this server must exit. */
  readonly lost: Promise<string>;
  /** Stops in the direction of the flow: first deliveries, then jobs, then what they use. Nothing is lost. */
  stop(): Promise<void>;
}

/**
 * Resolves once the ports are open. External systems may be unavailable at first: until then the server is not ready
 * and reports why. Throws for problems that a person has to fix: a port in use, a directory that cannot be written, a
 * Redis that cannot be started.
 */
export async function startApp(config: Config, log: Logger, reading?: Reading): Promise<App> {
  const clock = { now: epochNow };
  const live = createLiveConfig(config);
  await createDataDir(config.dataDir);
  const { version, commit = "unknown", node } = readVersion();
  const { tracing, stop: stopTracing } = await startTracing(process.env, { version, log });
  const { address, privateRedis } = await findRedis(config, log, live);
  const [producer, consumer] = [connectProducer(address, log), connectWorker(address, log)];
  const fairness = createFairness();
  const queue = createQueue({
    connection: producer,
    prefix: config.redis.prefix,
    fairness,
    log,
    observe: {
      enqueued: (request, queued) =>
        metrics.stages.enqueued(laneOf(request), causeOf(request), queued ? "queued" : "joined"),
      unavailable: () => metrics.stages.queueFailed(),
    },
  });
  const reports = createReports({ connection: producer, prefix: config.redis.prefix });
  const deliveries = createDeliveries({ connection: producer, prefix: config.redis.prefix, log });
  const logLines = createLogLines({ connection: producer, prefix: config.redis.prefix, log });
  const secretList = reading?.secrets ?? createSecretList(knownSecrets(config));
  // Parts that start after the ports are open but may be queried before
  const begun: { leadership?: Leadership; work?: StartedWork } = {};
  const metrics = createMetrics({
    readQueue: () => readDepths(queue),
    sweepAge: () => begun.work?.sweepAge() ?? 0,
    watchAge: () => deployments.age(),
  });
  const deploymentMetrics = createDeploymentMetrics({
    registry: metrics.registry,
    deployments: () => deployments.all(),
    dryRun: () => live.now.dryRun,
    concurrency: () => live.now.concurrency,
  });
  const redis = watchRedis(producer, metrics, log);

  const inStage = createInStage(metrics.stages, tracing);
  const identity = `${hostname()}-${process.pid}`;
  const { client, secrets, deployments, objects, results, leases, readIdentity } = createCluster({
    live,
    identity,
    metrics,
    inStage,
    log,
  });
  deployments.onChange(({ kind, deployment }) => {
    if (kind === "removed") deploymentMetrics.gone(deployment.key);
  });
  const runner = findRunner(config, (found) => showIsolation(found, { config, metrics, log }));
  const isolation = runner?.isolation ?? (await findIsolation(config, join(config.dataDir, "kluctl-work")));
  if (runner === undefined) showIsolation(isolation, { config, metrics, log });
  const tools = startTools({
    ...{ live, isolation, dispatch: runner?.dispatch, client, logLines, secretList },
    ...{ metrics, deploymentMetrics, inStage, log },
  });
  const { sources, kluctl } = tools;
  const { forges, webhookSources, speaksFor } = await openLiveForges(live, { metrics, clock, log });

  const auditLog = createAuditLog({
    ...config.audit,
    log,
    loggerFor: (destination) => createLogger({ level: "info", format: "json", secrets: secretList, destination }),
  });

  // Before any work starts, so that a port in use does not interrupt a deploy
  const stopping = { since: undefined as Date | undefined };
  const retries = createRetries(clock);
  const wayIn = await startWayIn({
    live,
    deployments,
    retries,
    client,
    forges,
    webhookSources,
    speaksFor,
    queue,
    reports,
    deliveries,
    logLines,
    audit: (write) => auditLog.info(write, `page: ${write.action} ${write.result}`),
    checked: {
      checkRedis: () => redis.check(),
      kluctl,
      sweep: { age: () => begun.work?.sweepAge() ?? 0 },
      leadership: {
        waitsFor: () => begun.leadership?.waitsFor(),
        problem: () => (begun.leadership ? begun.leadership.problem() : "the server is starting"),
      },
      stopping,
      isolation,
      forks: () => forksOf(live.now, isolation),
    },
    metrics,
    tracing,
    clock,
    log,
  });

  const sourceOverrides = await openSourceOverrides(config, { client, log });

  // Reconciliation
  const skippingParts = config.sweep.skipping
    ? createSkippingParts({
        ...{ live, client, deployments, kluctl, readIdentity, sources, secrets, metrics, clock, log },
      })
    : undefined;
  const reconcile = createReconcile({
    deployments,
    secrets,
    sources,
    kluctl,
    overrides: sourceOverrides?.overrides,
    objects,
    leases,
    results,
    clusterId: () => client.clusterId(),
    lastMove: (repo) => queue.lastMove(repo),
    markMoved: (repo) => queue.markMoved(repo),
    readIdentity,
    settings: {
      get dryRun() {
        return live.now.dryRun;
      },
      get pruneGuard() {
        return pruneGuardOf(live.now);
      },
    },
    enqueue: (requests) => queue.enqueue(requests),
    retryAt: (deployment) => retries.nextAt(deployment),
    parts: skippingParts?.parts ?? parts,
    clock,
    newId: newOurId,
    log,
    audit: ({ deployment, ...change }) =>
      auditLog.info({ ...deployment, ...change }, `${change.action} ${change.result}`),
    observe: {
      pushToApplied: (seconds) => metrics.pushApplied(seconds),
      pushToLive: (seconds) => metrics.stages.pushLive(seconds),
      pruned: (deployment, seconds) => deploymentMetrics.pruned(deployment, seconds),
    },
  });
  const leadership = (begun.leadership = startLeadership({
    client,
    namespace: config.controllerNamespace,
    how: config.leaderElection,
    identity,
    log,
  }));
  let lost = false;
  metrics.outside.leads(false);
  void leadership.lost.then(() => {
    lost = true;
    metrics.outside.leads(false);
  });
  const working = leadership.won.then((won) => {
    if (!won || stopping.since !== undefined) return;
    metrics.outside.leads(true);
    begun.work = startWork({
      live,
      reconcile,
      retries,
      skippingParts,
      turn: () => wayIn.turn(),
      mayBegin: () => leadership.mayBegin(),
      deployments,
      secrets,
      readIdentity,
      sources,
      kluctl,
      results,
      forges,
      speaksFor,
      queue,
      reports,
      consumer,
      fairness,
      clusterId: () => client.clusterId(),
      isolation,
      kubernetesVersion: () => readKubernetesVersion(client),
      metrics,
      deploymentMetrics,
      tracing,
      audit: (line) => auditLog.info(line, line.action),
      clock,
      log,
    });
  });
  const stopRemoving = startRemovingMirrors(sources, log);
  const tell = createServerEvents({
    client,
    namespace: config.controllerNamespace,
    component: config.controllerName,
    identity,
    log,
  });
  const stopReloading = reading && startReload({ live, reading, metrics, tell, log });
  metrics.built({ version, commit, node });
  kluctl.version().then(
    (found) => log.info({ version: found }, "kluctl available"),
    (error: unknown) => log.error({ error: (error as Error).message }, "kluctl not available"),
  );
  void checkLogins(config.forges, log);
  const { webhooksPort, adminPort, pagePort } = wayIn;
  const [scraped, probed] = [config.metrics.bindAddress?.port, config.probes.bindAddress?.port];
  const ports = {
    webhooks: webhooksPort,
    admin: adminPort,
    metrics: scraped,
    probes: probed,
    ...(config.ui && { page: pagePort }),
  };
  log.info({ ...ports, forges: config.forges.map(({ id }) => id) }, "listening");

  return {
    webhooksPort,
    adminPort,
    pagePort,
    drainMs: () => live.now.shutdown.drainMs,
    lost: leadership.lost,
    async stop() {
      stopping.since = new Date();
      const drainMs = lost ? 0 : live.now.shutdown.drainMs; // another controller may already be working
      log.info({ running: begun.work?.running() ?? 0, drainMs }, "stopping");
      await wayIn.close();
      stopRemoving();
      await stopReloading?.();
      if (begun.work === undefined) {
        await leadership.stop();
        await working;
      }
      await begun.work?.stop(drainMs);
      runner?.stop();
      await tools.stop();
      await sourceOverrides?.stop();
      await leadership.stop(); // only now, because from here on another controller may start
      client.close();
      await Promise.all([queue.close(), deliveries.flush(), logLines.flush()]);
      producer.disconnect();
      consumer.disconnect();
      await privateRedis?.stop();
      await wayIn.stop();
      await stopTracing();
      log.info("stopped");
    },
  };
}

/** The depth of all lanes, or an error: with a partial answer, the other lanes would look empty. */
async function readDepths(queue: Pick<JobQueue, "depth">) {
  return Object.fromEntries(await Promise.all(lanes.map(async (lane) => [lane, { ...(await queue.depth(lane)) }])));
}

/** Reports have no cause of their own: they follow from previews and deployments. */
function causeOf(request: Request): string {
  return "cause" in request ? request.cause : "report";
}

/**
 * Removes mirrors that are no longer used, because repositories and logins change while the server runs. Returns a
 * function that stops it.
 */
function startRemovingMirrors(sources: Pick<GitSources, "sweepStale">, log: Logger): () => void {
  const remove = () => {
    sources.sweepStale().catch((error: unknown) => log.warn({ err: error }, "could not remove old git mirrors"));
  };
  remove();
  const timer = setInterval(remove, 600_000);
  return () => clearInterval(timer);
}
