/** The Prometheus metrics. Every label has a bounded number of values, whatever external input arrives. */
import { collectDefaultMetrics, Counter, Gauge, Histogram } from "prom-client";
import { boundLabel, intakeSeconds, workSeconds } from "./metrics/labels.ts";
import { createOutsideMetrics, type OutsideMetrics } from "./metrics/outside.ts";
import { createStageMetrics, type StageMetrics } from "./metrics/stages.ts";
import { TextRegistry } from "./metrics/text-metrics.ts";

/** What is read at each scrape. */
export interface Scraped {
  /** The number of jobs by lane and state, read at every scrape: it must resolve or fail within the scrape timeout. */
  readonly readQueue?: (() => Promise<Readonly<Record<string, Readonly<Record<string, number>>>>>) | undefined;
  /** Seconds since the last complete sweep. */
  readonly sweepAge?: (() => number) | undefined;
  /** Seconds since the API server last sent an event on the watch. */
  readonly watchAge?: (() => number) | undefined;
}

export interface Metrics {
  readonly registry: TextRegistry;
  /** Adds values that are read at each scrape. */
  scrape(more: Scraped): void;
  /** The stages from a delivery until its commit is live. */
  readonly stages: StageMetrics;
  /** External dependencies: the API server, git hosts, git, and leadership. */
  readonly outside: OutsideMetrics;
  webhookAnswered(forge: string, event: string, result: string, seconds: number): void;
  jobWaited(lane: string, seconds: number): void;
  reconciled(result: string, seconds: number): void;
  kluctlStarted(command: string): void;
  /** `result`: how the process ended, see kluctl.ts. */
  kluctlRan(command: string, result: string, seconds: number): void;
  rendererStarted(start: "warm" | "cold" | "fallback"): void;
  gitRan(operation: string, ok: boolean, seconds: number): void;
  previewed(result: string, seconds: number): void;
  /** `what` is `report` (a pull request's comment and statuses) or `commit-status`. */
  reported(what: string, result: string, seconds: number): void;
  /** From a delivery's arrival until its change was applied. */
  pushApplied(seconds: number): void;
  leaseLost(): void;
  redisUp(up: boolean): void;
  built(info: Readonly<Record<"version" | "commit" | "node", string>>): void;
}

// Event names of hosts and our own; senders may use any others.
const knownEvents = new Set(
  (
    "push ping pull-request irrelevant create delete pull_request merge_request tag_push pull_request_sync " +
    "check_run check_suite issue_comment installation note release repository system_hook workflow_run"
  ).split(" "),
);

/**
 * The sampling interval of the event loop's delay in milliseconds; each measured value includes it. Sampling every 10
 * ms, the library's default, takes 0.5 % of a core while idle; at this interval it takes 0.1 %.
 */
export const eventLoopLookMs = 50;

