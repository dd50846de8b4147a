/**
 * When what failed is tried again, after the quick tries of the queue are over and while git and the spec still say the
 * same: after `retryInterval`, or else after a pause that doubles with each try, up to `interval`.
 *
 * How often something was tried is nobody's to read in a status that has the shape of kluctl's. It is learnt from the
 * watch, the same by all replicas; after a start the pause is one that fits the time since the last try, so that neither
 * a restart nor a swap of controllers makes everything that has failed be tried at once.
 */
import { isMalformed, keyText, type Deployment, type DeploymentSpec, type DeploymentStatus } from "../model.ts";
import type { Clock, DeploymentChange } from "../ports.ts";
import { isReconciling, readyCondition, reason } from "./conditions.ts";
import { changeWaits } from "./decide.ts";
import { asksAnew } from "./requests.ts";

/** After the first failure. */
const firstPauseMs = 30_000;

export interface Retries {
  /** Learns from the watch when a loop ended. */
  note(change: DeploymentChange): void;
  /** Epoch milliseconds; `undefined` for what did not fail. */
  nextAt(deployment: Deployment): number | undefined;
}

interface Failing {
  readonly lastTryAt: number;
  readonly pauseMs: number;
  /** What it says of the try. */
  readonly status: DeploymentStatus;
}

export function createRetries(clock: Clock): Retries {
  const failing = new Map<string, Failing>();
  /** When a try was first seen to be in progress. */
  const begun = new Map<string, number>();

  function learn(key: string, ended: Deployment, startedAt: number): void {
    const { status } = ended;
    const now = clock.now();
    const before = failing.get(key);
    const waited = before !== undefined && now >= nextTry(before, ended.spec);
    if (before !== undefined && !waited && isNoTry(before.status, status)) return;
    // Several tries within one pause, such as the quick ones of the queue, count as one.
    const same = before !== undefined && isSame(before.status, status);
    const pauseMs = same ? before.pauseMs * (waited ? 2 : 1) : firstPauseMs;
    // What takes long to fail does not keep a worker for itself.
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
        // Ready may be unknown while it is tried once more.
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

/** Before this process saw any try of it: as if the pauses had been kept to. */
function recorded({ status }: Deployment, now: number): Failing | undefined {
  const lastTryAt = lastTryOf(status, now);
  if (lastTryAt === undefined) return undefined;
  let pauseMs = firstPauseMs;
  while (lastTryAt + pauseMs <= now) pauseMs *= 2;
  return { lastTryAt, pauseMs, status };
}

/** What only waits to be approved for the first time is unready, and nothing that could be tried. */
function hasFailed({ spec, status }: Deployment): boolean {
  const ready = readyCondition(status);
  if (ready?.status !== "False") return false;
  return ready.reason !== reason.deployFailed || !changeWaits(spec, status);
}

/** A loop that only looked: the deploy that failed was not tried again. */
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

/** A clock that is ahead may have written some of them. */
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
