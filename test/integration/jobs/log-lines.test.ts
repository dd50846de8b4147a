import { pino } from "pino";
import { expect, test } from "vitest";
import { createLogLines } from "../../../src/redis/log-lines.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";

const [shop, other] = [
  { namespace: "shop", name: "prod" },
  { namespace: "shop", name: "other" },
];
const aLine = (text: string) => ({ at: 1, job: "one", command: "deploy", text });

test("another replica reads new log lines from where it stopped; their number is limited, and they expire", async () => {
  const redis = useRedisServer({ appendOnly: false });
  await redis.start();
  const prefix = uniquePrefix();
  const open = () => createLogLines({ connection: redis.producer(), prefix, log: pino({ level: "silent" }) });
  const [writer, reader] = [open(), open()];
  writer.add(shop, aLine("first"));
  writer.add(shop, aLine("second"));
  await writer.flush();
  const from = [shop, other].map((key) => ({ key, last: "0" }));
  const [told, nothing] = await reader.read(from);
  expect(told?.lines.map(({ text }) => text)).toEqual(["first", "second"]);
  expect(nothing).toEqual({ lines: [], last: "0" });

  writer.add(shop, aLine("third"));
  await writer.flush();
  const [news] = await reader.read([{ key: shop, last: told?.last ?? "" }]);
  expect(news?.lines).toEqual([aLine("third")]);
  expect(await reader.read([{ key: shop, last: news?.last ?? "" }])).toEqual([{ lines: [], last: news?.last }]);

  for (let n = 0; n < 70; n++) {
    writer.add(shop, aLine(`entry ${n}`));
    await writer.flush();
  }
  const client = redis.client();
  const [key = ""] = (await client.keys(`${prefix}:log:*`)) as string[];
  expect(await client.xlen(key)).toBe(64);
  expect(await client.pttl(key)).toBeGreaterThan(0);
  await client.xadd(key, "*", "lines", "not ours");
  const [all] = await reader.read([{ key: shop, last: "0" }]);
  expect(all?.lines.at(-1)).toEqual(aLine("entry 69"));

  // Without Redis, lines are dropped and the writer does not block.
  await redis.stop();
  writer.add(shop, aLine("lost"));
  await writer.flush();
  await expect(reader.read(from)).rejects.toThrow("Redis did not return log lines");
});
