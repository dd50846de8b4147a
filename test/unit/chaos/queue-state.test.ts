import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import { readQueue } from "../../../dev/chaos/queue-state.ts";

type Value = readonly string[] | Readonly<Record<string, string>>;

const [job, gone] = ["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"];

/** A Redis with these keys; events are `time event id`. */
function aRedis(keys: Readonly<Record<string, Value>>) {
  const list = (key: string) => (Array.isArray(keys[key]) ? (keys[key] as readonly string[]) : []);
  const client = {
    keys: () => Promise.resolve(Object.keys(keys)),
    type: (key: string) => Promise.resolve(/:(?:wait|active|paused)$/.test(key) ? "list" : "zset"),
    lrange: (key: string) => Promise.resolve(list(key)),
    zrange: (key: string) => Promise.resolve(list(key)),
    xrange: (key: string, from: string) =>
      Promise.resolve(
        list(key)
          .map((text) => text.split(" "))
          .filter(([at]) => from === "-" || Number(at) >= Number(from))
          .map(([at, event, id]) => [`${at}-0`, ["event", event, "jobId", id]]),
      ),
    hget: (key: string, field: string) => Promise.resolve((keys[key] as Record<string, string>)?.[field] ?? null),
  };
  return { ask: <T>(question: (redis: Redis) => Promise<T>) => question(client as unknown as Redis) };
}

const read = (keys: Readonly<Record<string, Value>>, mayLeaveCauses = false) =>
  readQueue(aRedis(keys), 8_000, mayLeaveCauses);
const nothing = { queued: [], failed: [], strayKeys: [], begun: [] };
const aJob = { deid: "reconcile:chaos/shop", failedReason: "failed too often" };

test.each(["wait", "active", "paused", "prioritized", "delayed"])("a job that is in %s is queued", async (state) => {
  expect(await read({ [`chaos:reconcile:${state}`]: ["0:123", job] })).toMatchObject({
    queued: [`reconcile job ${job} (${state})`],
  });
});

test("jobs that have ended are not queued, and nothing of theirs is stray", async () => {
  const keys = {
    "chaos:reconcile:completed": [job],
    "chaos:reconcile:failed": [gone],
    [`chaos:reconcile:${job}`]: aJob,
    [`chaos:reconcile:${gone}`]: aJob,
  };
  expect(await read(keys)).toEqual(nothing);
});

test("a job that failed has its subject, its reason and the time of its last failure", async () => {
  const keys = {
    "chaos:reconcile:events": [`5 failed ${job}`, `7 failed ${job}`, `8 completed ${job}`, `9 failed ${gone}`],
    "chaos:reconcile:failed": [job],
    [`chaos:reconcile:${job}`]: aJob,
  };
  const { failed } = await read(keys);
  expect(failed).toEqual([{ lane: "reconcile", subject: "shop", reason: "failed too often", at: 7 }]);
});

test("only attempts of the last seconds have begun, and a job without a subject is named by its number", async () => {
  const [recently, before] = [Date.now() - 1_000, Date.now() - 60_000];
  const { begun } = await read({
    "chaos:report:events": [`${before} active ${gone}`, `${recently} active ${job}`, `${recently} added ${gone}`],
    [`chaos:report:${job}`]: {},
  });
  expect(begun).toEqual([{ lane: "report", subject: `job ${job}` }]);
});

test.each([`chaos:reconcile:${gone}`, "chaos:reconcile:7:lock", "chaos:reconcile:de:shop", "chaos:causes:shop"])(
  "%s is stray if no job is queued",
  async (key) => {
    expect(await read({ [key]: aJob })).toMatchObject({ strayKeys: [key] });
    expect(await read({ [key]: aJob, "chaos:reconcile:wait": [job] })).toMatchObject({ strayKeys: [] });
  },
);

test("the causes of a request may stay after a kill, and what is no job's is not stray", async () => {
  expect(await read({ "chaos:causes:shop": {} }, true)).toEqual(nothing);
  expect(await read({ "chaos:reconcile:meta": {}, "chaos:heads": {} })).toEqual(nothing);
});

test("a Redis that does not answer is not empty", async () => {
  const { queued } = await readQueue({ ask: () => Promise.resolve(undefined) }, 8_000, false);
  expect(queued).toEqual(["Redis does not answer"]);
});