export function createMetrics(first: Scraped = {}): Metrics {
  let scraped = first;
  const registry = new TextRegistry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: eventLoopLookMs });
  const [forgeLabel, resultLabel, commandLabel] = [boundLabel(), boundLabel(), boundLabel()];

  const webhooks = new Counter({
    name: "towline_webhook_requests_total",
    help: "Webhook deliveries received.",
    labelNames: ["forge", "event", "result"],
    registers,
  });
  const webhookSeconds = new Histogram({
    name: "towline_webhook_duration_seconds",
    help: "Time from a delivery's arrival to the response.",
    buckets: intakeSeconds,
    registers,
  });
  new Gauge({
    name: "towline_queue_jobs",
    help: "Jobs in the queue.",
    labelNames: ["lane", "state"],
    registers,
    async collect() {
      this.reset(); // no value rather than an outdated one
      const jobs = await scraped.readQueue?.().catch(() => undefined);
      for (const [lane, states] of Object.entries(jobs ?? {})) {
        for (const [state, count] of Object.entries(states)) this.set({ lane, state }, count);
      }
    },
  });
  const queueWait = new Histogram({
    name: "towline_queue_wait_seconds",
    help: "Time from a request's arrival in the queue to the start of its job.",
    labelNames: ["lane"],
    buckets: [...intakeSeconds, 5, 10, 30, 60, 300],
    registers,
  });
  const reconciles = new Counter({
    name: "towline_reconcile_total",
    help: "Reconciliations of deployments.",
    labelNames: ["result"],
    registers,
  });
  const reconcileSeconds = new Histogram({
    name: "towline_reconcile_duration_seconds",
    help: "Duration of one reconciliation.",
    buckets: workSeconds,
    registers,
  });
  const previews = new Counter({
    name: "towline_preview_total",
    help: "Pull requests previewed.",
    labelNames: ["result"],
    registers,
  });
  const previewSeconds = new Histogram({
    name: "towline_preview_duration_seconds",
    help: "Duration of the preview of one pull request, with all its deployments.",
    buckets: workSeconds,
    registers,
  });
  const forgeReports = new Counter({
    name: "towline_forge_reports_total",
    help: "Reports to forges: comments and statuses of pull requests, statuses of pushed commits.",
    labelNames: ["what", "result"],
    registers,
  });
  const forgeReportSeconds = new Histogram({
    name: "towline_forge_report_seconds",
    help: "Duration of one report to a forge.",
    labelNames: ["what"],
    buckets: workSeconds,
    registers,
  });
  const kluctlRuns = new Counter({
    name: "towline_kluctl_runs_total",
    help: "kluctl processes that have ended.",
    labelNames: ["command", "result"],
    registers,
  });
  const kluctlRunning = new Gauge({
    name: "towline_kluctl_running",
    help: "kluctl processes running now.",
    labelNames: ["command"],
    registers,
  });
  const kluctlSeconds = new Histogram({
    name: "towline_kluctl_run_seconds",
    help: "Duration of a kluctl process.",
    labelNames: ["command"],
    buckets: workSeconds,
    registers,
  });
  const rendererStarts = new Counter({
    name: "towline_kluctl_renderers_total",
    help: "kluctl runs with warm and with cold renderers; fallback: cold although they should have been warm.",
    labelNames: ["start"],
    registers,
  });
  const gitSeconds = new Histogram({
    name: "towline_git_seconds",
    help: "Duration of git commands: ls-remote, fetch, clone.",
    labelNames: ["operation", "result"],
    buckets: workSeconds,
    registers,
  });
  const pushToApplied = new Histogram({
    name: "towline_push_to_applied_seconds",
    help: "Time from a push's delivery to its change in the cluster.",
    buckets: workSeconds,
    registers,
  });
  const leasesLost = new Counter({
    name: "towline_lease_lost_total",
    help: "Leases that could not be renewed in time, so that kluctl was stopped.",
    registers,
  });
  const redis = new Gauge({ name: "towline_redis_up", help: "1 while Redis responds.", registers });
  const buildInfo = new Gauge({
    name: "towline_build_info",
    help: "Version information, as labels; the value is always 1.",
    labelNames: ["version", "commit", "node"],
    registers,
  });

  function age(name: string, help: string, value: "sweepAge" | "watchAge"): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        const read = scraped[value];
        if (read) this.set(read());
      },
    });
  }
  age("towline_sweep_age_seconds", "Time since the last completed sweep.", "sweepAge");
  age("towline_watch_age_seconds", "Time since the API server last sent an event on the watch.", "watchAge");

  return {
    registry,
    scrape: (more) => void (scraped = { ...scraped, ...more }),
    stages: createStageMetrics(registry),
    outside: createOutsideMetrics(registry),
    webhookAnswered(forge, event, result, seconds) {
      const name = knownEvents.has(event) ? event : "other";
      webhooks.inc({ forge: forgeLabel(forge), event: name, result: resultLabel(result) });
      webhookSeconds.observe(seconds);
    },
    jobWaited: (lane, seconds) => queueWait.observe({ lane }, seconds),
    reconciled(result, seconds) {
      reconciles.inc({ result: resultLabel(result) });
      reconcileSeconds.observe(seconds);
    },
    previewed(result, seconds) {
      previews.inc({ result: resultLabel(result) });
      previewSeconds.observe(seconds);
    },
    reported(what, result, seconds) {
      forgeReports.inc({ what, result: resultLabel(result) });
      forgeReportSeconds.observe({ what }, seconds);
    },
    kluctlStarted: (command) => kluctlRunning.inc({ command: commandLabel(command) }),
    kluctlRan(command, result, seconds) {
      kluctlRunning.dec({ command: commandLabel(command) });
      kluctlRuns.inc({ command: commandLabel(command), result: resultLabel(result) });
      kluctlSeconds.observe({ command: commandLabel(command) }, seconds);
    },
    rendererStarted: (start) => rendererStarts.inc({ start }),
    gitRan(operation, ok, seconds) {
      gitSeconds.observe({ operation: commandLabel(operation), result: ok ? "ok" : "failed" }, seconds);
    },
    pushApplied: (seconds) => pushToApplied.observe(seconds),
    leaseLost: () => leasesLost.inc(),
    redisUp: (up) => redis.set(up ? 1 : 0),
    built(info) {
      buildInfo.reset();
      buildInfo.set(info, 1);
    },
  };
}
