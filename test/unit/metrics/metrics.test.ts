import { expect, test } from "vitest";
import { createMetrics } from "../../../src/metrics.ts";

test("events are exported under the metric names that dashboards use", async () => {
  const metrics = createMetrics({ readQueue: () => Promise.resolve({ manual: { waiting: 3, active: 1 } }) });
  metrics.webhookAnswered("github", "push", "202", 0.004);
  metrics.jobWaited("manual", 0.1);
  metrics.reconciled("deployed", 1.5);
  metrics.kluctlStarted("diff");
  metrics.kluctlRan("diff", "ok", 0.7);
  metrics.kluctlStarted("deploy");
  metrics.stages.delivered("github", 5_000);
  metrics.stages.matched("github", "deployment", 2);
  metrics.stages.enqueued("reconcile", "push", "joined");
  metrics.stages.queueFailed();
  metrics.stages.staged("source", "failed", 3);
  metrics.stages.pushLive(4);
  metrics.outside.kubernetesAsked("GET", 0, 10);
  metrics.outside.watchRestarted("410");
  metrics.outside.leads(true);
  metrics.outside.configLoaded(false, true);
  metrics.outside.forgeAsked("github", "setStatus", "rate-limited", 0.2);
  metrics.outside.forgeAllows("github", { remaining: 12, limit: 5_000 });
  metrics.outside.forgeRests("github", 0);
  metrics.outside.swept(false, 60);
  metrics.outside.sweepFound(1);
  metrics.outside.sweepDue(3);
  metrics.gitRan("fetch", false, 2);
  metrics.pushApplied(1.9);
  metrics.leaseLost();
  metrics.redisUp(true);
  metrics.built({ version: "1.2.3", commit: "abc", node: "v24" });

  const text = await metrics.registry.metrics();
  for (const line of [
    'towline_webhook_requests_total{forge="github",event="push",result="202"} 1',
    "towline_webhook_duration_seconds_count 1",
    'towline_queue_jobs{lane="manual",state="waiting"} 3',
    'towline_queue_wait_seconds_sum{lane="manual"} 0.1',
    'towline_reconcile_total{result="deployed"} 1',
    "towline_reconcile_duration_seconds_sum 1.5",
    'towline_kluctl_runs_total{command="diff",result="ok"} 1',
    'towline_kluctl_run_seconds_sum{command="diff"} 0.7',
    'towline_kluctl_running{command="diff"} 0',
    'towline_kluctl_running{command="deploy"} 1',
    'towline_webhook_last_delivery_timestamp_seconds{forge="github"} 5',
    'towline_webhook_matched_total{forge="github",what="deployment"} 2',
    'towline_queue_requests_total{lane="reconcile",cause="push",result="joined"} 1',
    "towline_queue_errors_total 1",
    'towline_stage_duration_seconds_sum{stage="source",result="failed"} 3',
    "towline_push_to_live_seconds_sum 4",
    'towline_kubernetes_requests_total{method="GET",status="0"} 1',
    'towline_kubernetes_request_duration_seconds_sum{method="GET"} 10',
    'towline_watch_restarts_total{why="410"} 1',
    "towline_leader 1",
    "towline_config_reload_success 0",
    "towline_config_restart_needed 1",
    'towline_forge_requests_total{forge="github",operation="setStatus",result="rate-limited"} 1',
    'towline_forge_request_duration_seconds_count{forge="github"} 1',
    'towline_forge_rate_limit_remaining{forge="github"} 12',
    'towline_forge_rate_limit{forge="github"} 5000',
    'towline_forge_rate_limit_wait_seconds{forge="github"} 0',
    'towline_sweep_queries_total{result="failed"} 1',
    "towline_sweep_query_duration_seconds_sum 60",
    "towline_sweep_found_total 1",
    "towline_sweep_due_total 3",
    'towline_git_seconds_sum{operation="fetch",result="failed"} 2',
    "towline_push_to_applied_seconds_sum 1.9",
    "towline_lease_lost_total 1",
    "towline_redis_up 1",
    'towline_build_info{version="1.2.3",commit="abc",node="v24"} 1',
  ]) {
    expect(text).toContain(`\n${line}\n`);
  }
  expect(text).toContain("process_resident_memory_bytes");
});

test("senders cannot create labels: all unknown events share one", async () => {
  const metrics = createMetrics();
  for (let i = 0; i < 1_000; i++) metrics.webhookAnswered(`forge-${i}`, `event-${i}`, "202", 0);
  const { values } = (await metrics.registry.getSingleMetric("towline_webhook_requests_total")?.get()) ?? {
    values: [],
  };
  expect(new Set(values.map(({ labels }) => labels["event"]))).toEqual(new Set(["other"]));
  expect(values.length).toBeLessThanOrEqual(51);
});

test("ages are computed when they are read", async () => {
  let seconds = 3;
  const metrics = createMetrics({ sweepAge: () => seconds, watchAge: () => 8 });
  expect(await metrics.registry.metrics()).toContain("\ntowline_sweep_age_seconds 3\n");
  seconds = 4;
  const text = await metrics.registry.metrics();
  expect(text).toContain("\ntowline_sweep_age_seconds 4\n");
  expect(text).toContain("\ntowline_watch_age_seconds 8\n");
});

test("while Redis is unavailable the queue metrics are absent rather than out of date", async () => {
  let up = true;
  const readQueue = () => (up ? Promise.resolve({ reconcile: { waiting: 7 } }) : Promise.reject(new Error("down")));
  const metrics = createMetrics({ readQueue });
  expect(await metrics.registry.metrics()).toContain('towline_queue_jobs{lane="reconcile",state="waiting"} 7');
  up = false;
  expect(await metrics.registry.metrics()).not.toContain("towline_queue_jobs{");
});

test("two servers in one process do not share metrics", async () => {
  const [one, other] = [createMetrics(), createMetrics()];
  one.leaseLost();
  expect(await other.registry.metrics()).toContain("\ntowline_lease_lost_total 0\n");
});

test("a rate limit of a period that has ended is not exported any more", async () => {
  const metrics = createMetrics();
  const lines = async () =>
    (await metrics.registry.metrics())
      .split("\n")
      .filter((line) => line.startsWith("towline_forge_rate_limit_remaining{"));
  metrics.outside.forgeAllows("gitlab", { remaining: 3, limit: 600, resetAt: Date.now() + 60_000 });
  metrics.outside.forgeAllows("github", { remaining: 12, limit: 5_000, resetAt: Date.now() - 1 });
  expect(await lines()).toEqual(['towline_forge_rate_limit_remaining{forge="gitlab"} 3']);
});
