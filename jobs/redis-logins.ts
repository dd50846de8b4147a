/**
 * What clients log in to Redis with. While a password is exchanged, the file and Redis never change in the same moment: who is
 * refused with one login tries the other, and so finds its way whichever comes first.
 */
import type { Redis } from "ioredis";

export interface RedisLogin {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Of the sentinels. */
  readonly sentinelPassword?: string | undefined;
}

export interface RedisLogins {
  /** From its next connection on, this client and all duplicates of it use what is in effect then. */
  follow(redis: Redis): void;
  /** Who is connected stays so; the next connection is made with this one. */
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
    // BullMQ's workers wait for jobs on a connection of their own.
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

/** Of the login, by Redis or a sentinel. */
function isRefusal({ message }: Error): boolean {
  return /\b(?:WRONGPASS|NOAUTH)\b/.test(message);
}
