import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { Queue as BullQueue } from "bullmq";
import { pino } from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import { QueueUnavailableError } from "../../../src/errors.ts";
import type { ReconcileRequest } from "../../../src/model.ts";
import { aRequest, done, failedSoon, gate, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

const nothing = { waiting: 0, active: 0, delayed: 0 };

test("a job whose worker is killed is run by another worker, and so is a push that arrived meanwhile", async () => {
  const { queue, work, redis, prefix } = await useQueue();
  await queue.enqueue([aRequest("shop", "interval")]);
  const script = fileURLToPath(new URL("child-worker.ts", import.meta.url));
  const victim = spawn(process.execPath, [script, redis.socket, prefix], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void victim.kill("SIGKILL"));
  await once(victim.stdout, "data");
  await queue.enqueue([aRequest("shop", "push")]);

  victim.kill("SIGKILL");
  const runs: object[] = [];
  work(async ({ cause, also }, { attempt }) => {
    runs.push({ cause, also, attempt });
    return done;
  });

  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
  expect(runs).toEqual([
    { cause: "push", also: ["interval"], attempt: 1 },
    { cause: "push", also: undefined, attempt: 1 },
  ]);
});

test("a job whose lease another server holds is repeated until the lease is free, without using up attempts", async () => {
  const { queue, work } = await useQueue();
  const attempts: number[] = [];
  work(async (_, { attempt }) => {
    attempts.push(attempt);
    return attempts.length < 8 ? "busy" : done;
  });
  await queue.enqueue([aRequest()]);

  await vi.waitFor(() => expect(attempts).toHaveLength(8), patience);
  expect(new Set(attempts)).toEqual(new Set([1]));
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
});

test("a permanent failure is not retried, and a later push runs", async () => {
  const { queue, work } = await useQueue();
  const runs: ReconcileRequest[] = [];
  work(async (request) => {
    runs.push(request);
    return runs.length === 1 ? { kind: "failed", retry: "person", message: "target prod not found" } : done;
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  expect(runs).toHaveLength(1);

  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(runs).toHaveLength(2), patience);
});

test("a deployment that always fails does not block the others", async () => {
  const { queue, work } = await useQueue();
  const finished = new Set<string>();
  work(async ({ deployment }) => {
    if (deployment.name === "poison") throw new Error("a fault of ours");
    finished.add(deployment.name);
    return done;
  });
  const names = Array.from({ length: 50 }, (_, i) => `d${i}`);
  await queue.enqueue(["poison", ...names].map((name) => aRequest(name)));

  await vi.waitFor(() => expect(finished.size).toBe(50), patience);
  expect(await queue.depth()).toMatchObject({ delayed: 1 });
});

test("work that fails because Redis is away is retried, and only the connection logs it", async () => {
  const lines: string[] = [];
  const { queue, work } = await useQueue();
  let runs = 0;
  work(
    async () => {
      if (runs++ === 0) throw new QueueUnavailableError("Redis did not store the report");
      return done;
    },
    { log: pino({}, { write: (line: string) => void lines.push(line) }) },
  );
  await queue.enqueue([aRequest()]);

  await vi.waitFor(() => expect(runs).toBe(2), patience);
  expect(lines.join("")).not.toContain("job failed unexpectedly");
});

test("an unreadable job is dropped, and the next one runs", async () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const { queue, work, redis, prefix } = await useQueue();
  const bull = new BullQueue("reconcile", { connection: redis.worker(), prefix });
  onTestFinished(() => bull.close());
  const hostile = [
    {},
    null,
    "text",
    { v: 2, kind: "reconcile", namespace: "apps", name: "shop", cause: "push" },
    { v: 1, kind: "reconcile", namespace: "../..", name: "--help", cause: "push" },
    { v: 1, kind: "delete", namespace: "apps", name: "shop", cause: "push" },
  ];
  await bull.addBulk(hostile.map((data) => ({ name: "reconcile", data, opts: { attempts: 1_000_000 } })));
  const broken = await bull.add("reconcile", {});
  await redis.client().hset(bull.toKey(broken.id!), "data", "{not json");
  await queue.enqueue([aRequest()]);

  const runs: ReconcileRequest[] = [];
  work(
    async (request) => {
      runs.push(request);
      return done;
    },
    { log },
  );

  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  expect(runs).toHaveLength(1);
  expect(lines.filter((line) => line.includes("cannot read"))).toHaveLength(hostile.length + 1);
});

test("a job that took down too many workers is given up with a log line, and can be requested again", async () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => void lines.push(line) });
  const { queue, work, redis, prefix } = await useQueue();
  await queue.enqueue([aRequest()]);
  const client = redis.client();
  const [waiting] = await client.zrange(`${prefix}:reconcile:prioritized`, "0", "0");
  await client.hset(`${prefix}:reconcile:${waiting}`, { stc: "6", defa: "job stalled more than allowable limit" });

  const runs: ReconcileRequest[] = [];
  work(
    async (request) => {
      runs.push(request);
      return done;
    },
    { log },
  );
  await vi.waitFor(() => expect(lines.join()).toContain("job abandoned"), patience);
  expect(runs).toHaveLength(0);

  expect(await queue.enqueue([aRequest()])).toEqual({ queued: 1 });
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
});

