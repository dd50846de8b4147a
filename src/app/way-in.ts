/** The server's ports: webhooks and their intake, probes and metrics, and the page. */
import type { Deliveries } from "../redis/deliveries.ts";
import type { PullRequestReports } from "../redis/reports.ts";
import type { JobQueue } from "../../jobs/queue.ts";
import { createWebhookApp } from "../../routes/webhooks.ts";
import { knownSecrets } from "../config.ts";
import { same } from "../config/compare.ts";
import type { LiveConfig } from "../config/live.ts";
import { createNetworks } from "../config/network.ts";
import type { SpeaksFor } from "../forge/forge-hosts.ts";
import type { WebhookSource } from "../forge/webhook-source.ts";
import { createIntake } from "../intake/intake.ts";
import type { WatchedDeployments } from "../apis/kluctl/deployments.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Clock, Forge } from "../ports.ts";
import type { Tracing } from "../log/tracing.ts";
import { readVersion } from "../cli/version.ts";
import { startAdminListeners } from "./admin-listeners.ts";
import { type ChecksDeps, createChecks } from "./checks.ts";
import { startListener } from "./listener.ts";
import { type PageDeps, startPage } from "./page.ts";
import { tracedAccept, tracedQueue } from "./traced.ts";
import { createWebhooksFirst } from "./webhooks-first.ts";

export interface WayInDeps extends Omit<
  PageDeps,
  "resultsNamespace" | "forges" | "deliveries" | "accept" | "knownSecrets"
> {
  readonly live: LiveConfig;
  readonly deployments: WatchedDeployments;
  /** The forges with a login for their API. */
  readonly forges: ReadonlyMap<string, Forge>;
  /** By forge id. */
  readonly webhookSources: ReadonlyMap<string, WebhookSource>;
  readonly speaksFor: SpeaksFor;
  readonly queue: JobQueue;
  readonly reports: PullRequestReports;
  readonly deliveries: Pick<Deliveries, "record" | "latest" | "event">;
  /** The dependencies of the readiness checks that are not known here. */
  readonly checked: Omit<ChecksDeps, "deployments" | "lastDelivery" | "previews" | "clock">;
  readonly metrics: Metrics;
  readonly tracing: Tracing;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface WayIn {
  /** Absent without a forge: nothing could send webhooks. */
  readonly webhooksPort?: number | undefined;
  readonly adminPort?: number | undefined;
  /** Absent if the page is disabled. */
  readonly pagePort?: number | undefined;
  /** Resolves when the webhooks leave capacity for other work. */
  turn(): Promise<void>;
  /** Closes webhooks and page; probes and metrics still respond. */
  close(): Promise<void>;
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
export async function startWayIn(deps: WayInDeps): Promise<WayIn> {
  const {
    live,
    deployments,
    forges,
    webhookSources,
    speaksFor,
    queue,
    reports,
    deliveries,
    metrics,
    tracing,
    clock,
    log,
  } = deps;
  const intake = createIntake({
    tracking: (repo) => deployments.tracking(repo),
    queue: tracedQueue(queue, tracing),
    forges,
    speaksFor,
    reports: () => (live.now.preview.enabled ? reports : undefined),
    log,
    clock,
    onTaken(forge, { matched, previews = 0 }) {
      metrics.stages.delivered(forge, clock.now());
      metrics.stages.matched(forge, "deployment", matched);
      metrics.stages.matched(forge, "pull-request", previews);
    },
  });
  const { accept, turn } = createWebhooksFirst(tracedAccept(intake, tracing));
  const lastDelivery = new Map<string, number>();

  const config = live.now;
  const isProxy = createNetworks(config.webhooks.proxyAddresses);
  const receive = createWebhookApp({
    sources: webhookSources,
    accept,
    maxBodyBytes: config.webhooks.maxBodyBytes,
    isProxy,
    log,
    remember: (delivery) => deliveries.record(delivery),
    tracing,
    observe: {
      delivery(forge, event, status, seconds) {
        metrics.webhookAnswered(forge, event, String(status), seconds);
        if (status === 202) lastDelivery.set(forge, clock.now());
      },
    },
  });
  const onFull = (closed: number) => log.warn({ closed }, "too many webhook connections: oldest closed");
  const webhooks =
    config.forges.length > 0
      ? await startListener(
          (req, res) => void receive(req, res),
          { ...config.webhooks, purpose: "webhooks", variable: "TOWLINE_WEBHOOKS" },
          { ...webhookLimits, connections: { ...mostConnections, isProxy, onFull } },
        )
      : undefined;

  const checks = createChecks({
    ...deps.checked,
    ...{ deployments, lastDelivery, clock },
    previews: () => live.now.preview.enabled && forges.size > 0,
  });
  const adminListeners = await startAdminListeners(config, {
    checks,
    metrics: metrics.registry,
    version: readVersion,
  });

  const page =
    config.ui &&
    (await startPage(config.ui, {
      ...deps,
      accept,
      resultsNamespace: config.results.namespace,
      forges: () => live.now.forges,
      knownSecrets: () => knownSecrets(live.now),
    }));
  live.onChange((next, previous) => {
    if (next.ui && !same(next.ui, previous.ui)) page?.replace(next.ui);
  });

  return {
    webhooksPort: webhooks?.port,
    adminPort: adminListeners.port,
    pagePort: page?.port,
    turn,
    close: async () => void (await Promise.all([webhooks?.stop(2_000), page?.stop(1_000)])),
    stop: () => adminListeners.stop(1_000),
  };
}
