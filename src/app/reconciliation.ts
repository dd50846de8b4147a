/** Reconciliations, and what may be skipped in them. */
import { notesIncludedCommits } from "../reconcile/note-included-commits.ts";
import { notesIncludes } from "../reconcile/note-includes.ts";
import { notesServedUrl } from "../reconcile/note-served-url.ts";
import { around } from "../kit/around.ts";
import { readKubernetesVersion } from "../kube/cluster-facts.ts";
import type { Overrides } from "../ports.ts";
import { newOurId } from "../reconcile/our-ids.ts";
import { parts } from "../reconcile/parts.ts";
import { createReconcile } from "../reconcile/reconcile.ts";
import { findOutsideReads } from "../source/outside-reads.ts";
import type { Infrastructure } from "./infrastructure.ts";
import { pruneGuardOf } from "./prune-guard.ts";
import { createSkippingParts } from "./skipping.ts";

export function createReconciliation(infrastructure: Infrastructure, overrides: Overrides | undefined) {
  const { config, live, client, queue, retries, metrics, deploymentMetrics, auditLog } = infrastructure;
  const skippingParts = config.sweep.skipping ? createSkippingParts(infrastructure) : undefined;
  const noting = [
    notesIncludes({ ...infrastructure, findReads: findOutsideReads }),
    notesIncludedCommits(infrastructure),
    notesServedUrl({ ...infrastructure, isWanted: () => live.now.forges.some((forge) => forge.deployments) }),
  ].reduce(around, skippingParts?.parts ?? parts);
  const reconcile = createReconcile({
    ...infrastructure,
    overrides,
    parts: noting,
    clusterId: () => client.clusterId(),
    lastMove: (repo) => queue.lastMove(repo),
    markMoved: (repo) => queue.markMoved(repo),
    enqueue: (requests) => queue.enqueue(requests),
    settings: {
      get dryRun() {
        return live.now.dryRun;
      },
      get pruneGuard() {
        return pruneGuardOf(live.now);
      },
    },
    retryAt: (deployment) => retries.nextAt(deployment),
    newId: newOurId,
    audit: ({ deployment, ...change }) =>
      auditLog.info({ ...deployment, ...change }, `${change.action} ${change.result}`),
    observe: {
      pushToApplied: (seconds) => metrics.pushApplied(seconds),
      pushToLive: (seconds) => metrics.stages.pushLive(seconds),
      pruned: (deployment, seconds) => deploymentMetrics.pruned(deployment, seconds),
    },
  });
  return { reconcile, skippingParts, kubernetesVersion: () => readKubernetesVersion(client) };
}
