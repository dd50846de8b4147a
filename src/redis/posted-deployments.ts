/** Stores what was written to the environments of git hosts: a hash per repository, with a field per environment and ref. */
import type { Redis } from "ioredis";
import { z } from "zod";
import { parseJson } from "../kit/json.ts";
import { type CommitKey, environmentTiers } from "../model.ts";
import type { PostedDeployments } from "../ports.ts";
import { createReadiness, withinDeadline } from "./connection.ts";
import { commit } from "./key-schemas.ts";
import { digest } from "./keys.ts";
import { evaluate, prepare } from "./scripts.ts";

export interface PostedDeploymentsDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
}

/** Becomes part of a URL. */
const id = z.string().regex(/^\d{1,20}$/);

const Posted = z.object({
  environment: z.string(),
  state: z.enum(["queued", "in_progress", "success", "failure", "canceled", "replaced"]),
  description: z.string(),
  ref: z.string(),
  url: z.string().optional(),
  tier: z.enum(environmentTiers).optional(),
  task: z.string(),
  commit,
  id: id.optional(),
  live: z.object({ commit, id: id.optional() }).optional(),
});

const deadlineMs = 2_000;
/** Since the last deployment in the repository. */
const keepMs = 90 * 24 * 3_600_000;

/** KEYS: the hash. ARGV: the field, its value as it was read (empty: there was none), its next value, how long to keep it. */
const replace = prepare(`
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
`);

export function createPostedDeployments({ connection, prefix }: PostedDeploymentsDeps): PostedDeployments {
  const ready = createReadiness(connection);

  async function inTime<T>(what: string, work: () => Promise<T>): Promise<T> {
    return withinDeadline(what, deadlineMs, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  const keyOf = ({ forge, repoName }: Omit<CommitKey, "commit">) =>
    `${prefix}:environments:${digest(`${forge}:${repoName.toLowerCase()}`)}`;

  return {
    async of(repo) {
      const key = keyOf(repo);
      const found = new Map(
        Object.entries(await inTime("return the environments", async () => connection.hgetall(key))),
      );
      return {
        // Those of another version count as unknown.
        all: [...found.values()].flatMap((json) => Posted.safeParse(parseJson(json)).data ?? []),
        async save(posted) {
          const field = digest(JSON.stringify([posted.task, posted.environment, posted.ref]));
          const next = JSON.stringify(posted);
          const isStored = await inTime("store the state of an environment", async () =>
            evaluate(connection, replace, [key], [field, found.get(field) ?? "", next, keepMs]),
          );
          if (isStored !== 1) return false;
          found.set(field, next);
          return true;
        },
      };
    },
  };
}
