/** Builds the house from a Config: what is made here is all there is, and nobody else makes anything. */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { join } from "node:path";
import { connectProducer, connectWorker } from "../jobs/connection.ts";
import { createDeliveries } from "../jobs/deliveries.ts";
import { createFairness } from "../jobs/fairness.ts";
import { laneOf, lanes } from "../jobs/lanes.ts";
import { createLogLines } from "../jobs/log-lines.ts";
import { createQueue, type JobQueue } from "../jobs/queue.ts";
import { createReports } from "../jobs/reports.ts";
import { createDataDir } from "./app/data-dir.ts";
import { pruneGuardOf } from "./app/prune-guard.ts";
import { createLiveAudit } from "./app/live-audit.ts";
import { checkLogins, openLiveForges } from "./app/live-forges.ts";
import { createLiveKluctl } from "./app/live-kluctl.ts";
import { createLiveResults } from "./app/live-results.ts";
import { findRedis, watchRedis } from "./app/redis.ts";
import {
  createInStage,
  stagedKluctl,
  stagedObjects,
  stagedResults,
  stagedSources,
  stagedStatus,
} from "./app/stages.ts";
import { startReload } from "./app/reload.ts";
import { createSkippingParts } from "./app/skipping.ts";
import { openSourceOverrides } from "./app/source-overrides.ts";
import { startTracing } from "./app/tracing-sdk.ts";
import { startWayIn, type WayIn } from "./app/way-in.ts";
import { startWork, type StartedWork } from "./app/work.ts";
import { type Config, secretValues } from "./config.ts";
import { createLiveConfig } from "./config/live.ts";
import { createKluctl } from "./kluctl/kluctl.ts";
import { createImpersonationCheck } from "./kube/impersonation.ts";
import { createKubeClient } from "./kube/client.ts";
import { createBothDeployments } from "./kube/both-deployments.ts";
import { createDeployments } from "./kube/deployments.ts";
import { createLegacyDeployments } from "./kube/legacy/deployments.ts";
import { startLeadership, type Leadership } from "./kube/leader.ts";
import { createLeases } from "./kube/lease.ts";
import { createObjects } from "./kube/objects.ts";
import { toRemoteCluster } from "./kube/remote-cluster.ts";
import { createResults } from "./kube/result-store.ts";
import { createSecrets } from "./kube/secrets.ts";
import { createServerEvents } from "./kube/server-events.ts";
import { createServiceAccounts } from "./kube/service-accounts.ts";
import { createLogger, createSecretList, type Logger } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics.ts";
import { createDeploymentMetrics } from "./metrics/deployments.ts";
import type { Request } from "./model.ts";
import type { Leases } from "./ports.ts";
import { createReadIdentity } from "./reconcile/identity.ts";
import { createReconcile } from "./reconcile/reconcile.ts";
import { createRetries } from "./reconcile/retries.ts";
import { startGitThread } from "./source/git-thread.ts";
import { createSources, gitHome, type GitSources } from "./source/sources.ts";
import type { Reading } from "./cli/commands.ts";
import { readVersion } from "./cli/version.ts";

export interface App extends Pick<WayIn, "webhooksPort" | "adminPort" | "pagePort"> {
  /** How long running deployments may go on when it is stopped. */
  drainMs(): number;
  /** Resolves with the reason when another controller has taken over, and this one has to end. */
  readonly lost: Promise<string>;
  /** Stops along the flow: no new deliveries, then no new jobs, then what they used. Nothing is lost. */
  stop(): Promise<void>;
}

/**
 * Resolves once it listens. What it needs from outside may come later: until then it is not ready, and says why.
 * Throws what only a person can mend: a port in use, a directory that cannot be written, no Redis to start.
 */
