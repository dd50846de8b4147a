/** Finds the deployments with a job in Redis that waits, runs or will be retried. Reads only. */
import type { ChainableCommander, Redis } from "ioredis";
import { type Key, keyText } from "../src/model.ts";
import { parseJson } from "../src/kit/json.ts";
import { createReadiness, withinDeadline } from "../src/redis/connection.ts";
import { deadlineMs, deduplicationId, delayedUntil, jobOfKey } from "./bullmq.ts";
import type { Lane } from "./lanes.ts";
import { type FoundJob, whyDelayed } from "./queued-jobs.ts";

/** Deployments are given as `namespace/name`. Throws QueueUnavailableError. */
export async function findQueued(
  connection: Redis,
  prefix: string,
  deployments: readonly string[],
): Promise<ReadonlySet<string>> {
  const keyOf = (deployment: string) => {
    const [namespace = "", name = ""] = deployment.split("/");
    return jobOfKey(prefix, "reconcile", requestOf({ namespace, name }));
  };
  if (deployments.length === 0) return new Set();
  const jobs = await withinDeadline("find the jobs", 2_000, () => connection.mget(deployments.map(keyOf)));
  return new Set(deployments.filter((_, i) => jobs[i]));
}

const lane: Lane = "reconcile";
/** Deployments in one command, and jobs in one round trip: Redis serves others in between. */
const [mostKeys, mostJobs] = [500, 200];

/**
 * The jobs of these deployments, by `namespace/name`, as `find` of the queue returns them one by one. Takes a single round
 * trip while the lane is empty, and one for each few hundred deployments and jobs otherwise. Throws QueueUnavailableError.
 */
export async function findJobs(
  connection: Redis,
  prefix: string,
  deployments: readonly Key[],
): Promise<ReadonlyMap<string, FoundJob>> {
  const toKey = (rest: string) => `${prefix}:${lane}:${rest}`;
  const found = new Map<string, FoundJob>();
  if (deployments.length === 0) return found;
  return withinDeadline("find the jobs", deadlineMs, async (signal) => {
    await createReadiness(connection)(signal);
    const lists = connection.pipeline().llen(toKey("active")).zcard(toKey("prioritized")).zcard(toKey("delayed"));
    if ((await exec(lists)).every((count) => count === 0)) return found;

    const jobs: { readonly deployment: Key; readonly id: string }[] = [];
    for (const some of inChunks(deployments, mostKeys)) {
      const ids = await connection.mget(some.map((one) => jobOfKey(prefix, lane, requestOf(one))));
      ids.forEach((id, i) => id !== null && jobs.push({ deployment: some[i]!, id }));
    }
    for (const some of inChunks(jobs, mostJobs)) {
      const pipeline = connection.pipeline();
      for (const { deployment, id } of some) {
        pipeline
          .lpos(toKey("active"), id)
          .exists(toKey(`dn:${deduplicationId(requestOf(deployment))}`))
          .zscore(toKey("prioritized"), id)
          .zscore(toKey("delayed"), id)
          .hmget(toKey(id), "timestamp", "failedReason", "progress");
      }
      const answers = await exec(pipeline);
      some.forEach(({ deployment }, i) => {
        const job = toFound(answers.slice(i * perJob, (i + 1) * perJob) as unknown as JobAnswers);
        if (job !== undefined) found.set(keyText(deployment), job);
      });
    }
    return found;
  });
}

const perJob = 5;
type JobAnswers = readonly [
  active: number | null,
  followed: number,
  waiting: string | null,
  delayed: string | null,
  fields: readonly (string | null)[],
];

/** `undefined`: it has ended since. */
function toFound([active, followed, waiting, delayed, fields]: JobAnswers): FoundJob | undefined {
  const [timestamp, failedReason, progress] = fields;
  if (active !== null) return { state: followed > 0 ? "waiting" : "active" };
  if (waiting !== null) return { state: "waiting", at: Number(timestamp) };
  if (delayed === null) return undefined;
  return {
    state: "delayed",
    why: failedReason ?? whyDelayed(parseJson(progress ?? "")),
    nextAt: delayedUntil(delayed),
  };
}

/** The job's subject does not depend on the cause. */
function requestOf(deployment: Key) {
  return { kind: "reconcile", deployment, cause: "push" } as const;
}

async function exec(pipeline: ChainableCommander): Promise<unknown[]> {
  const answers = (await pipeline.exec()) ?? [];
  return answers.map(([error, answer]) => {
    if (error) throw error;
    return answer;
  });
}

function* inChunks<T>(all: readonly T[], most: number): Generator<readonly T[]> {
  for (let i = 0; i < all.length; i += most) yield all.slice(i, i + most);
}
