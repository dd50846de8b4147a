/** Connections to Redis: producers and workers need different options, and passwords must not reach a log. */
import { Redis, type RedisOptions } from "ioredis";
import { QueueUnavailableError } from "../errors.ts";
import { within } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";
import { findNewerFormat } from "./format.ts";
import type { RedisLogins } from "./redis-logins.ts";
import { useServerTime } from "./server-time.ts";

/** The address of Redis: a `redis:` or `rediss:` URL, or a unix socket. */
export type RedisAddress = RedisByUrl | { readonly socket: string };

export interface RedisByUrl {
  readonly url: string;
  /** PEM certificates of the CAs that sign the certificates of Redis and its sentinels. */
  readonly ca?: string | undefined;
  /** `host:port` of the sentinels; the URL's host is then the name of the master. */
  readonly sentinels?: readonly string[] | undefined;
  readonly sentinelPassword?: string | undefined;
  /** Replaces the URL's login and the sentinels' password. */
  readonly logins?: RedisLogins | undefined;
}

/** A connection counts as dead after this long without a response; a worker's longest blocking read takes 10 s. */
const silentMs = { producer: 5_000, worker: 30_000 };

/** A connection for callers that wait for the result: fails fast and queues nothing while offline. */
export function connectProducer(address: RedisAddress, log: Logger): Redis {
  return connect(address, log.child({ redis: "producer" }), {
    enableOfflineQueue: false,
    maxRetriesPerRequest: 1,
    commandTimeout: 2_000,
    socketTimeout: silentMs.producer,
  });
}

/** A connection for workers. BullMQ requires that their commands are retried forever. */
export function connectWorker(address: RedisAddress, log: Logger): Redis {
  return connect(address, log.child({ redis: "worker" }), {
    maxRetriesPerRequest: null,
    socketTimeout: silentMs.worker,
  });
}

function connect(address: RedisAddress, log: Logger, options: RedisOptions): Redis {
  const all: RedisOptions = {
    connectTimeout: 5_000,
    retryStrategy: (times) => Math.min(100 * times, 1_000),
    // A former master answers READONLY after a failover: reconnect to the current one.
    reconnectOnError: (error) => error.message.startsWith("READONLY"),
    ...options,
  };
  const redis =
    "url" in address
      ? new Redis(address.url, { ...all, ...optionsOf(address) })
      : new Redis({ ...all, path: address.socket });
  useServerTime(redis);
  if ("url" in address) address.logins?.follow(redis);
  /** The errors logged since the connection last worked: each reason once, because several may follow each other. */
  const logged = new Set<string>();
  redis.on("error", (error) => {
    const reason = describeRedisError(error);
    if (!logged.has(reason)) log.warn({ error: reason }, "Redis connection failed");
    logged.add(reason);
  });
  redis.on("ready", () => {
    if (logged.size > 0) log.info("Redis connection restored");
    logged.clear();
  });
  return redis;
}

/** The options that the URL does not contain. */
function optionsOf({ url, ca, sentinels = [], sentinelPassword }: RedisByUrl): RedisOptions {
  const tls = url.startsWith("rediss:") ? { ...(ca !== undefined && { ca }) } : undefined;
  if (sentinels.length === 0) return tls ? { tls } : {};
  return {
    name: new URL(url).hostname,
    sentinels: sentinels.map((sentinel) => {
      const at = sentinel.lastIndexOf(":");
      return { host: sentinel.slice(0, at).replace(/^\[|\]$/g, ""), port: Number(sentinel.slice(at + 1)) };
    }),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    ...(tls && { tls, enableTLSForSentinelMode: true, sentinelTLS: tls }),
  };
}

const unknownSigner = new Set([
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
]);

/**
 * Describes a Redis error for logs and messages. Never log the error itself: it contains the command with its
 * arguments, and for AUTH those include the password.
 */
export function describeRedisError(error: unknown): string {
  if (!(error instanceof Error)) return "unknown error";
  const { code } = error as NodeJS.ErrnoException;
  const { message } = error;
  if (message.startsWith("NOAUTH")) return "it requires a password: set TOWLINE_REDIS_PASSWORD";
  if (message.startsWith("WRONGPASS")) return "it rejected the password (TOWLINE_REDIS_PASSWORD)";
  if (message.startsWith("Stream isn't writeable")) return "not connected";
  // The client reports this also if the sentinels respond but the Redis they name does not.
  if (message.startsWith("All sentinels are unreachable")) return "no sentinel reports a reachable Redis";
  if (code !== undefined && unknownSigner.has(code))
    return `${message}: set TOWLINE_REDIS_CA_FILE to the CA that signed its certificate`;
  return message || code || error.name;
}

/**
 * Awaits `work` for at most `ms`, then aborts it. Any failure becomes a QueueUnavailableError that names the operation.
 */
export async function withinDeadline<T>(
  what: string,
  ms: number,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  try {
    return await within(ms, work(controller.signal), () => {
      const why = new Error(`no response within ${ms / 1_000} s`);
      controller.abort(why);
      throw why;
    });
  } catch (error) {
    throw new QueueUnavailableError(`Redis did not ${what}: ${describeRedisError(error)}`);
  }
}

type Readiness = (signal: AbortSignal) => Promise<void>;

/** Everything that uses a connection shares one listener. */
const known = new WeakMap<Redis, Readiness>();

/** Returns a function that waits until the client accepts commands; BullMQ's own has no timeout. */
export function createReadiness(redis: Redis): Readiness {
  const ready = known.get(redis) ?? newReadiness(redis);
  known.set(redis, ready);
  return ready;
}

function newReadiness(redis: Redis): Readiness {
  const waiting = new Set<() => void>();
  redis.on("ready", () => {
    for (const resolve of waiting) resolve();
    waiting.clear();
  });
  return async function ready(signal) {
    if (redis.status === "ready") return;
    await new Promise<void>((resolve, reject) => {
      waiting.add(resolve);
      signal.addEventListener("abort", () => {
        waiting.delete(resolve);
        reject(signal.reason as Error);
      });
    });
  };
}

export interface RedisReport {
  readonly version: string;
  /** Why this Redis cannot be used, for display; empty if it can. */
  readonly problems: readonly string[];
  /** Configuration that may cause problems later. */
  readonly warnings: readonly string[];
}

const oldest = [6, 2] as const;

/**
 * Checks the version, what Redis does when its memory is full, and whether this version of Towline can read what is stored there.
 * Throws if Redis does not respond.
 */
export async function checkRedis(redis: Redis, prefix: string): Promise<RedisReport> {
  const [info, newer] = await withinDeadline("answer", 2_000, () =>
    Promise.all([redis.info(), findNewerFormat(redis, prefix)]),
  );
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
  const problems: string[] = newer === undefined ? [] : [newer];
  const warnings: string[] = [];

  const version = field("redis_version") ?? "0";
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
    problems.push(`Redis ${version} is too old: version ${oldest.join(".")} or newer is needed.`);
  }
  const policy = field("maxmemory_policy") ?? "noeviction";
  if (policy !== "noeviction") {
    problems.push(
      `Redis would drop queued jobs when its memory is full: set maxmemory-policy to noeviction (it is ${policy}).`,
    );
  }
  if (field("aof_enabled") === "0") {
    warnings.push(
      "Redis has no append-only file (appendonly no): queued jobs are lost when it restarts, until the next sweep finds them again.",
    );
  }
  return { version, problems, warnings };
}
