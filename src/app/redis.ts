/** Which Redis the server uses, and what is told of it. */
import { readFile } from "node:fs/promises";
import type { Redis } from "ioredis";
import { checkRedis, describeRedisError, type RedisAddress, type RedisReport } from "../../jobs/connection.ts";
import { startPrivateRedis, type PrivateRedis } from "../../jobs/private-redis.ts";
import { createRedisLogins, type RedisLogin } from "../../jobs/redis-logins.ts";
import type { Config } from "../config.ts";
import { same } from "../config/compare.ts";
import { createLiveConfig, type LiveConfig } from "../config/live.ts";
import { explainUnreadable } from "../config/file.ts";
import { ConfigError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";

export interface FoundRedis {
  readonly address: RedisAddress;
  /** The one that was started because none is configured; it ends with the server. */
  readonly privateRedis?: PrivateRedis | undefined;
}

/** Its login is the one in effect, if that is told. */
export async function findRedis(
  config: Config,
  log: Logger,
  live: LiveConfig = createLiveConfig(config),
): Promise<FoundRedis> {
  const url = config.redis.url?.reveal();
  if (url !== undefined) {
    if (url.startsWith("unix://")) return { address: { socket: url.slice("unix://".length) } };
    const { caFile, sentinels, sentinelPassword } = config.redis;
    const ca = caFile === undefined ? undefined : await readAuthorities(caFile);
    const logins = createRedisLogins(toLogin(config));
    live.follow((next, current) =>
      same(toLogin(next), toLogin(current)) ? undefined : { take: () => logins.replace(toLogin(next)) },
    );
    return { address: { url, ca, sentinels, sentinelPassword: sentinelPassword?.reveal(), logins } };
  }
  const privateRedis = await startPrivateRedis({ dataDir: config.dataDir, binary: config.redis.server, log });
  return { address: { socket: privateRedis.socket }, privateRedis };
}

function toLogin({ redis }: Pick<Config, "redis">): RedisLogin {
  const { username = "", password = "" } = URL.parse(redis.url?.reveal() ?? "") ?? {};
  return {
    username: decodeURIComponent(username) || undefined,
    password: decodeURIComponent(password) || undefined,
    sentinelPassword: redis.sentinelPassword?.reveal(),
  };
}

async function readAuthorities(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((error: unknown) => {
    throw new ConfigError(`redis.caFile: ${path} cannot be read: ${explainUnreadable(error)}`, { cause: error });
  });
  if (text.includes("-----BEGIN CERTIFICATE-----")) return text;
  throw new ConfigError(`redis.caFile: ${path} contains no PEM certificate`);
}

export interface WatchedRedis {
  /** Throws when Redis does not answer, and says why it cannot be reached. */
  check(): Promise<RedisReport>;
}

/** Each time Redis comes (back), it may be another version, or configured anew: what is wrong with it is told then. */
export function watchRedis(redis: Redis, metrics: Pick<Metrics, "redisUp">, log: Logger): WatchedRedis {
  let trouble: string | undefined;
  redis.on("error", (error) => {
    trouble = describeRedisError(error);
  });
  redis.on("close", () => metrics.redisUp(false));
  redis.on("ready", () => {
    trouble = undefined;
    metrics.redisUp(true);
    checkRedis(redis).then(
      ({ problems, warnings }) => {
        for (const problem of problems) log.error({ problem }, "Redis is not configured safely");
        for (const warning of warnings) log.warn({ warning }, "Redis may lose queued jobs");
      },
      () => undefined, // it is gone again, which the connection tells
    );
  });
  return {
    async check() {
      // What a command says that finds no connection is not why there is none.
      if (trouble !== undefined && redis.status !== "ready") throw new Error(`Redis connection failed: ${trouble}`);
      return checkRedis(redis);
    },
  };
}
