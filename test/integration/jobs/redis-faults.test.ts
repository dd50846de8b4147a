import { inspect } from "node:util";
import { pino } from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import { checkRedis, connectProducer } from "../../../src/redis/connection.ts";
import { recordFormat, storedFormat } from "../../../src/redis/format.ts";
import { createFairness } from "../../../jobs/fairness.ts";
import { createQueue } from "../../../jobs/queue.ts";
import { startWorker } from "../../../jobs/worker.ts";
import { QueueUnavailableError } from "../../../src/errors.ts";
import type { RepoId, ReconcileRequest } from "../../../src/model.ts";
import { silentLog } from "../../support/fakes.ts";
import { aRequest, done, gate, useQueue } from "../../support/jobs.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";
import { patience } from "../../support/patience.ts";

const nothing = { waiting: 0, active: 0, delayed: 0 };

async function refusedInTime(work: () => Promise<unknown>): Promise<void> {
  await expect(work()).rejects.toThrow(QueueUnavailableError);
}

test("if Redis is down at start, requests are refused in time, and accepted and run once it is up", async () => {
  const server = useRedisServer();
  const prefix = uniquePrefix();
  const fairness = createFairness();
  const queue = createQueue({ connection: server.producer(), prefix, fairness, log: silentLog });
  const runs: ReconcileRequest[] = [];
  const worker = startWorker({
    lane: "reconcile",
    connection: server.worker(),
    prefix,
    fairness,
    concurrency: 1,
    log: silentLog,
    work: async (request) => {
      runs.push(request);
      return done;
    },
  });
  onTestFinished(() => worker.stop(0));

  await refusedInTime(() => queue.enqueue([aRequest()]));
  expect(await queue.lastMove("git.example.com/org/shop" as RepoId)).toBeUndefined();
  await server.start();

  await vi.waitFor(async () => expect(await queue.enqueue([aRequest()])).toEqual({ queued: 1 }), patience);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
});

test("if Redis is frozen at start, requests are refused in time, and accepted once it has thawed", async () => {
  const server = useRedisServer();
  await server.start();
  server.freeze();
  const queue = createQueue({
    connection: server.producer(),
    prefix: uniquePrefix(),
    fairness: createFairness(),
    log: silentLog,
  });

  await refusedInTime(() => queue.enqueue([aRequest()]));
  await refusedInTime(() => queue.enqueue([aRequest()]));
  server.thaw();

  await vi.waitFor(async () => expect((await queue.enqueue([aRequest()])).queued).toBeLessThan(2), patience);
  expect(await queue.depth()).toMatchObject({ waiting: 1 });
});

test("if Redis freezes later, requests are refused in time, and work continues once it has thawed", async () => {
  const { queue, work, redis } = await useQueue();
  const runs: ReconcileRequest[] = [];
  work(async (request) => {
    runs.push(request);
    return done;
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  redis.freeze();
  await refusedInTime(() => queue.enqueue([aRequest()]));
  await refusedInTime(() => queue.markMoved("git.example.com/org/shop" as RepoId));
  redis.thaw();

  await vi.waitFor(() => queue.enqueue([aRequest("other")]), patience);
  await vi.waitFor(() => expect(runs.map(({ deployment }) => deployment.name)).toContain("other"), patience);
});

test("a job that runs while Redis restarts from its append-only file is finished once", async () => {
  const { queue, work, redis } = await useQueue();
  const runs: ReconcileRequest[] = [];
  const held = gate();
  work(
    async (request) => {
      runs.push(request);
      await held.opened;
      return done;
    },
    { timing: { lockMs: 10_000 } },
  );
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  await redis.stop();
  held.open();
  await redis.start();

  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  expect(runs).toHaveLength(1);
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
});

test("if Redis loses its data during a job, the next request is accepted and runs", async () => {
  const { queue, work, redis } = await useQueue();
  const runs: ReconcileRequest[] = [];
  const held = gate();
  work(async (request) => {
    runs.push(request);
    await held.opened;
    return done;
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  await redis.client().flushall();
  held.open();
  expect(await queue.enqueue([aRequest()])).toEqual({ queued: 1 });

  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
});

test("a full Redis refuses requests with its own error, and accepts them again once there is room", async () => {
  const { queue, redis } = await useQueue();
  await queue.enqueue([aRequest("first")]);
  await redis.client().config("SET", "maxmemory", "1");

  await expect(queue.enqueue([aRequest()])).rejects.toThrow(/OOM/);
  await redis.client().config("SET", "maxmemory", "0");

  expect(await queue.enqueue([aRequest()])).toEqual({ queued: 1 });
});

test("an idle worker finds work again after an outage of Redis", async () => {
  const { queue, work, redis } = await useQueue();
  const runs: ReconcileRequest[] = [];
  work(async (request) => {
    runs.push(request);
    return done;
  });
  await queue.enqueue([aRequest("before")]);
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);

  await redis.stop();
  await refusedInTime(() => queue.enqueue([aRequest("while")]));
  await redis.start();

  await vi.waitFor(() => queue.enqueue([aRequest("after")]), patience);
  await vi.waitFor(() => expect(runs.map(({ deployment }) => deployment.name)).toContain("after"), patience);
});

test("a worker stops in time during an outage of Redis", async () => {
  const { queue, work, redis } = await useQueue();
  const worker = work(() => new Promise(() => undefined));
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(worker.running()).toBe(1), patience);

  await redis.stop();
  await worker.stop(100);
});

test("an eviction policy that would drop queued work is reported as a problem, a Redis without persistence as a warning", async () => {
  const server = useRedisServer({ appendOnly: false });
  await server.start();
  const client = server.client();

  const good = await checkRedis(client, "towline");
  await client.config("SET", "maxmemory-policy", "allkeys-lru");
  const bad = await checkRedis(client, "towline");

  expect(good.problems).toEqual([]);
  expect(good.warnings).toEqual([expect.stringContaining("append-only")]);
  expect(bad.problems).toEqual([expect.stringContaining("noeviction")]);
});

test("what a newer version has stored is not used by an earlier one, which says so", async () => {
  const server = useRedisServer();
  await server.start();
  const client = server.client();
  await recordFormat(client, "towline");
  expect(await client.get("towline:format")).toBe(`${storedFormat}`);
  expect((await checkRedis(client, "towline")).problems).toEqual([]);

  await client.set("towline:format", storedFormat + 1);
  await recordFormat(client, "towline");

  const { problems } = await checkRedis(client, "towline");
  expect(problems).toEqual([
    expect.stringContaining(`format ${storedFormat + 1}; this version reads up to ${storedFormat}`),
  ]);
  expect((await checkRedis(client, "another")).problems).toEqual([]);
});

test("logs and errors never contain the password", async () => {
  const server = useRedisServer();
  await server.start();
  await server.client().config("SET", "requirepass", "right");
  const lines: string[] = [];
  const log = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
  const connection = connectProducer({ url: `${server.socket}?password=canary-5f0e` }, log);
  onTestFinished(() => connection.disconnect());
  const queue = createQueue({ connection, prefix: uniquePrefix(), fairness: createFairness(), log });

  const error = await queue.enqueue([aRequest()]).catch((reason: unknown) => reason);

  expect(error).toBeInstanceOf(QueueUnavailableError);
  expect(lines.join()).toContain("rejected the password");
  expect(inspect([lines, error], { depth: 10 })).not.toContain("canary-5f0e");
});
