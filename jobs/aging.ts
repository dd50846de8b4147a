/**
 * Moves long-waiting jobs up a class, so that no job waits forever behind more urgent ones. Each process measures the
 * time since it first saw a job at its place, so the clocks of other machines do not matter; a job that was moved has a
 * new place, from which all processes measure again.
 */
import { Job, type Worker } from "bullmq";
import type { Redis } from "ioredis";
import type { Logger } from "../src/log.ts";
import { priorityAt, scoreOf, waitingKey } from "./bullmq.ts";
import { describeRedisError } from "../src/redis/connection.ts";
import { type Fairness, firstPlaceOf, urgencyAt } from "./fairness.ts";
import type { Lane } from "./lanes.ts";

export interface AgingDeps {
  readonly connection: Redis;
  readonly prefix: string;
  readonly lane: Lane;
  readonly worker: Worker;
  readonly fairness: Fairness;
  readonly everyMs: number;
  /** A job that has waited this long moves up. */
  readonly afterMs: number;
  readonly log: Logger;
}

/** The number of jobs checked, from the front of the less urgent classes. */
const mostWatched = 5_000;
/** Per check. */
const mostMoved = 100;

/** Returns a function that stops it. */
export function startAging(deps: AgingDeps): () => void {
  const { connection, prefix, lane, worker, fairness, everyMs, afterMs, log } = deps;
  /** Job and place → when it was first seen there, by the monotonic clock. */
  let seenAt = new Map<string, number>();

  async function look(): Promise<void> {
    const key = waitingKey(prefix, lane);
    const from = scoreOf(firstPlaceOf(1));
    const found = await connection.zrangebyscore(key, from, "+inf", "WITHSCORES", "LIMIT", 0, mostWatched);
    const now = performance.now();
    const seen = new Map<string, number>();
    const old: { id: string; urgency: number }[] = [];
    for (let i = 0; i < found.length; i += 2) {
      const [id = "", score = ""] = [found[i], found[i + 1]];
      const since = seenAt.get(`${id} ${score}`) ?? now;
      seen.set(`${id} ${score}`, since);
      if (now - since >= afterMs) old.push({ id, urgency: urgencyAt(priorityAt(score)) });
    }
    seenAt = seen;
    await Promise.all(
      old.slice(0, mostMoved).map(async ({ id, urgency }) => {
        const job = await Job.fromId(worker, id);
        await job?.changePriority({ priority: fairness.placeOfAged(urgency - 1) });
      }),
    );
  }

  let stopped = false;
  let timer = setTimeout(() => void goOn(), everyMs);
  async function goOn(): Promise<void> {
    await look().catch((error: unknown) =>
      log.debug({ lane, error: describeRedisError(error) }, "could not raise the priority of waiting jobs"),
    );
    if (!stopped) timer = setTimeout(() => void goOn(), everyMs);
  }
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
