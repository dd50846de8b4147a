/** Does, for a whole batch of requests, everything that one round trip to Redis can do before jobs are created. */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import type { RepoId, Request } from "../src/model.ts";
import { deduplicationId, jobOfKey, priorityAt, waitingKey } from "./bullmq.ts";
import { causesKey, movedKey } from "../src/redis/keys.ts";
import { laneOf } from "./lanes.ts";
import { evaluate, prepare } from "../src/redis/scripts.ts";

export interface LookAheadDeps {
  readonly connection: Redis;
  readonly prefix: string;
}

/** The causes for which one subject is requested; empty if they make no difference to the work. */
export interface Joining {
  readonly request: Request;
  readonly causes: ReadonlySet<string>;
}

const moveKnownForS = 7 * 24 * 3_600;

/**
 * KEYS: first the repositories' keys, then three for each subject: its job's id, the lane's waiting jobs, and the
 * causes. The causes are the remaining arguments. For a new cause no score is returned, because the job's data has to
 * record it, too.
 */
const script = prepare(`
local repositories = tonumber(ARGV[1])
for i = 1, repositories do redis.call("SET", KEYS[i], ARGV[2], "EX", ARGV[3]) end
local scores = {}
for i = repositories + 1, #KEYS, 3 do
  local news = 0
  for cause in string.gmatch(ARGV[4 + #scores], "%S+") do news = news + redis.call("SADD", KEYS[i + 2], cause) end
  if news > 0 then redis.call("EXPIRE", KEYS[i + 2], ARGV[3]) end
  local id = redis.call("GET", KEYS[i])
  scores[#scores + 1] = id and news == 0 and redis.call("ZSCORE", KEYS[i + 1], id) or ""
end
return scores`);

/**
 * Records that the repositories moved and the causes for each subject, and returns the priority of the job that already
 * waits for the subject with the same causes; `undefined` if there is none. A job found waiting starts after this, so
 * it sees everything that the request is about.
 */
export function createLookAhead({ connection, prefix }: LookAheadDeps) {
  return async function lookAhead(
    moved: readonly RepoId[],
    joining: readonly Joining[],
  ): Promise<readonly (number | undefined)[]> {
    const keys = moved.map((repo) => movedKey(prefix, repo));
    for (const { request } of joining) {
      const lane = laneOf(request);
      const causes = causesKey(prefix, deduplicationId(request), "asked");
      keys.push(jobOfKey(prefix, lane, request), waitingKey(prefix, lane), causes);
    }
    const causes = joining.map((one) => [...one.causes].join(" "));
    const args = [moved.length, randomUUID(), moveKnownForS, ...causes];
    const scores = await evaluate(connection, script, keys, args);
    return (scores as string[]).map((score) => (score === "" ? undefined : priorityAt(score)));
  };
}
