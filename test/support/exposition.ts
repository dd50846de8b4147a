/**
 * Every metric that the server can expose, with its labels: documentation, rules and dashboards are checked against it.
 */
import { createMetrics } from "../../src/metrics.ts";
import { createDeploymentMetrics } from "../../src/metrics/deployments.ts";
import { createSkippingMetrics } from "../../src/metrics/skipping.ts";

export interface ExposedMetric {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly labels: readonly string[];
}

export function exposedMetrics(): readonly ExposedMetric[] {
  const { registry } = createMetrics();
  createDeploymentMetrics({ registry, deployments: () => [], dryRun: () => false, concurrency: () => 1 });
  createSkippingMetrics(registry, () => ({ watches: 0, objects: 0 }));
  // The objects contain the names of the labels, although the types do not declare them.
  const all = registry.getMetricsAsArray() as unknown as (Omit<ExposedMetric, "labels"> & { labelNames: string[] })[];
  return all.map(({ name, type, labelNames }) => ({ name, type, labels: labelNames }));
}
