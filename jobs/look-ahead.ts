/** What is done for a whole batch of requests in one round trip to Redis, before any job is made. */
import { hash, randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { RepoId, Request } from "../src/model.ts";
import { jobOfKey, priorityAt, waitingKey } from "./bullmq.ts";
import { movedKey } from "./keys.ts";
import { laneOf } from "./lanes.ts";

export interface LookAheadDeps {
  readonly connection: Redis;
  readonly prefix: string;
}

const moveKnownForS = 7 * 24 * 3_600;

/** First the keys of repositories, then two for each subject: its job's id, and the lane's waiting jobs. */
const script = `
local repositories = tonumber(ARGV[1])
for i = 1, repositories do redis.call("SET", KEYS[i], ARGV[2], "EX", ARGV[3]) end
local scores = {}
for i = repositories + 1, #KEYS, 2 do
  local id = redis.call("GET", KEYS[i])
  scores[#scores + 1] = id and redis.call("ZSCORE", KEYS[i + 1], id) or ""
end
return scores`;
const sha = hash("sha1", script);

/**
 * Notes that the repositories moved, and then tells the priority of the job that waits for each request's subject;
 * `undefined` where none waits. One that is found to wait begins after this, and so sees all that the request is about.
 */
export function createLookAhead({ connection, prefix }: LookAheadDeps) {
  return async function lookAhead(
    moved: readonly RepoId[],
    requests: readonly Request[],
  ): Promise<readonly (number | undefined)[]> {
    const keys = moved.map((repo) => movedKey(prefix, repo));
    for (const request of requests) {
      const lane = laneOf(request);
      keys.push(jobOfKey(prefix, lane, request), waitingKey(prefix, lane));
    }
    const rest = [keys.length, ...keys, moved.length, randomUUID(), moveKnownForS] as const;
    const scores = await connection.evalsha(sha, ...rest).catch((error: unknown) => {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return connection.eval(script, ...rest);
    });
    return (scores as string[]).map((score) => (score === "" ? undefined : priorityAt(score)));
  };
}