test("a worker that stops lets running work finish", async () => {
  const { queue, work } = await useQueue();
  const held = gate();
  const worker = work(async () => {
    await held.opened;
    return done;
  });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(worker.running()).toBe(1), patience);

  const stopped = worker.stop(10_000);
  await queue.enqueue([aRequest("later")]);
  held.open();
  await stopped;

  const { active, waiting, delayed } = await queue.depth();
  expect({ active, left: waiting + delayed }).toEqual({ active: 0, left: 1 });
});

test("a job that is about to start when its worker stops is left to another worker", async () => {
  const { queue, work, redis } = await useQueue();
  const [asking, held] = [gate(), gate()];
  const connection = redis.worker();
  const evalsha = connection.evalsha.bind(connection);
  // Reading the causes is the last command to Redis before a job starts.
  connection.evalsha = (async (...args: Parameters<typeof evalsha>) => {
    asking.open();
    await held.opened;
    return evalsha(...args);
  }) as typeof evalsha;
  const runs: string[] = [];
  const first = work(
    async () => {
      runs.push("first");
      return done;
    },
    { connection },
  );
  await queue.enqueue([aRequest()]);
  await asking.opened;
  const stopped = first.stop(10_000);
  held.open();
  await stopped;
  work(async ({ cause }, { attempt }) => {
    runs.push(`another, ${cause} ${attempt}`);
    return done;
  });

  await vi.waitFor(() => expect(runs).toEqual(["another, push 1"]), patience);
});

test("work that does not finish in time is handed to another worker at once, without counting an attempt", async () => {
  const { queue, work } = await useQueue();
  const first = work(
    (_, { signal }) => new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  await queue.enqueue([aRequest("a"), aRequest("b")]);
  await vi.waitFor(() => expect(first.running()).toBe(2), patience);
  const attempts: string[] = [];
  work(async ({ deployment }, { attempt }) => {
    attempts.push(`${deployment.name} ${attempt}`);
    return done;
  });

  await first.stop(50);

  await vi.waitFor(() => expect(attempts.toSorted()).toEqual(["a 1", "b 1"]), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
});

test("work that ignores its abort signal is taken over when its lock expires", async () => {
  const { queue, work } = await useQueue();
  const first = work(() => new Promise(() => undefined), { timing: { lockMs: 2_500 } });
  await queue.enqueue([aRequest()]);
  await vi.waitFor(() => expect(first.running()).toBe(1), patience);
  await first.stop(0);

  const runs: ReconcileRequest[] = [];
  work(async (request) => {
    runs.push(request);
    return done;
  });
  await vi.waitFor(() => expect(runs).toHaveLength(1), patience);
});

test("after its last attempt a job is given up until its interval queues it again", async () => {
  const { queue, work } = await useQueue();
  const tries: boolean[] = [];
  work(async (_, { lastAttempt }) => {
    tries.push(lastAttempt);
    return failedSoon;
  });
  await queue.enqueue([aRequest()]);

  await vi.waitFor(() => expect(tries).toHaveLength(5), patience);
  await vi.waitFor(async () => expect(await queue.depth()).toEqual(nothing), patience);
  expect(tries).toEqual([false, false, false, false, true]);
  expect(await queue.enqueue([aRequest("shop", "interval")])).toEqual({ queued: 1 });
});
