/** The first phase of the start: everything that the server talks to. Nothing listens and nothing is done yet. */
import { hostname } from "node:os";
import { join } from "node:path";
import type { Reading } from "../cli/commands.ts";
import { readVersion } from "../cli/version.ts";
import { type Config, knownSecrets } from "../config.ts";
import { createLiveConfig } from "../config/live.ts";
import { epochNow } from "../kit/monotonic.ts";
import { createExplainMissed } from "../intake/explain-missed.ts";
import { createSweepPaces } from "../intake/sweep-pace.ts";
import { createMissedWebhooks } from "../intake/missed-webhooks.ts";
import { createSentNotifications } from "../kube/sent-notifications.ts";
import { createServerEvents } from "../kube/server-events.ts";
import { createLogger, createSecretList, type Logger } from "../log.ts";
import { createAuditLog } from "../log/audit.ts";
import { createMetrics } from "../metrics.ts";
import { createDeploymentMetrics } from "../metrics/deployments.ts";
import type { RepoId } from "../model.ts";
import { createRetries } from "../reconcile/retries.ts";
import { createCluster } from "./cluster.ts";
import { createDataDir } from "./data-dir.ts";
import { findFluxRefusal } from "./flux-refusal.ts";
import { findIsolation } from "./isolation.ts";
import { type LiveForges, openLiveForges } from "./live-forges.ts";
import { unannouncedMs } from "./previews.ts";
import { startReload } from "./reload.ts";
import { findRunner } from "./runner-isolation.ts";
import { showIsolation } from "./show-isolation.ts";
import { createInStage } from "./stages.ts";
import { openStore } from "./store.ts";
import { startTools } from "./tools.ts";
import { startTracing } from "./tracing-sdk.ts";

export type Infrastructure = Awaited<ReturnType<typeof openInfrastructure>>;

/** External systems may be unavailable. Throws for problems that a person has to fix. */
export async function openInfrastructure(config: Config, log: Logger, reading?: Reading) {
  const live = createLiveConfig(config);
  const clock = { now: epochNow };
  const identity = `${hostname()}-${process.pid}`;
  const { version, commit = "unknown", node } = readVersion();
  const secretList = reading?.secrets ?? createSecretList(knownSecrets(config));
  await createDataDir(config.dataDir);
  const { tracing, stop: stopTracing } = await startTracing(process.env, { version, log });
  const metrics = createMetrics();
  metrics.built({ version, commit, node });
  const inStage = createInStage(metrics.stages, tracing);
  const auditLog = createAuditLog({
    ...config.audit,
    log,
    loggerFor: (destination) => createLogger({ level: "info", format: "json", secrets: secretList, destination }),
  });

  const store = await openStore({ live, metrics, log });
  const cluster = createCluster({ live, identity, metrics, inStage, log });
  const { client, deployments } = cluster;
  const deploymentMetrics = createDeploymentMetrics({
    registry: metrics.registry,
    deployments: () => deployments.all(),
    dryRun: () => live.now.dryRun,
    concurrency: () => live.now.concurrency,
  });
  metrics.scrape({ watchAge: () => deployments.age() });
  deployments.onChange(({ kind, deployment }) => {
    if (kind === "removed") deploymentMetrics.gone(deployment.key);
  });

  const runner = findRunner(config, (found) => showIsolation(found, { config, metrics, log }));
  const isolation = runner?.isolation ?? (await findIsolation(config, join(config.dataDir, "kluctl-work")));
  if (runner === undefined) showIsolation(isolation, { config, metrics, log });
  const tools = startTools({
    ...{ live, isolation, dispatch: runner?.dispatch, client, logLines: store.logLines, secretList },
    ...{ metrics, deploymentMetrics, inStage, clock, log },
  });
  const fluxRefusal = await findFluxRefusal(config, tools.fluxRenderer, log);
  const forges = await openLiveForges(live, { metrics, clock, log });
  const explainMissed = createExplainMissed({
    webhooksOf: forges.hostWebhooks,
    repoNameOf: (forge, repo) => forges.forges.get(forge)?.repoName(repo as RepoId),
    ...{ deliveries: store.deliveries, store: store.missedPushes, clock, log },
  });
  const missedWebhooks = createMissedWebhooks({
    senders: () => live.now.forges.filter(({ webhooks }) => webhooks).map(({ id }) => id),
    speaksFor: forges.speaksFor,
    isHostedBy: forges.isHostedBy,
    deliveries: store.deliveries,
    store: store.missedPushes,
    observe: (forge) => metrics.outside.webhookMissed(forge),
    explain: (...missed) => explainMissed.explain(...missed),
    clock,
  });
  const paces = createSweepPaces({
    usualMs: (url) => usualSweepMs(live.now.sweep.intervalMs, forges.hostsOfRepo(url)),
    isAdaptive: () => live.now.sweep.adaptive,
    sendersFor: (url) => forges.hostsOfRepo(url).sending,
    explain: (...missed) => explainMissed.explain(...missed),
    ...{ deliveries: store.deliveries, missedWebhooks, store: store.sweepPaces, clock },
  });
  const { controllerNamespace: namespace, controllerName: component, kubernetes } = config;
  const emitEvent = createServerEvents({ client, namespace, component, identity, log });
  const stopReloading = reading && startReload({ live, reading, metrics, emitEvent, log });

  return {
    ...{ config, live, clock, identity, tracing, metrics, deploymentMetrics, auditLog, isolation, log },
    retries: createRetries(clock),
    sentNotifications: createSentNotifications({ client, namespace, watched: kubernetes.namespaces }),
    ...cluster,
    ...store,
    ...forges,
    ...{ missedWebhooks, paces },
    sources: tools.sources,
    kluctl: tools.kluctl,
    fluxRenderer: tools.fluxRenderer,
    fluxRefusal,
    stopReloading: async () => stopReloading?.(),
    /** Git and kluctl, once nothing uses them. */
    async stopTools(): Promise<void> {
      runner?.stop();
      await tools.stop();
    },
    /** Everything else. */
    async close(): Promise<void> {
      forges.logins.stop();
      client.close();
      await explainMissed.stop();
      await store.close();
    },
    stopTracing,
  };
}

/** A git host that sends no webhooks is asked often, whatever the interval. */
function usualSweepMs(intervalMs: number, { polled }: ReturnType<LiveForges["hostsOfRepo"]>): number {
  return polled.length > 0 ? Math.min(intervalMs, unannouncedMs) : intervalMs;
}
