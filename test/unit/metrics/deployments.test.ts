import { readFile } from "node:fs/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { createMetrics } from "../../../src/metrics.ts";
import { createDeploymentMetrics } from "../../../src/metrics/deployments.ts";
import { createSkippingMetrics } from "../../../src/metrics/skipping.ts";
import { TextRegistry } from "../../../src/metrics/text-metrics.ts";
import type { Condition, Deployment, MalformedDeployment } from "../../../src/model.ts";
import { eventReason, reason } from "../../../src/reconcile/status/conditions.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

function aWorld(...initial: (Deployment | MalformedDeployment)[]) {
  const registry = new TextRegistry();
  const there = [...initial];
  const metrics = createDeploymentMetrics({
    registry,
    deployments: () => there,
    dryRun: () => false,
    concurrency: () => 4,
  });
  const samples = async () => {
    const lines = (await registry.metrics()).split("\n");
    return lines.filter((line) => line.startsWith("kluctldeployments_") || line.startsWith("gotk_"));
  };
  return { metrics, there, registry, samples };
}

const ready = (status: Condition["status"]): Condition => ({
  type: "Ready",
  status,
  reason: "x",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
});

const key = { namespace: "shop", name: "prod" };
const labels = `namespace="shop",name="prod"`;
const ofToolkit = `kind="KluctlDeployment",name="prod",namespace="shop"`;

test("the state of a deployment is exported under the metric names of kluctl's controller", async () => {
  const commandInfo = { command: "deploy", startTime: "2026-01-01T00:00:00Z" };
  const { samples } = aWorld(
    aDeployment({
      spec: {
        prune: true,
        deployIntervalMs: 3_600_000,
        source: { url: "https://me:pw@git.example.com/org/shop", ref: { tag: "v1" }, path: "k8s" },
      },
      status: {
        conditions: [ready("True")],
        lastDeployResult: aSummary({
          document: { commandInfo },
          changedObjects: 3,
          deletedObjects: 2,
          orphanObjects: 1,
          warnings: 4,
        }),
      },
    }),
  );
  expect(await samples()).toEqual([
    `kluctldeployments_prune_enabled{${labels}} 1`,
    `kluctldeployments_delete_enabled{${labels}} 0`,
    `kluctldeployments_dry_run_enabled{${labels}} 0`,
    `kluctldeployments_deployment_interval_seconds{${labels}} 3600`,
    `kluctldeployments_source_spec{${labels},url="https://git.example.com/org/shop",path="k8s",ref="refs/tags/v1"} 0`,
    `kluctldeployments_number_of_changed_objects{${labels}} 3`,
    `kluctldeployments_number_of_deleted_objects{${labels}} 2`,
    `kluctldeployments_number_of_orphan_objects{${labels}} 1`,
    `kluctldeployments_number_of_errors{${labels},action="deploy"} 0`,
    `kluctldeployments_number_of_warnings{${labels},action="deploy"} 4`,
    `kluctldeployments_last_deploy_start_timestamp_seconds{${labels}} 1767225600`,
    `kluctldeployments_last_object_status{${labels}} 1`,
    `gotk_reconcile_condition{${ofToolkit},type="Ready",status="True"} 1`,
    `gotk_reconcile_condition{${ofToolkit},type="Ready",status="False"} 0`,
    `gotk_reconcile_condition{${ofToolkit},type="Ready",status="Unknown"} 0`,
    `gotk_reconcile_condition{${ofToolkit},type="Ready",status="Deleted"} 0`,
    `gotk_suspend_status{${ofToolkit}} 0`,
  ]);
});

test("while a deployment is in progress its previous state counts", async () => {
  const status = `kluctldeployments_last_object_status{${labels}}`;
  const with_ = (condition: Condition) => aDeployment({ status: { conditions: [condition] } });
  const { there, samples } = aWorld(with_(ready("Unknown")));
  expect((await samples()).join("\n")).not.toContain(status);
  there[0] = with_(ready("False"));
  expect(await samples()).toContain(`${status} 0`);
  there[0] = with_(ready("Unknown"));
  expect(await samples()).toContain(`${status} 0`);
});

