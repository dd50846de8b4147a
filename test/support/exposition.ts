/** Every metric that the server can ever tell, with its labels: what documentation, rules and dashboards are held to. */
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
  // The names of the labels are in the objects, whatever the types say.
  const all = registry.getMetricsAsArray() as unknown as (Omit<ExposedMetric, "labels"> & { labelNames: string[] })[];
  return all.map(({ name, type, labelNames }) => ({ name, type, labels: labelNames }));
}
