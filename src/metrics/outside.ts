/** How the server gets along with what it depends on. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { boundLabel, workSeconds } from "./labels.ts";

interface ForgeAllowance {
  readonly remaining: number;
  readonly limit?: number | undefined;
  readonly resetAt?: number | undefined;
}

export interface OutsideMetrics {
  kubernetesAsked(method: string, status: number, seconds: number): void;
  /** A request of ours waited so long for its turn. */
  kubernetesHeldBack(seconds: number): void;
  watchRestarted(why: string): void;
  /** Whether it is this server's turn to work. */
  leads(leads: boolean): void;
  /** In which ways previews are confined, of these, and whether forks are rendered like that. */
  isolated(properties: readonly string[], provided: Readonly<Record<string, string>>, forks: boolean): void;
  /** The configuration was read anew. `restart`: some of it is read at the start only, and has changed. */
  configLoaded(ok: boolean, restart: boolean): void;
  /** `operation`: what of the Forge port; `result`: `ok`, or the problem. */
  forgeAsked(forge: string, operation: string, result: string, seconds: number): void;
  /** What a forge said last of how many requests it still takes, and until when (epoch milliseconds). */
  forgeAllows(forge: string, allowed: ForgeAllowance): void;
  /** It wants to be left alone until then, epoch milliseconds. */
  forgeRests(forge: string, until: number): void;
  /** The sweep asked a remote for its branches. */
  swept(ok: boolean, seconds: number): void;
  /** The sweep found deployments behind of which no webhook had told. */
  sweepFound(deployments: number): void;
  /** The sweep asked for deployments whose interval was due. */
  sweepDue(deployments: number): void;
}

export function createOutsideMetrics(registry: Registry): OutsideMetrics {
  const registers = [registry];
  const [methodLabel, statusLabel, whyLabel, forgeLabel] = [boundLabel(), boundLabel(), boundLabel(), boundLabel()];
  const rests = new Map<string, number>();
  const allowances = new Map<string, ForgeAllowance>();
  const kubernetesRequests = new Counter({
    name: "towline_kubernetes_requests_total",
    help: "Requests to the API server; status 0: no answer.",
    labelNames: ["method", "status"],
    registers,
  });
  const kubernetesSeconds = new Histogram({
    name: "towline_kubernetes_request_duration_seconds",
    help: "How long the API server took for an answer.",
    labelNames: ["method"],
    registers,
  });
  const kubernetesHeldBack = new Counter({
    name: "towline_kubernetes_held_back_seconds_total",
    help: "How long requests waited for their turn before they were sent to the API server, all together.",
    registers,
  });
  const watchRestarts = new Counter({
    name: "towline_watch_restarts_total",
    help: "How often the watch of KluctlDeployments broke and was begun anew.",
    labelNames: ["why"],
    registers,
  });
  const isolation = new Gauge({
    name: "towline_preview_isolation",
    help: "Whether previews are confined, in each way: files, processes, credentials, network.",
    labelNames: ["property"],
    registers,
  });
  const isolatedForks = new Gauge({
    name: "towline_preview_forks_isolated",
    help: "1 while pull requests from forks are rendered in isolation.",
    registers,
  });
  const leader = new Gauge({ name: "towline_leader", help: "1 while it is this server's turn to work.", registers });
  const reloadSuccess = new Gauge({
    name: "towline_config_reload_success",
    help: "1 while the configuration's files can be used; 0 while the last good configuration is in effect.",
    registers,
  });
  const reloadedAt = new Gauge({
    name: "towline_config_reload_last_success_timestamp_seconds",
    help: "When the configuration's files were last read and could be used.",
    registers,
  });
  const restartNeeded = new Gauge({
    name: "towline_config_restart_needed",
    help: "1 if the configuration has changed in what is read at the start only.",
    registers,
  });
  const forgeRequests = new Counter({
    name: "towline_forge_requests_total",
    help: "What was asked of the APIs of git hosts.",
    labelNames: ["forge", "operation", "result"],
    registers,
  });
  const forgeSeconds = new Histogram({
    name: "towline_forge_request_duration_seconds",
    help: "How long git hosts' APIs took.",
    labelNames: ["forge"],
    buckets: workSeconds,
    registers,
  });
  new Gauge({
    name: "towline_forge_rate_limit_remaining",
    help: "How many requests a git host said last that it still takes.",
    labelNames: ["forge"],
    registers,
    collect() {
      // What it said of a period that is over holds no more, and a server that asks nothing would tell it for ever.
      this.reset();
      for (const [forge, { remaining, resetAt = Infinity }] of allowances)
        if (Date.now() < resetAt) this.set({ forge }, remaining);
    },
  });
  const limits = new Gauge({
    name: "towline_forge_rate_limit",
    help: "How many requests a git host takes in one of its periods.",
    labelNames: ["forge"],
    registers,
  });
  new Gauge({
    name: "towline_forge_rate_limit_wait_seconds",
    help: "For how long a git host still wants to be left alone.",
    labelNames: ["forge"],
    registers,
    collect() {
      for (const [forge, until] of rests) this.set({ forge }, Math.max(0, until - Date.now()) / 1_000);
    },
  });
  const looks = new Counter({
    name: "towline_sweep_looks_total",
    help: "Remotes that the sweep asked for their branches.",
    labelNames: ["result"],
    registers,
  });
  const lookSeconds = new Histogram({
    name: "towline_sweep_look_duration_seconds",
    help: "How long the sweep waited for a remote.",
    buckets: workSeconds,
    registers,
  });
  const found = new Counter({
    name: "towline_sweep_found_total",
    help: "Deployments that the sweep found behind their branch, of which no webhook had told.",
    registers,
  });
  const due = new Counter({
    name: "towline_sweep_due_total",
    help: "Deployments that the sweep requested because an interval was over, or nobody had ended a reconciliation.",
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
    swept(ok, seconds) {
      looks.inc({ result: ok ? "ok" : "failed" });
      lookSeconds.observe(seconds);
    },
    sweepFound: (deployments) => found.inc(deployments),
    sweepDue: (deployments) => due.inc(deployments),
  };
}
