/** Connects to the server's Redis for its stored data. */
import { existsSync } from "node:fs";
import type { Redis } from "ioredis";
import { connectProducer, createReadiness, describeRedisError, withinDeadline } from "../redis/connection.ts";
import { privateSocket } from "../redis/private-redis.ts";
import { type Config, secretValues } from "../config.ts";
import { createLogger, type Logger } from "../log.ts";

const orInPod = "or run the command in its pod: kubectl exec deploy/towline -- towline …";

export interface OpenRedis {
  readonly connection: Redis;
  readonly log: Logger;
}

/** Opens the server's Redis, which may not answer; `undefined` if it is not configured here. */
async function openRedis(config: Config): Promise<OpenRedis | undefined> {
  const address = await findAddress(config);
  if (address === undefined) return undefined;
  const log = createLogger({ level: "silent", format: "json", secrets: secretValues(config) });
  const connection = connectProducer(address, log);
  connection.on("error", () => undefined); // the commands that need it report it
  return { connection, log };
}

/** For commands that only add to their output what Redis knows. Never throws. */
export async function openRedisOrWarn(config: Config, warn: (text: string) => void): Promise<OpenRedis | undefined> {
  try {
    return await openRedis(config);
  } catch (error) {
    warn(`cannot open the server's Redis: ${error instanceof Error ? error.message : String(error)}\n`);
    return undefined;
  }
}

/** Throws with advice if Redis is not configured or does not answer. */
export async function withRedis<T>(config: Config, work: (redis: Redis, log: Logger) => Promise<T>): Promise<T> {
  const opened = await openRedis(config);
  if (opened === undefined) {
    throw new Error(
      `this data is in the server's Redis, which is not configured here: set TOWLINE_REDIS_URL to it, ${orInPod}`,
    );
  }
  const { connection: redis, log } = opened;
  let trouble: string | undefined;
  redis.on("error", (error) => (trouble = describeRedisError(error)));
  try {
    await withinDeadline("take a connection", 5_000, createReadiness(redis)).catch((error: unknown) => {
      if (trouble === undefined) throw error;
      throw new Error(`cannot reach Redis: ${trouble}. Set TOWLINE_REDIS_URL to the server's Redis, ${orInPod}`);
    });
    return await work(redis, log);
  } finally {
    redis.disconnect();
  }
}

async function findAddress({ redis, dataDir }: Config) {
  const url = redis.url?.reveal();
  if (url !== undefined) return url.startsWith("unix://") ? { socket: url.slice("unix://".length) } : { url };
  const socket = await privateSocket(dataDir);
  return existsSync(socket) ? { socket } : undefined;
}
