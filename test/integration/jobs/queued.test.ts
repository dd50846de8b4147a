import { expect, test, vi } from "vitest";
import { findJobs } from "../../../jobs/queued.ts";
import { keyText } from "../../../src/model.ts";
import { aRequest, done, gate, useQueue } from "../../support/jobs.ts";
import { patience } from "../../support/patience.ts";

const key = (name: string) => ({ namespace: "apps", name });

test("the jobs of many deployments are found together, each as the queue finds it alone", async () => {
  const { queue, redis, prefix, work } = await useQueue();
  const held = gate();
  work(async ({ deployment: { name } }) => {
    if (name === "put-off") return { kind: "later", afterMs: 600_000, why: "the host is slow" };
    await held.opened;
    return done;
  });
  await queue.enqueue([aRequest("put-off")]);
  await vi.waitFor(async () => expect(await queue.depth()).toMatchObject({ delayed: 1 }), patience);
  await queue.enqueue([aRequest("active"), aRequest("followed")]);
  await vi.waitFor(async () => expect(await queue.depth()).toMatchObject({ active: 2 }), patience);
  const crowd = Array.from({ length: 450 }, (_, i) => `waiting-${i}`);
  await queue.enqueue([aRequest("followed"), ...crowd.map((name) => aRequest(name))]);

  const names = ["put-off", "active", "followed", ...crowd, ...Array.from({ length: 600 }, (_, i) => `idle-${i}`)];
  const connection = redis.producer();
  const found = await findJobs(connection, prefix, names.map(key));

  expect(found.size).toBe(453);
  for (const name of ["put-off", "active", "followed", "waiting-0", "waiting-449"]) {
    expect(found.get(keyText(key(name)))).toEqual(await queue.find(aRequest(name)));
  }
  expect(found.get("apps/followed")).toEqual({ state: "waiting" });
  expect(found.get("apps/put-off")).toMatchObject({ state: "delayed", why: "the host is slow" });
  held.open();
});

test("while the lane is empty, the deployments are not looked up", async () => {
  const { redis, prefix } = await useQueue();
  const connection = redis.producer();
  await findJobs(connection, prefix, [key("warm")]);
  const before = await countCalls(connection);
  expect(
    await findJobs(
      connection,
      prefix,
      Array.from({ length: 2_000 }, (_, i) => key(`idle-${i}`)),
    ),
  ).toEqual(new Map());
  const after = await countCalls(connection);
  expect(after - before).toBe(0);
});

/** How often keys of jobs were read. */
async function countCalls(connection: { info(section: string): Promise<string> }): Promise<number> {
  const [, calls = "0"] = /cmdstat_mget:calls=(\d+)/.exec(await connection.info("commandstats")) ?? [];
  return Number(calls);
}
