/** Servers that share a Redis and whose clocks are hours apart. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { aRequest, done, failedSoon, type TestQueue, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";
import { aShiftedClock } from "../../../dev/parts/shifted-clock.ts";
import { useTempDir } from "../../support/world.ts";

const twoHours = 7_200_000;

/** A worker on a server with a shifted clock; all its jobs fail and are retried, or never end. */
async function startElsewhere({ redis, prefix }: TestQueue, offsetMs: number, ...endless: readonly "endless"[]) {
  const { env } = await aShiftedClock(await useTempDir(), offsetMs);
  const script = fileURLToPath(new URL("child-failing-worker.ts", import.meta.url));
  const child = spawn(process.execPath, [script, redis.socket, prefix, ...endless], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return { child, started: once(child.stdout, "data") };
}

test.each([twoHours, -twoHours])(
  "a retry scheduled by a server whose clock is off by %i ms runs in time on another server",
  async (ms) => {
    const queue = await useQueue();
    await queue.queue.enqueue([aRequest()]);
    const { child, started } = await startElsewhere(queue, ms);
    await started;
    await vi.waitFor(async () => expect(await queue.queue.depth()).toMatchObject({ delayed: 1 }), patience);
    child.kill("SIGKILL");

    const attempts: number[] = [];
    queue.work((_, { attempt }) => {
      attempts.push(attempt);
      return Promise.resolve(done);
    });
    await vi.waitFor(() => expect(attempts).toHaveLength(1), patience);
    expect(attempts[0]).toBeGreaterThan(1);
  },
);

test.each([twoHours, -twoHours])(
  "a server whose clock is off by %i ms runs the retries of another, and waits for them without polling",
  async (ms) => {
    const queue = await useQueue();
    await queue.queue.enqueue([aRequest()]);
    const worker = queue.work(() => Promise.resolve(failedSoon));
    await vi.waitFor(async () => expect(await queue.queue.depth()).toMatchObject({ delayed: 1 }), patience);
    await worker.stop(0);

    const { started } = await startElsewhere(queue, ms);
    await started;
    await vi.waitFor(async () => expect(await queue.queue.depth()).toMatchObject({ delayed: 1 }), patience);
    const [, calls] = /^cmdstat_evalsha:calls=(\d+)/m.exec(await queue.redis.client().info("commandstats")) ?? [];
    expect(Number(calls)).toBeLessThan(300);
  },
);

test.each([twoHours, -twoHours])(
  "a server whose clock is off by %i ms keeps the locks of its jobs, so that no other takes them",
  async (ms) => {
    const queue = await useQueue();
    await queue.queue.enqueue([aRequest()]);
    const { started } = await startElsewhere(queue, ms, "endless");
    await started;
    const redis = queue.redis.client();
    const [lock = ""] = await redis.keys("*:lock");
    let left = await redis.pttl(lock);
    const isRenewed = async () => {
      const before = left;
      left = await redis.pttl(lock);
      return left > before;
    };
    await vi.waitFor(async () => expect(await isRenewed()).toBe(true), patience);
  },
);
