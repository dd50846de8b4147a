/** Rate, errors and duration of each stage, from a delivery to a live commit. */
import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { boundLabel, workSeconds } from "./labels.ts";

export interface StageMetrics {
  /** A genuine delivery was accepted at this time (epoch milliseconds). */
  delivered(forge: string, at: number): void;
  /** How many deployments, pull requests to preview, or sources of Flux a delivery affects. */
  matched(forge: string, what: "deployment" | "pull-request" | "flux-source", count: number): void;
  /** `joined`: a job for the same subject was already waiting, and no new one was created. */
  enqueued(lane: string, cause: string, result: "queued" | "joined"): void;
  queueFailed(): void;
  staged(stage: string, result: "ok" | "failed", seconds: number): void;
  /** Time from a push's delivery until its commit is Ready. */
  pushLive(seconds: number): void;
}

export function createStageMetrics(registry: Registry): StageMetrics {
  const registers = [registry];
  const [forgeLabel, stageLabel] = [boundLabel(), boundLabel()];
  const lastDelivery = new Gauge({
    name: "towline_webhook_last_delivery_timestamp_seconds",
    help: "Time of the last verified delivery.",
    labelNames: ["forge"],
    registers,
  });
  const matches = new Counter({
    name: "towline_webhook_matched_total",
    help: "Deployments, pull requests and Flux's GitRepositories affected by deliveries.",
    labelNames: ["forge", "what"],
    registers,
  });
  const requests = new Counter({
    name: "towline_queue_requests_total",
    help: "Requests added to the queue; joined: a job for the same subject was already waiting.",
    labelNames: ["lane", "cause", "result"],
    registers,
  });
  const queueErrors = new Counter({
    name: "towline_queue_errors_total",
    help: "Redis commands that were not answered in time.",
    registers,
  });
  const stageSeconds = new Histogram({
    name: "towline_stage_duration_seconds",
    help: "Duration of one stage of a reconciliation.",
    labelNames: ["stage", "result"],
    buckets: workSeconds,
    registers,
  });
  const pushToLive = new Histogram({
    name: "towline_push_to_live_seconds",
    help: "Time from a push's delivery until its commit is Ready.",
    buckets: workSeconds,
    registers,
  });

  return {
    delivered: (forge, at) => lastDelivery.set({ forge: forgeLabel(forge) }, at / 1_000),
    matched: (forge, what, count) => matches.inc({ forge: forgeLabel(forge), what }, count),
    enqueued: (lane, cause, result) => requests.inc({ lane, cause, result }),
    queueFailed: () => queueErrors.inc(),
    staged: (stage, result, seconds) => stageSeconds.observe({ stage: stageLabel(stage), result }, seconds),
    pushLive: (seconds) => pushToLive.observe(seconds),
  };
}
