/**
 * Redis' own time for what replicas share: BullMQ writes when a delayed job is due, and decides whether it is, by the clock of
 * the process that happens to do so. With two clocks two hours apart, a retry of one second waits for two hours.
 */
import type { Redis } from "ioredis";

/** BullMQ's scripts that write or read when a job is due, and get the time as an argument. */
const timed = new Set(["moveToActive", "moveToDelayed", "moveToFinished", "retryJob", "moveStalledJobsToWait"]);

const askEveryMs = 10_000;

/** From now on BullMQ's scripts on this connection take the time from Redis, whatever they are given. */
export function useServerTime(redis: Redis): void {
  const define = redis.defineCommand.bind(redis);
  redis.defineCommand = (name, { lua, ...definition }) =>
    define(name, { ...definition, lua: timed.has(name.split(":", 1)[0] ?? "") ? withServerTime(name, lua) : lua });
}

/** The place of the argument stands in the comment at the beginning of each script. */
function withServerTime(name: string, lua: string | undefined): string {
  const [, place] = /^\s*ARGV\[(\d+)\]\s+timestamp\s*$/m.exec(lua ?? "") ?? [];
  if (place === undefined) throw new Error(`BullMQ's script ${name} does not say where it takes the time from`);
  return `local time = redis.call("TIME")
ARGV[${place}] = string.format("%.0f", time[1] * 1000 + math.floor(time[2] / 1000))
${lua}`;
}

/** Epoch milliseconds by Redis' clock, as of its last answer; by ours until there is one. */
export function startServerClock(redis: Redis): { now(): number; stop(): void } {
  let offset = Date.now() - performance.now();
  const ask = () =>
    redis.time().then(
      ([seconds, micros]) => (offset = Number(seconds) * 1_000 + Number(micros) / 1_000 - performance.now()),
      () => undefined, // Redis is away: its connection says so
    );
  void ask();
  const timer = setInterval(() => void ask(), askEveryMs).unref();
  return { now: () => performance.now() + offset, stop: () => clearInterval(timer) };
}
