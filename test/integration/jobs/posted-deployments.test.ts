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
  const save = async (of: typeof repo, next: PostedDeployment) => (await open().of(of)).save(next);
  expect(await save(repo, posted({ state: "in_progress" }))).toBe(true);
  const whole = posted({
    ...{ url: "https://shop.example.com/", tier: "production", live: { commit: "b".repeat(40), id: "6" } },
  });
  await save(repo, whole);
  await save(repo, posted({ ref: "refs/heads/release" }));
  await save({ ...repo, repoName: "org/other" }, posted());

  const { all: found } = await open().of({ forge: "github", repoName: "org/SHOP" });
  expect(found.toSorted((a, b) => a.ref.localeCompare(b.ref))).toEqual([whole, posted({ ref: "refs/heads/release" })]);
});

test("an entry that Towline did not write counts as unknown", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const store = createPostedDeployments({ connection: redis.producer(), prefix });
  await (await store.of(repo)).save(posted({ id: "../../other" }));
  const known = await store.of(repo);
  expect(known.all).toEqual([]);
  expect(await known.save(posted())).toBe(true);
  expect((await store.of(repo)).all).toEqual([posted()]);
});

test("what was stored after a replica read the environment is not overwritten", async () => {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const open = () => createPostedDeployments({ connection: redis.producer(), prefix });
  const [one, other] = [await open().of(repo), await open().of(repo)];
  expect(await one.save(posted({ state: "in_progress" }))).toBe(true);
  expect(await other.save(posted({ state: "failure" }))).toBe(false);
  expect(await other.save(posted({ ref: "refs/heads/release" }))).toBe(true);
  expect(await one.save(posted({ state: "success" }))).toBe(true);
  expect((await open().of(repo)).all.map(({ state, ref }) => `${ref} ${state}`).toSorted()).toEqual([
    "refs/heads/main success",
    "refs/heads/release success",
  ]);
});
