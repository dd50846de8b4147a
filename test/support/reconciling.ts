/** The reconciliation of a deployment with fakes. */
import { parseStatus } from "../../src/apis/kluctl/status-schema.ts";
import { applyMergePatch } from "../../src/kit/merge-patch.ts";
import {
  type Attempt,
  type Change,
  type Deployment,
  keyText,
  type MalformedDeployment,
  type ReconcileRequest,
  type StatusPatch,
} from "../../src/model.ts";
import type { Deployments, Results } from "../../src/ports.ts";
import { createReconcile } from "../../src/reconcile/reconcile.ts";
import { around, type Interceptor } from "../../src/kit/around.ts";
import { type Parts, parts } from "../../src/reconcile/parts.ts";
import type { Settings } from "../../src/reconcile/work.ts";
import { aSummary } from "./deployments.ts";
import {
  fakeDeployments,
  fakeKluctl,
  fakeLeases,
  fakeObjects,
  fakeReadIdentity,
  fakeResults,
  fakeSecrets,
  fakeSources,
  silentLog,
} from "./fakes.ts";

export const key = { namespace: "shop", name: "prod" };
export const push: ReconcileRequest = { kind: "reconcile", deployment: key, cause: "push", receivedAt: 0 };
export const ready = { type: "Ready", status: "True", reason: "ok", message: "", lastTransitionTime: "" } as const;

/** The status of a deployment that is at commit `c1`. */
export const upToDate = {
  observedGeneration: 1,
  observedCommit: "c1",
  lastObjectsHash: "hash-1",
  conditions: [ready],
  lastDeployResult: aSummary(),
};

export function aWorld(
  deployment: Deployment | MalformedDeployment,
  kluctl = fakeKluctl(),
  sources = fakeSources(),
  settings: Partial<Settings> = { pruneGuard: { percent: 50, fromObjects: 10 } },
  others: readonly Deployment[] = [],
  wrapped: Interceptor<Parts> = {},
) {
  const deployments = fakeDeployments(deployment, ...others);
  const asked: ReconcileRequest[] = [];
  const leases = fakeLeases();
  const results = fakeResults();
  const objects = fakeObjects();
  const applied: number[] = [];
  const live: number[] = [];
  const audit: Change[] = [];
  let ids = 0;
  const time = { now: Date.parse("2026-01-01T00:00:10Z") };
  const known: { move: string | undefined } = { move: "move-1" };
  const reconcile = createReconcile({
    deployments,
    secrets: fakeSecrets(),
    sources,
    kluctl,
    objects,
    leases,
    results,
    clusterId: () => Promise.resolve("cluster-1"),
    lastMove: () => Promise.resolve(known.move),
    markMoved: () => Promise.resolve(void (known.move = `${known.move ?? "move"}, asked`)),
    readIdentity: fakeReadIdentity(),
    settings: { dryRun: false, ...settings },
    parts: around(parts, wrapped),
    enqueue: (requests) => Promise.resolve({ queued: asked.push(...(requests as ReconcileRequest[])) }),
    clock: { now: () => time.now },
    newId: () => `id-${++ids}`,
    log: silentLog,
    audit: (change) => audit.push(change),
    observe: { pushToApplied: (s) => applied.push(s), pushToLive: (s) => live.push(s) },
  });
  const attempt = (over: Partial<Attempt> = {}): Attempt => ({
    attempt: 1,
    lastAttempt: false,
    signal: new AbortController().signal,
    ...over,
  });
  return {
    deployments,
    kluctl,
    objects,
    sources,
    leases,
    results,
    applied,
    live,
    audit,
    asked,
    known,
    time,
    /** Reconciles after the interval has passed. */
    comesRound(over: Partial<Attempt> = {}) {
      time.now += 3_600_000;
      return reconcile({ ...push, cause: "interval" }, attempt(over));
    },
    reconcile,
    attempt,
    /** Replaces functions of the fakes from now on. */
    replace(others: { deployments?: Partial<Deployments>; results?: Partial<Results> }) {
      Object.assign(deployments, others.deployments);
      Object.assign(results, others.results);
    },
    status: () => deployments.status(key),
  };
}

/**
 * From now on, the status is kept whole, as the API server keeps it, and not only what most tests look at. Returns a function that
 * edits the deployment.
 */
export function keepWholeStatus({ deployments }: ReturnType<typeof aWorld>) {
  const { objects } = deployments;
  const edit = (change: (deployment: Deployment) => Partial<Deployment>) => {
    const deployment = objects.get(keyText(key)) as Deployment;
    objects.set(keyText(key), { ...deployment, ...change(deployment) });
  };
  let document = {};
  Object.assign(deployments, {
    patchStatus(_: unknown, patch: StatusPatch) {
      document = applyMergePatch(document, JSON.parse(JSON.stringify(patch))) as object;
      edit(() => ({ status: parseStatus(document) }));
      return Promise.resolve((objects.get(keyText(key)) as Deployment).generation);
    },
  });
  return edit;
}
