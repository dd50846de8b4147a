/** A queue and workers for one test, on a real Redis. */
import { onTestFinished } from "vitest";
import { createFairness, type LaneFairness } from "../../jobs/fairness.ts";
import type { Lane } from "../../jobs/lanes.ts";
import { createQueue, type JobQueue } from "../../jobs/queue.ts";
import { type RunningWorker, startWorker, type Timing, type WorkerDeps } from "../../jobs/worker.ts";
import type {
  Cause,
  Outcome,
  PreviewCause,
  PreviewRequest,
  PullRequestKey,
  ReconcileRequest,
  RepoId,
} from "../../src/model.ts";
import { silentLog } from "./fakes.ts";
import { type RedisServer, uniquePrefix, useRedisServer } from "./redis.ts";

export const done: Outcome = { kind: "done", deployed: true, commit: "c1" };
export const failedSoon: Outcome = { kind: "failed", retry: "soon", message: "the network is down" };

export function aRequest(name = "shop", cause: Cause = "push", more: Partial<ReconcileRequest> = {}): ReconcileRequest {
  const repo = "git.example.com/org/shop" as RepoId;
  return { kind: "reconcile", deployment: { namespace: "apps", name }, cause, repo, ...more };
}

export function aPullRequestKey(number = 7, repoName = "org/shop"): PullRequestKey {
  return { forge: "gitea", repoName, number };
}

export function aPreviewRequest(number = 7, cause: PreviewCause = "pull-request"): PreviewRequest {
  return { kind: "preview", pullRequest: aPullRequestKey(number), cause };
}

export interface TestQueue {
  readonly redis: RedisServer;
  readonly prefix: string;
  readonly queue: JobQueue;
  readonly fairness: LaneFairness;
  /** Starts a worker of the reconcile lane; it is stopped when the test ends. */
  work(work: WorkerDeps<"reconcile">["work"], options?: Partial<WorkerDeps<"reconcile">>): RunningWorker;
  /** Starts a worker of any lane. */
  workOn<L extends Lane>(
    lane: L,
    work: WorkerDeps<L>["work"],
    options?: Partial<Omit<WorkerDeps<L>, "lane">>,
  ): RunningWorker;
}

/**
 * Short times, so that a test observes within a second what takes minutes in production. But locks last: on a busy machine a
 * process may stand still for seconds, and its jobs would run twice.
 */
const quick: Partial<Timing> = { lockMs: 30_000, stalledEveryMs: 400, busyRetryMs: 50, abortGraceMs: 500 };

/** With `beside`, on the Redis of another queue, like a second server. */
export async function useQueue(beside?: TestQueue): Promise<TestQueue> {
  const server = beside?.redis ?? useRedisServer();
  const prefix = beside?.prefix ?? uniquePrefix();
  if (beside === undefined) await server.start();
  const fairness = createFairness();
  const queue = createQueue({ connection: server.producer(), prefix, fairness, log: silentLog });
  function workOn<L extends Lane>(
    lane: L,
    work: WorkerDeps<L>["work"],
    { timing, ...options }: Partial<Omit<WorkerDeps<L>, "lane">> = {},
  ): RunningWorker {
    const worker = startWorker<L>({
      lane,
      connection: server.worker(),
      prefix,
      fairness,
      concurrency: 2,
      log: silentLog,
      work,
      timing: { ...quick, ...timing },
      ...options,
    });
    onTestFinished(() => worker.stop(0));
    return worker;
  }

  return {
    redis: server,
    prefix,
    queue,
    fairness,
    work: (work, options) => workOn("reconcile", work, options),
    workOn,
  };
}

/** Blocks work until it is opened. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { opened, open: () => open() };
}
