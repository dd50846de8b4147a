/** Connects the parts that skip checks and that watch applied objects. */
import type { LiveConfig } from "../config/live.ts";
import type { KluctlProcesses } from "../kluctl/kluctl.ts";
import { createAppliedObjects, type WatchedObjects } from "../kube/applied-objects.ts";
import type { KubeClient } from "../kube/client.ts";
import { readClusterFacts } from "../kube/cluster-facts.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import { createSkippingMetrics, type SkippingMetrics } from "../metrics/skipping.ts";
import type { Clock, Deployments, Secrets, Sources } from "../ports.ts";
import type { ReadIdentity } from "../access/identity.ts";
import { newOurId } from "../reconcile/our-ids.ts";
import { around } from "../kit/around.ts";
import { type Parts, parts } from "../reconcile/parts.ts";
import { skipsWithin } from "../skipping/around-reconcile.ts";
import { createSkipAudit, type SkipAudit } from "../skipping/skip-audit.ts";
import { createSkipping, type Skipping } from "../skipping/skipping.ts";
import { findUnsteadyFiles } from "../source/unsteady-files.ts";

export interface SkippingParts {
  readonly applied: WatchedObjects;
  readonly skipping: Skipping;
  /** The parts of a reconciliation, without what need not be done. */
  readonly parts: Parts;
  readonly audit: SkipAudit;
  readonly metrics: SkippingMetrics;
}

export interface SkippingPartsDeps {
  readonly live: LiveConfig;
  readonly client: KubeClient;
  readonly deployments: Deployments;
  readonly kluctl: Pick<KluctlProcesses, "identity" | "diff">;
  readonly readIdentity: ReadIdentity;
  readonly sources: Sources;
  readonly secrets: Secrets;
  readonly metrics: Metrics;
  readonly clock: Clock;
  readonly log: Logger;
}

export function createSkippingParts({
  live,
  client,
  kluctl,
  readIdentity,
  metrics,
  log,
  ...deps
}: SkippingPartsDeps): SkippingParts {
  const fullIntervalMs = () => live.now.sweep.fullIntervalMs;
  const applied = createAppliedObjects({ client, log });
  const ownMetrics = createSkippingMetrics(metrics.registry, () => applied.size());
  const audit = createSkipAudit({
    ...deps,
    oneIn: () => live.now.sweep.auditSkips,
    kluctl,
    readIdentity,
    dryRun: () => live.now.dryRun,
    newId: newOurId,
    log,
    observe: ownMetrics,
  });
  const identity = () => kluctl.identity();
  const skipping = createSkipping({
    ...deps,
    applied,
    kluctl: identity,
    clusterFacts: () => readClusterFacts(client),
    findUnsteady: findUnsteadyFiles,
    dryRun: () => live.now.dryRun,
    fullIntervalMs,
    log,
    observe: ownMetrics,
    audit,
  });
  const wrapped = around(parts, skipsWithin({ skipping, kluctl: identity, clock: deps.clock }));
  return { applied, skipping, parts: wrapped, audit, metrics: ownMetrics };
}
