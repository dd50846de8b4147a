/** Queues every deployment that is due. Works from memory only: due times follow from spec and status. */
import { isDeepStrictEqual } from "node:util";
import {
  type Deployment,
  type DeploymentChange,
  isMalformed,
  keyText,
  type MalformedDeployment,
  manualKinds,
  type Request,
  requestAnnotation,
} from "../../src/model.ts";
import { retryAfterMs } from "../../src/reconcile/decide.ts";
import { isReconciling } from "../../src/reconcile/status/conditions.ts";
import type { Head } from "../../src/reconcile/parts.ts";
import { isAnnotated } from "../../src/requests/requests.ts";
import { createLimit } from "../../src/kit/limit.ts";
import type { Logger } from "../../src/log.ts";
import { isWaiting } from "../../src/guards/depends-on.ts";
import { heldBackMs, type Seen } from "../../src/reconcile/due.ts";
import type { Retries } from "../../src/reconcile/retries.ts";
import type { Clock, Deployments, Queue } from "../../src/ports.ts";
import { fractionOf } from "./rotation.ts";

type Entry = Deployment | MalformedDeployment;

/** Returns epoch milliseconds; see reconcile/due.ts. */
export type DueAt = (deployment: Entry, seen: Seen, now: number) => number;

/** `later`: its state has just changed and is checked again at the next tick. */
export type SkipCheck = (deployment: Entry, to?: Head) => Promise<"skipped" | "later" | "check">;

export interface DueSweepDeps {
  readonly deployments: Pick<Deployments, "all">;
  readonly dueAt: DueAt;
  readonly retries: Retries;
  readonly queue: Pick<Queue, "enqueue">;
  /** Whether to skip a reconciliation that is only due by an interval. Absent: none is skipped. */
  readonly skipCheck?: SkipCheck | undefined;
  /** What is still due after this time is queued again: Redis may have lost it. */
  readonly againMs: () => number;
  readonly clock: Clock;
  readonly log: Logger;
}

export interface DueSweep {
  /** Learns from the watch when a reconciliation made progress, and when it ended. */
  note(change: DeploymentChange): void;
  /**
   * Resolves to the number of new jobs, not counting requests that joined an existing one; throws the queue's errors.
   */
  run(): Promise<number>;
}

interface Due {
  readonly deployment: Entry;
  readonly asking: Asked;
}

/** When and why a deployment was queued. */
interface Asked {
  readonly at: number;
  /** A time; or, for immediate work, what was requested, so that the next request is not mistaken for this one. */
  readonly due: number | string;
  /** It failed, and its back-off has ended. */
  readonly retried: boolean;
  /** A reconciliation of it started, and its end was not recorded. */
  readonly unended: boolean;
}

/** How many deployments are checked concurrently for whether they can be skipped. */
const checkedAtOnce = 8;

/** A user is waiting at a terminal: a request that Redis rejected or lost is queued again sooner. */
const waitedForMs = 5_000;

/** Its previous request may have failed just before the cause of the interruption was over. */
const unendedAgainMs = 15_000;

/** All attempts of a retry may have failed without a trace in the status, as while the API server was down. */
const retriedAgainMs = 60_000;

/**
 * How long a request counts as answered. The watch may never show that a reconciliation ended: one that starts and fails
 * while the watch reconnects leaves the status as it was.
 */
function answeredForMs(deployment: Entry): number {
  if (isMalformed(deployment)) return Infinity;
  const { spec } = deployment;
  if (isWaiting(deployment)) return heldBackMs; // if it stays blocked, nothing is written that shows the check
  return Math.max(unendedAgainMs, Math.min(spec.intervalMs, retryAfterMs(spec)));
}

