/** Redis that is down, frozen or emptied: deliveries are refused in time, and no work is lost. */
import { expect, test, vi } from "vitest";
import { readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { useJournal } from "../support/journal.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useRedisServer } from "../support/redis.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("without Redis the server starts, refuses deliveries in time, and works as soon as there is one", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const redis = useRedisServer();
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const server = await useFaultServer(world, journal, "server", { TOWLINE_REDIS_URL: `unix://${redis.socket}` });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(async () => expect((await readiness(server)).checks["kubernetes"]?.ok).toBe(true), patience);
  const { status, checks } = await readiness(server);
  expect(status).toBe(503);
  expect(checks["redis"]?.error).toMatch(/Redis/);
  const refused = await sendPush(server.webhooksUrl, { repo: repo.url, after: "2".repeat(40) });
  expect(refused.status).toBe(503);

  await redis.start();
  await vi.waitFor(async () => expect(await readiness(server)).toMatchObject({ status: 200 }), patience);
  await deployment.reaches("Ready"); // deployments created meanwhile are reconciled without a request
  const next = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: next })).status).toBe(202);
  await deployment.settles(next);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
});

test("no push is lost if Redis dies or freezes", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const redis = useRedisServer();
  const [repo] = await Promise.all([world.repo("shop"), redis.start()]);
  await repo.push(aProject({ namespace }));
  const server = await useFaultServer(world, journal, "server", { TOWLINE_REDIS_URL: `unix://${redis.socket}` });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  await redis.stop();
  const whileDead = await repo.push(aProject({ namespace, data: { color: "green" } }));
  const dead = await sendPush(server.webhooksUrl, { repo: repo.url, after: whileDead });
  expect(dead.status).toBe(503);
  expect((await readiness(server)).checks["redis"]?.ok).toBe(false);
  await redis.start();
  await deployment.settles(whileDead); // found by the sweep, because the delivery was refused
  expect(await world.cluster.data("settings")).toEqual({ color: "green" });
  expect((await readiness(server)).status).toBe(200);

  redis.freeze();
  const whileFrozen = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const frozen = await sendPush(server.webhooksUrl, { repo: repo.url, after: whileFrozen });
  expect(frozen.status).toBe(503);
  expect((await readiness(server)).checks["redis"]?.error).toMatch(/no response|did not/);
  redis.thaw();
  await vi.waitFor(
    async () => expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: whileFrozen })).status).toBe(202),
    patience,
  );
  await deployment.settles(whileFrozen);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  expect(journal.overlaps()).toEqual([]);
});

test("a deploy during which Redis dies and comes back empty does not run twice", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const redis = useRedisServer({ appendOnly: false });
  const [repo] = await Promise.all([world.repo("shop"), redis.start()]);
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const server = await useFaultServer(world, journal, "server", { TOWLINE_REDIS_URL: `unix://${redis.socket}` });
  const release = await journal.hold('[ "$command" = deploy ]');
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);

  await redis.stop();
  await release();
  await deployment.settles(commit); // a deploy in progress does not need Redis
  await redis.start();
  await vi.waitFor(async () => expect((await readiness(server)).status).toBe(200), patience);
  const next = await repo.push(aProject({ namespace: world.cluster.namespace, data: { color: "blue" } }));
  await deployment.settles(next); // the sweep continues, and finds this commit
  expect(journal.deploys().map(({ commit }) => commit)).toEqual([commit, next]);
});

test("jobs that wait in a Redis that is emptied are found by the next sweep", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const redis = useRedisServer();
  const [slow, shop] = await Promise.all([world.repo("slow"), world.repo("shop"), redis.start()]);
  await slow.push(aProject({ namespace, name: "slow" }));
  await shop.push(aProject({ namespace }));
  const server = await useFaultServer(world, journal, "server", {
    TOWLINE_REDIS_URL: `unix://${redis.socket}`,
    TOWLINE_CONCURRENCY: "1",
  });
  const deployments = [world.cluster.deployment("slow"), world.cluster.deployment("shop")] as const;
  await deployments[0].create(aSpec(slow.url));
  await deployments[1].create(aSpec(shop.url));
  await Promise.all(deployments.map((one) => one.reaches("Ready")));

  const release = await journal.hold('[ "$subject" = slow/prod ]');
  const before = journal.runs().length;
  const slowCommit = await slow.push(aProject({ namespace, name: "slow", data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: slow.url, after: slowCommit })).status).toBe(202);
  await vi.waitFor(() => expect(journal.runs().length).toBeGreaterThan(before), patience);
  const shopCommit = await shop.push(aProject({ namespace, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: shop.url, after: shopCommit })).status).toBe(202);
  await redis.client().flushall();
  await release();

  await Promise.all([deployments[0].settles(slowCommit), deployments[1].settles(shopCommit)]);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  expect(journal.overlaps()).toEqual([]);
});
