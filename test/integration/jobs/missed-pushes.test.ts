import { expect, test } from "vitest";
import type { MissedPushes } from "../../../src/model.ts";
import { createMissedPushStore } from "../../../src/redis/missed-pushes.ts";
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
