/** Metrics about the server's dependencies: Kubernetes, forges and configuration files. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { boundLabel, workSeconds } from "./labels.ts";

interface ForgeAllowance {
  readonly remaining: number;
  readonly limit?: number | undefined;
  readonly resetAt?: number | undefined;
}

export interface OutsideMetrics {
  kubernetesAsked(method: string, status: number, seconds: number): void;
  /** A request of ours waited this long for the rate limit. */
  kubernetesHeldBack(seconds: number): void;
  watchRestarted(why: string): void;
  /** Whether this server is the leader. */
  leads(leads: boolean): void;
  /** Which of `properties` are provided to confine previews, and whether forks are rendered in isolation. */
  isolated(properties: readonly string[], provided: Readonly<Record<string, string>>, forks: boolean): void;
  /** The configuration was reloaded. `restart`: a key that is only read at startup has changed. */
  configLoaded(ok: boolean, restart: boolean): void;
  /** `operation`: the method of the Forge port; `result`: `ok`, or the problem. */
  forgeAsked(forge: string, operation: string, result: string, seconds: number): void;
  /** The last rate limit that a forge reported, and when it resets (epoch milliseconds). */
  forgeAllows(forge: string, allowed: ForgeAllowance): void;
  /** The forge is not called until then, epoch milliseconds. */
  forgeRests(forge: string, until: number): void;
  /** The sweep found a push that no webhook reported. */
  webhookMissed(forge: string): void;
  /** A failed delivery was requested again. */
  webhookRepeated(forge: string): void;
  /** Deliveries were recorded for `towline replay`, or dropped because Redis did not store them in time. */
  deliveriesRecorded(result: "stored" | "dropped", count: number): void;
  /** `result`: `sent`, `changed`, or why it was not. */
  notified(target: string, result: string): void;
  /** A request to Flux to fetch a GitRepository ended. */
  fluxRequested(cause: "push" | "sweep", result: string): void;
  /** The sweep listed the branches of a remote. */
  swept(ok: boolean, seconds: number): void;
  /** The sweep found outdated deployments that no webhook had reported. */
  sweepFound(deployments: number): void;
  /** The sweep requested reconciliations of deployments whose interval was due. */
  sweepDue(deployments: number): void;
}