export function createDueSweep(deps: DueSweepDeps): DueSweep {
  const { deployments, dueAt, retries, queue, skipCheck, againMs, clock, log } = deps;
  const lastLoopAt = new Map<string, number>();
  const progressAt = new Map<string, number>();
  const skipping = new Set<string>();
  const limit = createLimit(checkedAtOnce);
  const asked = new Map<string, Asked>();

  function isDue(deployment: Entry, now: number): Asked | undefined {
    const key = keyText(deployment.key);
    const seen = { lastLoopAt: lastLoopAt.get(key), progressAt: progressAt.get(key) };
    const looked = seen.progressAt ?? seen.lastLoopAt;
    const retryAt = isMalformed(deployment) ? undefined : retries.nextAt(deployment);
    const at = dueAt(deployment, { ...seen, retryAt }, now);
    if (at > now) return undefined;
    const due = at < now ? at : `at once ${wantedOf(deployment)}`;
    // Spread deployments that became due while no server was running.
    if (typeof due === "number" && due + jitterMs(deployment, looked === undefined ? Infinity : due - looked) > now)
      return undefined;
    const unended = at > (seen.progressAt ?? Infinity);
    const before = asked.get(key);
    const retried = retryAt === due;
    const ownMs = isAnnotated(deployment) ? waitedForMs : unended ? unendedAgainMs : answeredForMs(deployment);
    const patienceMs = Math.min(againMs(), ownMs, retried ? retriedAgainMs : Infinity);
    const isAnswered = before?.due === due && now < before.at + patienceMs;
    return isAnswered ? undefined : { at: now, due, retried, unended };
  }

  function maySkip({ deployment, asking }: Due): boolean {
    const wanted =
      asking.retried ||
      asking.unended ||
      typeof asking.due === "string" ||
      isAnnotated(deployment) ||
      isMalformed(deployment);
    return skipCheck !== undefined && !wanted;
  }

  async function ask(due: readonly Due[]): Promise<number> {
    // After an edit, the user expects git's current state; the watch that normally records the move may not have done
    // so.
    const edited = due.flatMap(({ deployment, asking }) =>
      typeof asking.due === "string" && !isMalformed(deployment) && deployment.repo !== undefined
        ? [deployment.repo]
        : [],
    );
    const { queued } = await queue.enqueue(
      due.map(({ deployment }) => toRequest(deployment)),
      [...new Set(edited)],
    );
    for (const { deployment, asking } of due) {
      asked.set(keyText(deployment.key), asking);
      if (asking.retried) log.info({ ...deployment.key }, "retry due after a failure");
      if (asking.unended && queued > 0) log.info({ ...deployment.key }, "unfinished reconciliation requested again");
    }
    return queued;
  }

  /** Runs concurrently with the sweep, so that an unresponsive remote delays nothing else. */
  async function skipOrRequest({ deployment, asking }: Due): Promise<void> {
    const key = keyText(deployment.key);
    try {
      const answer = await limit.run(async () => skipCheck?.(deployment));
      if (answer === "skipped") lastLoopAt.set(key, clock.now());
      if (answer === "check") await ask([{ deployment, asking }]);
    } catch (error) {
      log.debug(
        { ...deployment.key, error: (error as Error).message },
        "could not queue a due reconciliation; retrying",
      );
    } finally {
      skipping.delete(key);
    }
  }

  return {
    note(change) {
      retries.note(change);
      const { kind, deployment, previous } = change;
      const key = keyText(deployment.key);
      if (kind === "removed" || !isReconciling(deployment.status)) progressAt.delete(key);
      else if (previous === undefined || hasProgressed(deployment, previous)) progressAt.set(key, clock.now());
      if (kind === "removed") {
        lastLoopAt.delete(key);
        asked.delete(key);
      } else if (previous && (hasEnded(deployment, previous) || hasLooked(deployment, previous))) {
        lastLoopAt.set(key, clock.now());
      }
    },
    async run() {
      const now = clock.now();
      const due = deployments.all().flatMap((deployment): Due[] => {
        if (skipping.has(keyText(deployment.key))) return [];
        const asking = isDue(deployment, now);
        return asking ? [{ deployment, asking }] : [];
      });
      const [maybe, sure] = [due.filter(maySkip), due.filter((one) => !maySkip(one))];
      for (const one of maybe) {
        skipping.add(keyText(one.deployment.key));
        void skipOrRequest(one);
      }
      return sure.length > 0 ? ask(sure) : 0;
    },
  };
}

function hasEnded({ status }: Entry, previous: Entry): boolean {
  return isReconciling(previous.status) && !isReconciling(status);
}

/** Ignores labels and fields of other controllers. */
function hasProgressed({ status }: Entry, previous: Entry): boolean {
  return !isDeepStrictEqual(status.conditions, previous.status.conditions);
}

/** A check by any server, whatever its clock says: it happened just now. */
function hasLooked({ status }: Entry, previous: Entry): boolean {
  return status.lastDriftDetectionResult?.endTime !== previous.status.lastDriftDetectionResult?.endTime;
}

function toRequest(deployment: Entry): Request {
  const repo = isMalformed(deployment) ? undefined : deployment.repo;
  // A user's request does not wait behind interval checks, even if Redis lost it.
  const cause = isAnnotated(deployment) ? "manual" : "interval";
  return { kind: "reconcile", deployment: deployment.key, cause, repo };
}

/** Identifies the requests and the spec, so that each request counts separately. */
function wantedOf({ generation, annotations }: Entry): string {
  return [generation, ...manualKinds.map((kind) => annotations[requestAnnotation(kind)] ?? "")].join(" ");
}

/**
 * Constant for each deployment: up to a tenth of the interval that has passed, at most a minute. That interval may be
 * shorter than the spec's main one, for example a retry interval.
 */
function jitterMs(deployment: Entry, waitedMs: number): number {
  if (isMalformed(deployment)) return 0;
  const intervalMs = Math.min(deployment.spec.intervalMs, Math.max(waitedMs, 0));
  return fractionOf(keyText(deployment.key)) * Math.min(intervalMs / 10, 60_000);
}
