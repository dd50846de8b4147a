/** Chooses the server's Redis, and monitors it. */
import { readFile } from "node:fs/promises";
import type { Redis } from "ioredis";
import { checkRedis, describeRedisError, type RedisAddress, type RedisReport } from "../redis/connection.ts";
import { recordFormat } from "../redis/format.ts";
import { startPrivateRedis, type PrivateRedis } from "../redis/private-redis.ts";
import { createRedisLogins, type RedisLogin } from "../redis/redis-logins.ts";
import type { Config } from "../config.ts";
import { same } from "../config/compare.ts";
import { createLiveConfig, type LiveConfig } from "../config/live.ts";
import { explainUnreadable } from "../config/file.ts";
import { ConfigError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { Metrics } from "../metrics.ts";

export interface FoundRedis {
  readonly address: RedisAddress;
  /** The Redis that the server started because none is configured; it stops with the server. */
  readonly privateRedis?: PrivateRedis | undefined;
}

/** Follows changes of the login if a live configuration is given. */
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
    live.onChange((next, previous) => {
      if (!same(toLogin(next), toLogin(previous))) logins.replace(toLogin(next));
    });
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
  /** Throws if Redis does not respond; the error says why it cannot be reached. */
  check(): Promise<RedisReport>;
}

/** Checks Redis after each connect, because it may be another version or have another configuration by then. */
export function watchRedis(redis: Redis, prefix: string, metrics: Pick<Metrics, "redisUp">, log: Logger): WatchedRedis {
  let trouble: string | undefined;

  async function examine(): Promise<void> {
    const { problems, warnings } = await checkRedis(redis, prefix);
    for (const problem of problems) log.error({ problem }, "Redis cannot be used safely");
    for (const warning of warnings) log.warn({ warning }, "Redis may lose queued jobs");
    await recordFormat(redis, prefix);
  }

  redis.on("error", (error) => {
    trouble = describeRedisError(error);
  });
  redis.on("close", () => metrics.redisUp(false));
  redis.on("ready", () => {
    trouble = undefined;
    metrics.redisUp(true);
    examine().catch(() => undefined); // the connection was lost again, which the connection reports itself
  });
  return {
    async check() {
      // The error of a command sent while disconnected does not say why the connection failed.
      if (trouble !== undefined && redis.status !== "ready") throw new Error(`Redis connection failed: ${trouble}`);
      return checkRedis(redis, prefix);
    },
  };
}