export function createOutsideMetrics(registry: Registry): OutsideMetrics {
  const registers = [registry];
  const [methodLabel, statusLabel, whyLabel, forgeLabel] = [boundLabel(), boundLabel(), boundLabel(), boundLabel()];
  const rests = new Map<string, number>();
  const allowances = new Map<string, ForgeAllowance>();
  const kubernetesRequests = new Counter({
    name: "towline_kubernetes_requests_total",
    help: "Requests to the API server; status 0: no response.",
    labelNames: ["method", "status"],
    registers,
  });
  const webhooksMissed = new Counter({
    name: "towline_webhooks_missed_total",
    help: "Pushes that the sweep found and no webhook of the git host had reported.",
    labelNames: ["forge"],
    registers,
  });
  const webhooksRepeated = new Counter({
    name: "towline_webhooks_repeated_total",
    help: "Failed deliveries that the git host was asked to repeat.",
    labelNames: ["forge"],
    registers,
  });
  const recordings = new Counter({
    name: "towline_recorded_deliveries_total",
    help: "Deliveries recorded for `towline replay`, or dropped because they could not be stored.",
    labelNames: ["result"],
    registers,
  });
  const fluxRequests = new Counter({
    name: "towline_flux_fetch_requests_total",
    help: "Requests to Flux to fetch a GitRepository.",
    labelNames: ["cause", "result"],
    registers,
  });
  const notifications = new Counter({
    name: "towline_notifications_total",
    help: "Messages sent to a target of notifications, changed there, postponed because it did not answer, or refused.",
    labelNames: ["target", "result"],
    registers,
  });
  const kubernetesSeconds = new Histogram({
    name: "towline_kubernetes_request_duration_seconds",
    help: "Response time of the API server.",
    labelNames: ["method"],
    registers,
  });
  const kubernetesHeldBack = new Counter({
    name: "towline_kubernetes_held_back_seconds_total",
    help: "Total time that requests waited for the rate limit before they were sent to the API server.",
    registers,
  });
  const watchRestarts = new Counter({
    name: "towline_watch_restarts_total",
    help: "Restarts of the watch of KluctlDeployments.",
    labelNames: ["why"],
    registers,
  });
  const isolation = new Gauge({
    name: "towline_preview_isolation",
    help: "Whether previews are confined, by property: files, processes, credentials, network.",
    labelNames: ["property"],
    registers,
  });
  const isolatedForks = new Gauge({
    name: "towline_preview_forks_isolated",
    help: "1 while pull requests from forks are rendered in isolation.",
    registers,
  });
  const leader = new Gauge({ name: "towline_leader", help: "1 while this server is the leader.", registers });
  const reloadSuccess = new Gauge({
    name: "towline_config_reload_success",
    help: "1 while the configuration files are valid; 0 while the last valid configuration is in effect.",
    registers,
  });
  const reloadedAt = new Gauge({
    name: "towline_config_reload_last_success_timestamp_seconds",
    help: "Time of the last successful reload of the configuration files.",
    registers,
  });
  const restartNeeded = new Gauge({
    name: "towline_config_restart_needed",
    help: "1 if a configuration key has changed that is only read at startup.",
    registers,
  });
  const forgeRequests = new Counter({
    name: "towline_forge_requests_total",
    help: "Requests to the APIs of git hosts.",
    labelNames: ["forge", "operation", "result"],
    registers,
  });
  const forgeSeconds = new Histogram({
    name: "towline_forge_request_duration_seconds",
    help: "Response time of the APIs of git hosts.",
    labelNames: ["forge"],
    buckets: workSeconds,
    registers,
  });
  new Gauge({
    name: "towline_forge_rate_limit_remaining",
    help: "Requests left in the git host's rate limit, as last reported.",
    labelNames: ["forge"],
    registers,
    collect() {
      // A value from a past period is outdated, and a server that sends no requests would report it forever.
      this.reset();
      for (const [forge, { remaining, resetAt = Infinity }] of allowances)
        if (Date.now() < resetAt) this.set({ forge }, remaining);
    },
  });
  const limits = new Gauge({
    name: "towline_forge_rate_limit",
    help: "Rate limit of the git host, in requests per period.",
    labelNames: ["forge"],
    registers,
  });
  new Gauge({
    name: "towline_forge_rate_limit_wait_seconds",
    help: "Time until the git host accepts requests again.",
    labelNames: ["forge"],
    registers,
    collect() {
      for (const [forge, until] of rests) this.set({ forge }, Math.max(0, until - Date.now()) / 1_000);
    },
  });
  const looks = new Counter({
    name: "towline_sweep_queries_total",
    help: "Remotes that the sweep checked for new commits.",
    labelNames: ["result"],
    registers,
  });
  const lookSeconds = new Histogram({
    name: "towline_sweep_query_duration_seconds",
    help: "Time that the sweep waited for a remote.",
    buckets: workSeconds,
    registers,
  });
  const found = new Counter({
    name: "towline_sweep_found_total",
    help: "Deployments that the sweep found behind their branch without a webhook.",
    registers,
  });
  const due = new Counter({
    name: "towline_sweep_due_total",
    help: "Reconciliations requested by the sweep because an interval was over or a reconciliation was not finished.",
    registers,
  });

  return {
    kubernetesAsked(method, status, seconds) {
      kubernetesRequests.inc({ method: methodLabel(method), status: statusLabel(String(status)) });
      kubernetesSeconds.observe({ method: methodLabel(method) }, seconds);
    },
    kubernetesHeldBack: (seconds) => kubernetesHeldBack.inc(seconds),
    watchRestarted: (why) => watchRestarts.inc({ why: whyLabel(why) }),
    leads: (leads) => leader.set(leads ? 1 : 0),
    isolated(properties, provided, forks) {
      for (const property of properties) isolation.set({ property }, property in provided ? 1 : 0);
      isolatedForks.set(forks ? 1 : 0);
    },
    configLoaded(ok, restart) {
      reloadSuccess.set(ok ? 1 : 0);
      if (ok) reloadedAt.setToCurrentTime();
      restartNeeded.set(restart ? 1 : 0);
    },
    forgeAsked(forge, operation, result, seconds) {
      forgeRequests.inc({ forge: forgeLabel(forge), operation, result });
      forgeSeconds.observe({ forge: forgeLabel(forge) }, seconds);
    },
    forgeAllows(forge, allowed) {
      const { limit } = allowed;
      allowances.set(forgeLabel(forge), allowed);
      if (limit !== undefined) limits.set({ forge: forgeLabel(forge) }, limit);
    },
    forgeRests: (forge, until) => void rests.set(forgeLabel(forge), until),
    webhookMissed: (forge) => webhooksMissed.inc({ forge: forgeLabel(forge) }),
    webhookRepeated: (forge) => webhooksRepeated.inc({ forge: forgeLabel(forge) }),
    deliveriesRecorded: (result, count) => recordings.inc({ result }, count),
    notified: (target, result) => notifications.inc({ target, result }),
    fluxRequested: (cause, result) => fluxRequests.inc({ cause, result }),
    swept(ok, seconds) {
      looks.inc({ result: ok ? "ok" : "failed" });
      lookSeconds.observe(seconds);
    },
    sweepFound: (deployments) => found.inc(deployments),
    sweepDue: (deployments) => due.inc(deployments),
  };
}
