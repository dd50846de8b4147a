/** The second phase of the start: the server's ports. Webhooks and their intake, probes and metrics, the page. */
import { createWebhookApp } from "../../routes/webhooks.ts";
import { knownSecrets } from "../config.ts";
import { same } from "../config/compare.ts";
import { createNetworks } from "../config/network.ts";
import { createOnFluxPush } from "../flux/on-push.ts";
import { createIntake } from "../intake/intake.ts";
import type { Overrides } from "../ports.ts";
import { readVersion } from "../cli/version.ts";
import { startAdminListeners } from "./admin-listeners.ts";
import { createChecks } from "./checks.ts";
import { startFluxWatch } from "./flux.ts";
import type { Infrastructure } from "./infrastructure.ts";
import { forksOf } from "./isolation.ts";
import { startListener } from "./listener.ts";
import { startPage } from "./page.ts";
import { createPullRequestLinks } from "./pull-request-links.ts";
import { openSourceOverrides } from "./source-overrides.ts";
import type { ServerState } from "./state.ts";
import { tracedAccept, tracedQueue } from "./traced.ts";
import { createWebhooksFirst } from "./webhooks-first.ts";
import { whenKnown } from "./when-known.ts";

export interface OpenIntake {
  /** Absent without a forge: nothing could send webhooks. */
  readonly webhooksPort?: number | undefined;
  readonly adminPort?: number | undefined;
  /** Absent if the page is disabled. */
  readonly pagePort?: number | undefined;
  /** Local files of `kluctl gitops` users in place of sources; absent if the service is disabled. */
  readonly overrides?: Overrides | undefined;
  /** Resolves when the webhooks leave capacity for other work. */
  turn(): Promise<void>;
  /** Closes webhooks and page; probes, metrics and source overrides still respond. */
  close(): Promise<void>;
  closeOverrides(): Promise<void>;
  /** Ends the watch of the deployments. */
  stopWatch(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Git hosts wait at most ten seconds for a response, so a delivery never needs longer. Ingresses keep idle connections
 * open for a minute; the server must not close them first, because a delivery may arrive at that moment.
 */
const webhookLimits = { headersMs: 5_000, requestMs: 10_000, lookEveryMs: 1_000, keepAliveMs: 75_000 };
/** An idle connection takes about 10 kB. Behind an ingress, all connections come from one address. */
const mostConnections = { most: 2_048, mostOfOne: 1_024 };

/** Throws if an address is in use or unavailable. */
export async function startIntake(infrastructure: Infrastructure, state: ServerState): Promise<OpenIntake> {
  const { config, live, client, deployments, forges, queue, metrics, tracing, clock, log } = infrastructure;
  const { fluxSources } = infrastructure;
  const fluxWatch = fluxSources && startFluxWatch({ fluxSources, log });
  const reportedByFlux = config.flux.statuses ? fluxSources?.following : undefined;
  const previewedByFlux = config.flux.previews ? fluxSources?.following : undefined;
  const intake = createIntake({
    tracking: (repo) => deployments.tracking(repo),
    including: (repo) => deployments.including(repo),
    onFluxPush:
      fluxSources &&
      createOnFluxPush({ fetched: config.flux.trigger ? fluxSources.following : undefined, reported: reportedByFlux }),
    reportedByFlux,
    previewedByFlux,
    queue: tracedQueue(queue, tracing),
    forges,
    speaksFor: infrastructure.speaksFor,
    reports: () => (live.now.preview.enabled ? infrastructure.reports : undefined),
    written: infrastructure.reports,
    log,
    clock,
    onTaken(forge, { matched, previews = 0, flux }) {
      metrics.stages.delivered(forge, clock.now());
      metrics.stages.matched(forge, "deployment", matched);
      metrics.stages.matched(forge, "pull-request", previews);
      metrics.stages.matched(forge, "flux-source", flux?.matched ?? 0);
    },
  });
  // Each server that takes deliveries has to know the deployments, whether or not it is the leader.
  const watching = deployments
    .start(() => state.work !== undefined)
    .then(
      () => log.info({ deployments: deployments.all().length }, "watching KluctlDeployments"),
      (error: unknown) => log.error({ err: error }, "could not start the watch"),
    );
  const { accept, turn } = createWebhooksFirst(tracedAccept(whenKnown(intake, deployments), tracing));
  const lastDelivery = new Map<string, number>();

  const isProxy = createNetworks(config.webhooks.proxyAddresses);
  const receive = createWebhookApp({
    sources: infrastructure.webhookSources,
    accept,
    maxBodyBytes: config.webhooks.maxBodyBytes,
    isProxy,
    log,
    remember(delivery) {
      infrastructure.deliveries.record(delivery);
      infrastructure.recorder.record(delivery);
    },
    tracing,
    observe: {
      delivery(forge, event, status, seconds) {
        metrics.webhookAnswered(forge, event, String(status), seconds);
        if (status === 202) lastDelivery.set(forge, clock.now());
      },
    },
  });
  const onFull = (closed: number) => log.warn({ closed }, "too many webhook connections: oldest closed");
  const webhooks = config.forges.some((forge) => forge.webhooks)
    ? await startListener(
        (req, res) => void receive(req, res),
        { ...config.webhooks, purpose: "webhooks", variable: "TOWLINE_WEBHOOKS" },
        { ...webhookLimits, connections: { ...mostConnections, isProxy, onFull } },
      )
    : undefined;

  const { redis, kluctl, isolation, auditLog } = infrastructure;
  const checks = createChecks({
    ...{ deployments, lastDelivery, kluctl, isolation, state, clock },
    checkRedis: () => redis.check(),
    previews: () => live.now.preview.enabled && forges.size > 0,
    forks: () => forksOf(live.now, isolation),
    flux: fluxWatch,
    kustomizations: () => (config.flux.previews ? (infrastructure.fluxRefusal ?? "rendered") : undefined),
  });
  const adminListeners = await startAdminListeners(config, {
    checks,
    metrics: metrics.registry,
    version: readVersion,
  });

  const page =
    config.page &&
    (await startPage(config.page, {
      ...infrastructure,
      accept,
      audit: (write) => auditLog.info(write, `page: ${write.action} ${write.result}`),
      links: createPullRequestLinks({ live, clock }),
      resultsNamespace: config.results.namespace,
      forges: () => live.now.forges,
      targets: () => live.now.notifications.targets,
      knownSecrets: () => knownSecrets(live.now),
    }));
  live.onChange((next, previous) => {
    if (next.page && !same(next.page, previous.page)) page?.replace(next.page);
  });

  const sourceOverrides = await openSourceOverrides(config, { client, log });
  return {
    webhooksPort: webhooks?.port,
    adminPort: adminListeners.port,
    pagePort: page?.port,
    overrides: sourceOverrides?.overrides,
    turn,
    async close() {
      await Promise.all([webhooks?.stop(2_000), page?.stop(1_000)]);
      await fluxWatch?.stop();
    },
    closeOverrides: async () => sourceOverrides?.stop(),
    async stopWatch() {
      await deployments.stop();
      await watching;
    },
    stop: () => adminListeners.stop(1_000),
  };
}
