import { expect, test } from "vitest";
import type { PostedDeployment } from "../../../src/model.ts";
import { createPostedDeployments } from "../../../src/redis/posted-deployments.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";

const repo = { forge: "github", repoName: "Org/Shop" };

const posted = (more: Partial<PostedDeployment> = {}): PostedDeployment => ({
  ...{ environment: "prod", state: "success", description: "deployed", ref: "refs/heads/main", task: "towline" },
  ...{ commit: "c".repeat(40), id: "7" },
  ...more,
});

test("what was written to each environment is known to every replica, and replaced by the next state", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const open = () => createPostedDeployments({ connection: redis.producer(), prefix });
  await open().save(repo, posted({ state: "in_progress" }));
  const whole = posted({
    ...{ url: "https://shop.example.com/", tier: "production", live: { commit: "b".repeat(40), id: "6" } },
  });
  await open().save(repo, whole);
  await open().save(repo, posted({ ref: "refs/heads/release" }));
  await open().save({ ...repo, repoName: "org/other" }, posted());

  const found = await open().of({ forge: "github", repoName: "org/SHOP" });
  expect(found.toSorted((a, b) => a.ref.localeCompare(b.ref))).toEqual([whole, posted({ ref: "refs/heads/release" })]);
});

test("an entry that Towline did not write counts as unknown", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const store = createPostedDeployments({ connection: redis.producer(), prefix });
  await store.save(repo, posted({ id: "../../other" }));
  expect(await store.of(repo)).toEqual([]);
});
