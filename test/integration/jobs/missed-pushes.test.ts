import { expect, test } from "vitest";
import type { MissedPushes } from "../../../src/model.ts";
import { createMissedPushStore } from "../../../src/redis/missed-pushes.ts";
import { createSweepPaceStore } from "../../../src/redis/sweep-paces.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";

test("a missed push and its reason are kept apart, returned together, and removed together", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const store = createMissedPushStore({ connection: redis.producer(), prefix });
  const missed: MissedPushes = { v: 1, repo: "git.example.com/shop", ref: "main", since: 1, lastAt: 2, count: 1 };
  const reason = { kind: "refused", host: "towline.example.com", code: 503, count: 2 } as const;
  await store.save("gitea", missed);
  await store.saveReason("gitea", missed.repo, reason);
  // Another server counts on while it does not know the reason yet.
  await store.save("gitea", { ...missed, count: 2, reason: { kind: "missing" } });
  expect(await store.all("gitea")).toEqual([{ ...missed, count: 2, reason }]);
  expect(await store.all("github")).toEqual([]);
  await store.remove("gitea", missed.repo);
  await store.save("gitea", missed);
  expect(await store.all("gitea")).toEqual([missed]);
  const client = redis.client();
  const times = await Promise.all((await client.keys(`${prefix}:missed*`)).map((key) => client.pttl(key)));
  expect(Math.min(...times)).toBeGreaterThan(0);
});

test("of the intervals of sweeps, those that no server records any more are not returned", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const store = createSweepPaceStore({ connection: redis.producer(), prefix });
  const pace = { v: 1, repo: "git.example.com/shop", pace: "rarely", everyMs: 300_000, at: Date.now() } as const;
  await store.save({ ...pace, pace: "usual", everyMs: 60_000 });
  await store.save(pace);
  await store.save({ ...pace, repo: "git.example.com/gone", at: Date.now() - 4 * 3_600_000 });
  await redis.client().hset(`${prefix}:sweep-paces`, "other", "{}");
  expect(await store.all()).toEqual([pace]);
});
