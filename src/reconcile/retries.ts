/**
 * Computes when a failure is retried, after the queue's quick attempts and while git and the spec are unchanged: after
 * `retryInterval` or, without it, after a back-off that doubles with each attempt, up to `interval`.
 *
 * kluctl's status format has no field for the number of attempts. It is derived from the watch, so all replicas agree;
 * after a restart, the back-off is one that fits the time since the last attempt, so that neither a restart nor a swap
 * of controllers retries all failures at once.
 */
import {
  type Deployment,
  type DeploymentChange,
  type DeploymentSpec,
  type DeploymentStatus,
  isMalformed,
  keyText,
} from "../model.ts";
import type { Clock } from "../ports.ts";
import { isReconciling, readyCondition, reason } from "./status/conditions.ts";
import { changeWaits } from "./decide.ts";
import { asksAnew } from "../requests/requests.ts";

/** The back-off after the first failure. */
const firstPauseMs = 30_000;

export interface Retries {
  /** Learns from the watch when a reconciliation ended. */
  note(change: DeploymentChange): void;
  /** In epoch milliseconds; `undefined` if nothing failed. */
  nextAt(deployment: Deployment): number | undefined;
}

interface Failing {
  readonly lastTryAt: number;
  readonly pauseMs: number;
  /** The status after the last attempt. */
  readonly status: DeploymentStatus;
}

export function createRetries(clock: Clock): Retries {
  const failing = new Map<string, Failing>();
  /** When an attempt was first seen in progress. */
  const begun = new Map<string, number>();

  function learn(key: string, ended: Deployment, startedAt: number): void {
    const { status } = ended;
    const now = clock.now();
    const before = failing.get(key);
    const waited = before !== undefined && now >= nextTry(before, ended.spec);
    if (before !== undefined && !waited && isNoTry(before.status, status)) return;
    // Several attempts within one back-off, such as the queue's quick ones, count as one.
    const same = before !== undefined && isSame(before.status, status);
    const pauseMs = same ? before.pauseMs * (waited ? 2 : 1) : firstPauseMs;
    // An attempt that takes long to fail must not occupy a worker permanently.
    failing.set(key, { lastTryAt: now, pauseMs: Math.max(pauseMs, now - startedAt), status });
  }

  return {
    note({ kind, deployment, previous }) {
      const key = keyText(deployment.key);
      const isTrying = kind !== "removed" && isReconciling(deployment.status);
      const startedAt = begun.get(key) ?? clock.now();
      if (isTrying) begun.set(key, startedAt);
      else begun.delete(key);
      if (kind === "removed" || isMalformed(deployment) || !hasFailed(deployment)) {
        // Ready may be Unknown during another attempt.
        if (!isTrying) failing.delete(key);
      } else if (asksAnew(deployment, previous)) {
        failing.set(key, { lastTryAt: clock.now(), pauseMs: firstPauseMs, status: deployment.status });
      } else if (previous && isReconciling(previous.status) && !isTrying) {
        learn(key, deployment, startedAt);
      }
    },
    nextAt(deployment) {
      if (!hasFailed(deployment)) return undefined;
      const key = keyText(deployment.key);
      const known = failing.get(key) ?? recorded(deployment, clock.now());
      if (known === undefined) return undefined;
      failing.set(key, known);
      return nextTry(known, deployment.spec);
    },
  };
}

function nextTry({ lastTryAt, pauseMs }: Failing, { retryIntervalMs, intervalMs }: DeploymentSpec): number {
  return lastTryAt + (retryIntervalMs ?? Math.min(pauseMs, intervalMs));
}

/** The state before this process saw any attempt, as if the back-off had been followed so far. */
function recorded({ status }: Deployment, now: number): Failing | undefined {
  const lastTryAt = lastTryOf(status, now);
  if (lastTryAt === undefined) return undefined;
  let pauseMs = firstPauseMs;
  while (lastTryAt + pauseMs <= now) pauseMs *= 2;
  return { lastTryAt, pauseMs, status };
}

/**
 * A deployment that only waits for its first approval, or for a valid annotation, is not ready, but there is nothing to
 * retry.
 */
function hasFailed({ spec, status }: Deployment): boolean {
  const ready = readyCondition(status);
  if (ready?.status !== "False" || ready.reason === reason.healthInvalid) return false;
  return ready.reason !== reason.deployFailed || !changeWaits(spec, status);
}

/** Whether the reconciliation only checked, without retrying the failed deploy. */
function isNoTry(before: DeploymentStatus, after: DeploymentStatus): boolean {
  return (
    isSame(before, after) &&
    readyCondition(after)?.reason === reason.deployFailed &&
    after.lastObjectsHash !== undefined &&
    after.lastDeployResult?.id === before.lastDeployResult?.id
  );
}

function isSame(before: DeploymentStatus, after: DeploymentStatus): boolean {
  return before.observedCommit === after.observedCommit && before.observedGeneration === after.observedGeneration;
}

/** Times may come from a clock that is ahead. */
function lastTryOf(status: DeploymentStatus, now: number): number | undefined {
  const { lastDeployResult: deploy, lastValidateResult: validate } = status;
  const ready = readyCondition(status);
  const times = [ready?.lastTransitionTime, deploy?.endTime, validate?.endTime].flatMap((text) => timeOf(text) ?? []);
  return times.length > 0 ? Math.min(Math.max(...times), now) : undefined;
}

function timeOf(text: string | undefined): number | undefined {
  const time = Date.parse(text ?? "");
  return Number.isNaN(time) ? undefined : time;
}
