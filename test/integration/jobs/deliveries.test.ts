import { pino } from "pino";
import { expect, test } from "vitest";
import { type AnsweredDelivery, createDeliveries } from "../../../src/redis/deliveries.ts";
import type { PushEvent } from "../../../src/model.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";

const push: PushEvent = {
  kind: "push",
  forge: "gitea",
  delivery: "d",
  repoUrls: ["https://git.example.com/shop"],
  repoName: "org/shop",
  ref: "refs/heads/main",
  change: "updated",
  after: "3".repeat(40),
  changed: { complete: true, paths: ["a-path"] },
};

function answered(more: Partial<AnsweredDelivery> = {}): AnsweredDelivery {
  return { forge: "gitea", at: Date.now(), ms: 3, status: 202, event: push, ...more };
}

test("the latest deliveries are stored in limited number, and forged ones do not displace genuine ones", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const open = () => createDeliveries({ connection: redis.producer(), prefix, log: pino({ level: "silent" }) });
  const deliveries = open();
  const ignored = Array.from({ length: 60 }, (_, n) => ({ deployment: `shop/${n}`, reason: "suspended" }));
  const receipt = { delivery: "d", matched: 1, deployments: ["shop/staging"], queued: 1, ignored };
  deliveries.record(answered({ receipt }));
  deliveries.record(answered({ forge: "github" }));
  const repoUrls = ["https://bot:canary-password@git.example.com/shop", "ssh://git@git.example.com/shop"];
  deliveries.record(answered({ forge: "gitlab", event: { ...push, forge: "gitlab", repoUrls } }));
  for (let n = 0; n < 30; n++)
    deliveries.record(answered({ at: n + Date.now(), event: undefined, status: 401, refused: "no" }));
  for (let n = 0; n < 3; n++) deliveries.record(answered({ at: Date.now() - 8 * 24 * 3_600_000 }));
  await deliveries.flush();
  const client = redis.client();
  const [key = ""] = (await client.keys(`${prefix}:*genuine:gitea`)) as string[];
  await client.lpush(key, "not ours", "{}");

  const found = await open().latest("gitea");

  expect(found.filter(({ refused }) => refused !== undefined)).toHaveLength(20);
  const [genuine, ...others] = found.filter(({ refused }) => refused === undefined);
  expect(others).toEqual([]);
  expect(genuine).toMatchObject({
    ...{ event: "push", repoName: "org/shop", ref: "refs/heads/main", commit: "3".repeat(40), status: 202 },
    ...{ matched: 1, deployments: ["shop/staging"], queued: 1, ignoredMore: 10 },
  });
  expect(genuine?.ignored).toHaveLength(50);
  expect(genuine?.repos).toBeUndefined();
  expect(found.map(({ replayable = false }) => replayable)).toEqual([...Array<boolean>(20).fill(false), true]);
  expect(await open().event("gitea", "d")).toEqual({ ...push, changed: { complete: false, paths: [] } });
  expect(await open().event("gitea", "another")).toBeUndefined();
  expect(await open().event("gitlab", "d")).toMatchObject({
    repoUrls: ["https://git.example.com/shop", "ssh://git@git.example.com/shop"],
  });
  const all = await Promise.all(
    ((await client.keys(`${prefix}:*`)) as string[]).map((one) => client.lrange(one, 0, -1)),
  );
  expect(JSON.stringify(all)).not.toContain("canary");
  expect(JSON.stringify(await client.lrange(key, 0, -1))).not.toContain("a-path");
  expect(await client.pttl(key)).toBeGreaterThan(0);
});

test("the record of a push to more deployments than it names has the repository of all of them", async () => {
  const redis = useRedisServer();
  await redis.start();
  const deliveries = createDeliveries({
    ...{ connection: redis.producer(), prefix: uniquePrefix(), log: pino({ level: "silent" }) },
  });
  const receipt = { delivery: "d", matched: 60, deployments: ["shop/staging"], queued: 60, ignored: [] };
  const repoUrls = ["https://git.example.com/Org/shop.git", "ssh://git@git.example.com/org/shop"];
  deliveries.record(answered({ receipt, event: { ...push, repoUrls } }));
  await deliveries.flush();
  expect((await deliveries.latest("gitea"))[0]?.repos).toEqual(["git.example.com/org/shop"]);
});
