/** The faults of Redis that the chaos tests count have to strike. */
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createEpisodeRedis } from "../../../dev/chaos/redis.ts";
import { findTools } from "../../../dev/tools.ts";
import { useTempDir } from "../../support/world.ts";

async function aRedis() {
  const [dir, tools] = [await useTempDir(), await findTools(["redis-server"], { say: () => undefined })];
  const redis = createEpisodeRedis({ program: tools["redis-server"], dir, logFile: join(dir, "redis.log") });
  onTestFinished(() => redis.stop());
  await redis.start();
  const write = (value: string) => redis.ask((client) => client.set("key", value));
  return { redis, write, read: () => redis.ask((client) => client.get("key")) };
}

test("a Redis that is full refuses writes until it is emptied", async () => {
  const { redis, write, read } = await aRedis();
  await write("before");
  expect(await redis.fill(true)).toBe(true);
  expect(await write("refused")).toBeUndefined();
  expect(await read()).toBe("before");
  expect(await redis.fill(false)).toBe(true);
  expect(await write("after")).toBe("OK");
  expect(await redis.ask((client) => client.keys("*"))).toEqual(["key"]);
});

test("a dead Redis is not full", async () => {
  const { redis } = await aRedis();
  await redis.kill();
  expect(await redis.fill(true)).toBe(false);
});

test("a Redis that goes back has the data that it had", async () => {
  const { redis, write, read } = await aRedis();
  await write("before");
  const goBack = await redis.remember();
  await write("after");
  await goBack?.();
  expect(await read()).toBe("before");
});
