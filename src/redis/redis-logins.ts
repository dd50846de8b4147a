/**
 * The logins that clients use for Redis. When a password is changed, the file and Redis never change at the same
 * moment: a client that is rejected with one login tries the other one, whichever changes first.
 */
import type { Redis } from "ioredis";

export interface RedisLogin {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** The sentinels' password. */
  readonly sentinelPassword?: string | undefined;
}

export interface RedisLogins {
  /** From its next connection on, this client and all its duplicates use the current login. */
  follow(redis: Redis): void;
  /** Keeps existing connections; new ones use this login. */
  replace(next: RedisLogin): void;
}

export function createRedisLogins(first: RedisLogin): RedisLogins {
  let current = first;
  let previous = first;
  const clients = new Map<Redis, RedisLogin>();

  function use(redis: Redis, login: RedisLogin): void {
    clients.set(redis, login);
    const { username, password, sentinelPassword } = login;
    Object.assign(redis.options, { username, password, sentinelPassword: sentinelPassword ?? null });
  }

  function follow(redis: Redis): void {
    use(redis, current);
    redis.on("error", (error) => {
      if (isRefusal(error)) use(redis, clients.get(redis) === current ? previous : current);
    });
    redis.on("end", () => clients.delete(redis));
    // BullMQ's workers wait for jobs on a separate connection.
    const { duplicate } = redis;
    redis.duplicate = (...options) => {
      const copy = duplicate.apply(redis, options);
      follow(copy);
      return copy;
    };
  }

  return {
    follow,
    replace(next) {
      [previous, current] = [current, next];
      for (const redis of clients.keys()) use(redis, current);
    },
  };
}

/** Whether Redis or a sentinel rejected the login. */
function isRefusal({ message }: Error): boolean {
  return /\b(?:WRONGPASS|NOAUTH)\b/.test(message);
}
