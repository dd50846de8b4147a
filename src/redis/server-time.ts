/**
 * Uses Redis' clock for times that replicas share: BullMQ stores and evaluates when a delayed job is due by the clock
 * of whichever process does it. With two clocks that are two hours apart, a retry after one second would wait for two
 * hours.
 */
import type { Redis } from "ioredis";

/** BullMQ's scripts that store or evaluate due times and get the current time as an argument. */
const timed = new Set(["moveToActive", "moveToDelayed", "moveToFinished", "retryJob", "moveStalledJobsToWait"]);

const askEveryMs = 10_000;

/** Makes BullMQ's scripts on this connection take the time from Redis instead of their argument. */
export function useServerTime(redis: Redis): void {
  const define = redis.defineCommand.bind(redis);
  redis.defineCommand = (name, { lua, ...definition }) =>
    define(name, { ...definition, lua: timed.has(name.split(":", 1)[0] ?? "") ? withServerTime(name, lua) : lua });
}

/** The comment at the start of each script gives the argument's position. */
function withServerTime(name: string, lua: string | undefined): string {
  const [, place] = /^\s*ARGV\[(\d+)\]\s+timestamp\s*$/m.exec(lua ?? "") ?? [];
  if (place === undefined) throw new Error(`BullMQ's script ${name} does not say where it takes the time from`);
  return `local time = redis.call("TIME")
ARGV[${place}] = string.format("%.0f", time[1] * 1000 + math.floor(time[2] / 1000))
${lua}`;
}

/** Epoch milliseconds by Redis' clock, based on its last answer; by the local clock until there is one. */
export function startServerClock(redis: Redis): { now(): number; stop(): void } {
  let offset = Date.now() - performance.now();
  const ask = () =>
    redis.time().then(
      ([seconds, micros]) => (offset = Number(seconds) * 1_000 + Number(micros) / 1_000 - performance.now()),
      () => undefined, // Redis is unavailable, which its connection reports
    );
  void ask();
  const timer = setInterval(() => void ask(), askEveryMs).unref();
  return { now: () => performance.now() + offset, stop: () => clearInterval(timer) };
}