test("the metrics of a deleted deployment are removed", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { metrics, there, samples } = aWorld(aDeployment());
  for (const command of ["deploy", "poke-images", "validate", "delete", "diff"]) metrics.kluctlRan(key, command, 1.5);
  metrics.pruned(key, 0.2);
  metrics.reconcileStarted();
  metrics.reconciled(key, "done", 2);
  const before = await samples();
  for (const sample of [
    `kluctldeployments_deployment_duration_seconds_count{${labels},mode="full-deploy"} 1`,
    `kluctldeployments_deployment_duration_seconds_sum{${labels},mode="poke-images"} 1.5`,
    `kluctldeployments_validate_duration_seconds_sum{${labels}} 1.5`,
    `kluctldeployments_delete_duration_seconds_sum{${labels}} 1.5`,
    `kluctldeployments_prune_duration_seconds_sum{${labels}} 0.2`,
    `gotk_reconcile_duration_seconds_sum{${ofToolkit}} 2`,
  ]) {
    expect(before).toContain(sample);
  }

  there.length = 0;
  metrics.gone(key);
  expect((await samples()).filter((line) => !line.includes("_duration_"))).toEqual([]);
  metrics.reconciled(key, "skipped", 0.1); // its last reconciliation ends when it is already deleted
  vi.advanceTimersByTime(10 * 60_000);
  expect(await samples()).toEqual([]);
});

test("a deployment that is created again soon after its deletion keeps its metrics", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { metrics, samples } = aWorld(aDeployment());
  metrics.kluctlRan(key, "validate", 1);
  metrics.gone(key);
  vi.advanceTimersByTime(10 * 60_000);
  expect(await samples()).toContain(`kluctldeployments_validate_duration_seconds_count{${labels}} 1`);
});

const readPage = () => readFile(new URL("../../../docs/metrics.md", import.meta.url), "utf8");

test("docs/metrics.md lists each reason of an event", async () => {
  const named = [...(await readPage()).matchAll(/^\| `([A-Z]\w+)`/gm)].map(([, name]) => name);
  // Not those of something that goes on.
  const { progressing: _progressing, healthPending: _healthPending, ...told } = reason;
  expect(named).toEqual(expect.arrayContaining(Object.values({ ...told, ...eventReason })));
});

test("docs/metrics.md lists each metric, and no other", async () => {
  const { registry } = createMetrics();
  createDeploymentMetrics({ registry, deployments: () => [], dryRun: () => false, concurrency: () => 1 });
  createSkippingMetrics(registry, () => ({ watches: 0, objects: 0 }));
  const all = (await registry.getMetricsAsJSON()).map(({ name }) => name);
  const named = [...(await readPage()).matchAll(/^\| `([a-z_]+)`/gm)].map(([, name]) => name);
  const ofNode = /^(process|nodejs)_/;
  expect(named.sort()).toEqual(all.filter((name) => !ofNode.test(name)).sort());
});

test("drifted objects are counted by kind of difference, read from kluctl's message", async () => {
  const { registry } = aWorld(
    aDeployment({ status: { lastDriftDetectionResultMessage: "2 new/10 chg/1 orp/3 err" } }),
    aDeployment({ key: { namespace: "shop", name: "fine" }, status: { lastDriftDetectionResultMessage: "no drift" } }),
  );
  const text = await registry.getSingleMetricAsString("towline_deployment_drifted_objects");
  for (const [how, count] of Object.entries({ new: 2, changed: 10, orphan: 1, deleted: 0 })) {
    expect(text).toContain(`{${labels},how="${how}"} ${count}`);
    expect(text).toContain(`{namespace="shop",name="fine",how="${how}"} 0`);
  }
});