export async function startApp(config: Config, log: Logger, reading?: Reading): Promise<App> {
  const clock = { now: () => Date.now() };
  const live = createLiveConfig(config);
  await createDataDir(config.dataDir);
  const { version, commit = "unknown", node } = readVersion();
  const { tracing, stop: stopTracing } = await startTracing(process.env, { version, log });
  const client = createKubeClient({
    ...config.kubernetes,
    mostPerSecond: () => live.now.kubernetes.requestsPerSecond,
    observe: {
      request: (...asked) => metrics.outside.kubernetesAsked(...asked),
      heldBack: (seconds) => metrics.outside.kubernetesHeldBack(seconds),
    },
  });
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
  const secretList = reading?.secrets ?? createSecretList(secretValues(config));
  // What only begins once the ports are open; they may ask for it before
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

  // The cluster
  const { namespaces } = config.kubernetes;
  const watched = { client, namespaces, controllerName: config.controllerName, log };
  const secrets = createSecrets({
    client,
    get readAs() {
      return live.now.kubernetes.readSecretsAs;
    },
    get defaultServiceAccount() {
      return live.now.defaultServiceAccount;
    },
  });
  const newer = createDeployments({
    ...watched,
    observe: { restarted: (why) => metrics.outside.watchRestarted(why) },
  });
  const older = createLegacyDeployments({ ...watched, secrets, hasTwin: (key) => newer.find(key) !== undefined });
  const inStage = createInStage(metrics.stages, tracing);
  const deployments = stagedStatus(createBothDeployments({ newer, older, log }), inStage);
  deployments.onChange(({ kind, deployment }) => {
    if (kind === "removed") deploymentMetrics.gone(deployment.key);
  });
  const readIdentity = createReadIdentity({
    secrets,
    serviceAccounts: createServiceAccounts({ client }),
    refusedToActAs: createImpersonationCheck({ client }),
    toRemoteCluster: (kubeconfig, impersonate) =>
      toRemoteCluster(kubeconfig, { impersonate, allowUnsafe: live.now.kubernetes.allowUnsafeKubeconfigs }),
    get defaultServiceAccount() {
      return live.now.defaultServiceAccount;
    },
  });
  const { namespace } = config.results;
  const stored = createResults({
    client,
    namespace,
    get keepCommandResults() {
      return live.now.results.keepCommands;
    },
    get keepValidateResults() {
      return live.now.results.keepValidates;
    },
    log,
  });
  const results = createLiveResults(live, stagedResults(stored, inStage));
  const identity = `${hostname()}-${process.pid}`;
  const leases = observed(createLeases({ client, identity, durationMs: config.lease.durationMs, log }), metrics);

  // git and kluctl
  const cacheDir = join(config.dataDir, "git");
  const gitThread = startGitThread({ home: gitHome(cacheDir), env: process.env });
  const sources = stagedSources(
    createSources({
      cacheDir,
      git: gitThread.git,
      log,
      env: process.env,
      limits: {
        get callMs() {
          return live.now.git.timeoutMs;
        },
      },
      observe: {
        lsRemote: (seconds, ok) => metrics.gitRan("ls-remote", ok, seconds),
        fetch: (seconds, ok) => metrics.gitRan("fetch", ok, seconds),
        checkout: (seconds) => metrics.gitRan("checkout", true, seconds),
      },
    }),
    inStage,
  );
  const kubeconfigFor = (impersonate?: string) => client.kubeconfig(impersonate);
  const createKluctlOf = ({ path = "kluctl", cacheDir, unpackedDir, systemPython, warm }: Config["kluctl"]) =>
    createKluctl({
      binary: path,
      cacheDir: cacheDir ?? join(config.dataDir, "kluctl-cache"),
      unpackedDir,
      workDir: join(config.dataDir, "kluctl-work"),
      kubeconfigFor,
      env: process.env,
      log,
      limits: { leaseSilenceMs: (config.lease.durationMs * 2) / 3 },
      systemPython,
      warm,
      tell(deployment, line) {
        if (live.now.ui) logLines.tell(deployment, { ...line, text: secretList.scrub(line.text) });
      },
      observe: {
        started: (command) => metrics.kluctlStarted(command),
        ran(command, seconds, how, deployment) {
          metrics.kluctlRan(command, how, seconds);
          deploymentMetrics.kluctlRan(deployment, command, seconds);
        },
        rendererStarted: (start) => metrics.rendererStarted(start),
      },
    });
  const kluctl = stagedKluctl(createLiveKluctl(live, createKluctlOf, log), inStage);

  const { forges, webhookSources } = await openLiveForges(live, { metrics, clock, log });

  const auditLog = createLiveAudit(live, {
    log,
    loggerFor: (destination) => createLogger({ level: "info", format: "json", secrets: secretList, destination }),
  });

  // Before any work begins: a port that is in use shall not break off a deploy
  const stopping = { since: undefined as Date | undefined };
  const wayIn = await startWayIn({
    live,
    deployments,
    client,
    forges,
    webhookSources,
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
    },
    metrics,
    tracing,
    clock,
    log,
  });

  const sourceOverrides = await openSourceOverrides(config, { client, log });

  // The work
  const retries = createRetries(clock);
  const skippingParts = createSkippingParts({ live, client, deployments, sources, secrets, metrics, clock, log });
  const reconcile = createReconcile({
    deployments,
    secrets,
    sources,
    kluctl,
    overrides: sourceOverrides?.overrides,
    objects: stagedObjects(createObjects({ kubeconfigFor }), inStage),
    leases,
    results,
    clusterId: () => client.clusterId(),
    lastMove: (repo) => queue.lastMove(repo),
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
    skipping: skippingParts.skipping,
    clock,
    newId: randomUUID,
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
      deployments,
      secrets,
      readIdentity,
      sources,
      kluctl,
      results,
      forges,
      queue,
      reports,
      consumer,
      fairness,
      clusterId: () => client.clusterId(),
      metrics,
      deploymentMetrics,
      tracing,
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
    (found) => log.info({ version: found }, "kluctl is there"),
    (error: unknown) => log.error({ error: (error as Error).message }, "kluctl cannot be used"),
  );
  void checkLogins(config.forges, log);
  const { webhooksPort, adminPort, pagePort } = wayIn;
  const ports = { webhooks: webhooksPort, admin: adminPort, ...(config.ui && { page: pagePort }) };
  log.info({ ...ports, forges: config.forges.map(({ id }) => id) }, "listening");

  return {
    get webhooksPort() {
      return wayIn.webhooksPort;
    },
    adminPort,
    get pagePort() {
      return wayIn.pagePort;
    },
    drainMs: () => live.now.shutdown.drainMs,
    lost: leadership.lost,
    async stop() {
      stopping.since = new Date();
      const drainMs = lost ? 0 : live.now.shutdown.drainMs; // somebody else may be at work already
      log.info({ running: begun.work?.running() ?? 0, drainMs }, "stopping");
      await wayIn.close();
      stopRemoving();
      await stopReloading?.();
      if (begun.work === undefined) {
        await leadership.stop();
        await working;
      }
      await begun.work?.stop(drainMs);
      await kluctl.stop();
      await gitThread.stop();
      await sourceOverrides?.stop();
      await leadership.stop(); // not before: now somebody else may begin
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

/** Of all lanes, or an error: half an answer would look as if the other half were empty. */
async function readDepths(queue: Pick<JobQueue, "depth">) {
  return Object.fromEntries(await Promise.all(lanes.map(async (lane) => [lane, { ...(await queue.depth(lane)) }])));
}

/** Reports have none: they follow from previews and deployments. */
function causeOf(request: Request): string {
  return "cause" in request ? request.cause : "report";
}

/** Repositories and their logins come and go while the server runs. Returns how to stop. */
function startRemovingMirrors(sources: Pick<GitSources, "sweepStale">, log: Logger): () => void {
  const remove = () => {
    sources.sweepStale().catch((error: unknown) => log.warn({ err: error }, "could not remove old git mirrors"));
  };
  remove();
  const timer = setInterval(remove, 600_000);
  return () => clearInterval(timer);
}

function observed(leases: Leases, metrics: Metrics): Leases {
  return {
    async hold(key, owner) {
      const held = await leases.hold(key, owner);
      held?.lost.addEventListener("abort", () => metrics.leaseLost(), { once: true });
      return held;
    },
  };
}
