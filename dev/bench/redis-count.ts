/** Counts the keys of a Redis and the commands it has run. */
import { connectProducer } from "../../src/redis/connection.ts";
import { createLogger } from "../../src/log.ts";

export interface RedisCount {
  readonly keys: number;
  readonly bytes: number;
  /** Since its start, including commands inside scripts. */
  readonly commands: number;
}

export interface RedisCounter {
  count(): Promise<RedisCount>;
  /** Deletes all data. */
  flush(): Promise<void>;
  close(): void;
}

export async function openRedisCounter(url: string): Promise<RedisCounter> {
  const redis = connectProducer({ url }, createLogger({ level: "silent", format: "json" }));
  await new Promise<void>((resolve) => redis.once("ready", () => resolve()));
  const number = (text: string, pattern: RegExp) =>
    [...text.matchAll(pattern)].reduce((sum, [, value]) => sum + Number(value), 0);
  return {
    async count() {
      const [stats, memory] = [await redis.info("commandstats"), await redis.info("memory")];
      return {
        keys: await redis.dbsize(),
        bytes: number(memory, /^used_memory:(\d+)/gm),
        commands: number(stats, /^cmdstat_[^:]+:calls=(\d+)/gm),
      };
    },
    async flush() {
      await redis.flushall();
    },
    close: () => redis.disconnect(),
  };
}
