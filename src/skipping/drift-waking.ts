/**
 * Reconciles a deployment within seconds after its applied objects were changed by others. After each such
 * reconciliation the minimum gap to the next one grows, so that a controller that writes continuously cannot keep
 * kluctl busy.
 */
import type { Logger } from "../log.ts";
import {
  type Deployment,
  type DeploymentChange,
  isMalformed,
  type Key,
  keyText,
  type MalformedDeployment,
} from "../model.ts";
import type { AppliedObjects, Deployments, Queue } from "../ports.ts";
import { isReconciling } from "../reconcile/status/conditions.ts";
import { findDrifted } from "./objects.ts";
import type { Skipping } from "./skipping.ts";

export interface DriftWakingDeps {
  readonly deployments: Pick<Deployments, "all"> & {
    find(key: Key): Deployment | MalformedDeployment | undefined;
    onChange(callback: (change: DeploymentChange) => void): void;
  };
  readonly applied: AppliedObjects;
  readonly skipping: Pick<Skipping, "known" | "isBusy" | "forget" | "onEnd">;
  readonly queue: Pick<Queue, "enqueue">;
  readonly log: Logger;
  readonly observe?: { drifted(): void } | undefined;
  readonly timing?: Partial<DriftTiming> | undefined;
}

export interface DriftTiming {
  /** Edits within this time trigger one reconciliation. */
  readonly settleMs: number;
  /** The minimum time between two reconciliations of one deployment; doubled each time. */
  readonly shortestGapMs: number;
  readonly longestGapMs: number;
  /** Delay while a reconciliation is in progress, because the changes may be its own. */
  readonly busyMs: number;
  /** When to look again after the objects of a kind were not known: its watch may have been down for a moment. */
  readonly unknownMs: number;
  /** How often to look without a reason: the watches of kinds that nothing asks for end after some hours. */
  readonly keepMs: number;
}

const defaultTiming: DriftTiming = {
  settleMs: 300,
  shortestGapMs: 2_000,
  longestGapMs: 600_000,
  busyMs: 1_000,
  unknownMs: 60_000,
  keepMs: 3_600_000,
};

interface Watchfulness {
  timer?: NodeJS.Timeout | undefined;
  /** Monotonic milliseconds. */
  lookedAt: number;
  gapMs: number;
  /** What was already reported: id → version. */
  reported: ReadonlyMap<string, string>;
  readonly deleted: Set<string>;
}

/** Returns a function that stops it. */
export function startDriftWaking({ deployments, applied, skipping, queue, log, observe, ...deps }: DriftWakingDeps) {
  const timing = { ...defaultTiming, ...deps.timing };
  const attention = new Map<string, Watchfulness>();
  /** Discriminator → its deployments. */
  const owners = new Map<string, Set<string>>();
  const keys = new Map<string, Key>();
  let stopped = false;

  function watchfulness(key: Key): Watchfulness {
    const text = keyText(key);
    let one = attention.get(text);
    if (one === undefined) {
      one = { lookedAt: -Infinity, gapMs: 0, reported: new Map(), deleted: new Set() };
      attention.set(text, one);
    }
    return one;
  }

  function plan(key: Key, afterMs: number): void {
    const one = watchfulness(key);
    if (stopped || one.timer !== undefined) return;
    one.timer = setTimeout(() => {
      one.timer = undefined;
      look(key, one);
    }, afterMs);
    one.timer.unref();
  }

  function look(key: Key, one: Watchfulness): void {
    const known = skipping.known(key);
    const deployment = deployments.find(key);
    if (known === undefined || deployment === undefined || isMalformed(deployment)) return;
    // A reconciliation in progress detects the change itself, and what it applies is not drift.
    if (skipping.isBusy(key)) return;
    if (isReconciling(deployment.status)) return plan(key, timing.busyMs);
    const { status, spec } = deployment;
    if (spec.suspend || deployment.deletionTimestamp !== undefined) return;
    if (deployment.uid !== known.uid || status.lastDeployResult?.id !== known.deployResultId) {
      return skipping.forget(key); // another server deployed it: these were its changes
    }
    const { objects } = applied.find(known.discriminator, known);
    if (objects === undefined) return plan(key, timing.unknownMs);
    const drifted = findDrifted(known.objects, objects, one.deleted);
    const news = [...drifted].filter(
      ([id, version]) => one.reported.get(id) !== version && (!known.hooks || known.objects.has(id)),
    );
    if (news.length === 0) return;
    const now = performance.now();
    const nextAt = one.lookedAt + one.gapMs;
    if (now < nextAt) return plan(key, nextAt - now);
    // After a long enough pause without drift, the gap starts from its minimum again.
    const calm = now - one.lookedAt > 4 * one.gapMs;
    one.gapMs = calm ? timing.shortestGapMs : Math.min(one.gapMs * 2, timing.longestGapMs);
    one.lookedAt = now;
    const before = one.reported;
    one.reported = drifted;
    observe?.drifted();
    log.info(
      { ...key, objects: news.slice(0, 5).map(([id]) => id), more: Math.max(0, news.length - 5) },
      "an applied object changed",
    );
    queue
      .enqueue([{ kind: "reconcile", deployment: key, cause: "drift", repo: deployment.repo }])
      .catch((error: unknown) => {
        one.reported = before;
        log.warn(
          { ...key, error: error instanceof Error ? error.message : String(error) },
          "could not queue a reconciliation; retrying",
        );
        plan(key, timing.shortestGapMs);
      });
  }

  applied.onChange(({ discriminator, id, deleted }) => {
    for (const text of owners.get(discriminator) ?? []) {
      const key = keys.get(text);
      if (key === undefined) continue;
      const one = watchfulness(key);
      if (deleted) one.deleted.add(id);
      else one.deleted.delete(id);
      plan(key, timing.settleMs);
    }
  });

  skipping.onEnd((key) => {
    const known = skipping.known(key);
    if (known === undefined) return;
    const one = watchfulness(key);
    for (const id of one.deleted) if (!known.objects.has(id)) one.deleted.delete(id);
    const text = keyText(key);
    for (const [discriminator, theirs] of owners) {
      if (discriminator === known.discriminator || !theirs.delete(text)) continue;
      if (theirs.size === 0) owners.delete(discriminator);
    }
    keys.set(text, key);
    owners.set(known.discriminator, (owners.get(known.discriminator) ?? new Set()).add(text));
    // Check for changes made during the reconciliation.
    plan(key, timing.settleMs);
  });

  deployments.onChange(({ kind, deployment }) => {
    if (kind !== "removed") return;
    const text = keyText(deployment.key);
    skipping.forget(deployment.key);
    clearTimeout(attention.get(text)?.timer);
    attention.delete(text);
    keys.delete(text);
    for (const [discriminator, theirs] of owners) {
      if (theirs.delete(text) && theirs.size === 0) owners.delete(discriminator);
    }
  });

  const keeping = setInterval(() => {
    for (const key of keys.values()) plan(key, timing.settleMs);
  }, timing.keepMs).unref();

  return () => {
    stopped = true;
    clearInterval(keeping);
    for (const { timer } of attention.values()) clearTimeout(timer);
  };
}
