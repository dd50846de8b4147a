/** The Redis that the server starts itself, and the password of an external one. */
import { expect, test, vi } from "vitest";
import { freePort } from "../../dev/parts/port.ts";
import { logOf, readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { useJournal } from "../support/journal.ts";
import { findProcessesOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { useRedisServer } from "../support/redis.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

test("the private Redis ends with a killed server, and keeps accepted deliveries for the next one", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const [slow, shop] = await Promise.all([world.repo("slow"), world.repo("shop")]);
  const slowCommit = await slow.push(aProject({ namespace, name: "slow" }));
  await shop.push(aProject({ namespace }));
  const extra = { TOWLINE_REDIS_URL: "", TOWLINE_CONCURRENCY: "1", TOWLINE_SWEEP_INTERVAL: "1h" };
  const server = await useFaultServer(world, journal, "server", extra);
  expect(logOf(server)).toContain("private Redis started; several replicas need a shared one");
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(shop.url));
  await deployment.reaches("Ready");

  const release = await journal.hold('[ "$subject" = slow/prod ]');
  const slowDeployment = world.cluster.deployment("slow");
  await slowDeployment.create(aSpec(slow.url));
  await vi.waitFor(() => expect(journal.deploys("slow/prod")).toHaveLength(1), patience);
  const next = await shop.push(aProject({ namespace, data: { color: "blue" } }));
  const answer = await sendPush(server.webhooksUrl, { repo: shop.url, after: next });
  expect(answer.status).toBe(202);
  const { delivery } = (await answer.json()) as { delivery: string };
  expect(findProcessesOf(server.dataDir).some(({ command }) => command.includes("redis-server"))).toBe(true);

  server.child.kill("SIGKILL");
  await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
  await release();
  const again = await useFaultServer(world, journal, "server", extra);
  await Promise.all([deployment.settles(next), slowDeployment.settles(slowCommit)]);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  const deployed = again.lines.find(({ msg, commit }) => msg === "deployed" && commit === next);
  expect(deployed).toMatchObject({ delivery }); // the delivery itself was kept: the sweep did not have to find the push
});

test("the password of Redis is never logged", async () => {
  const world = await useWorld();
  const journal = await useJournal(world);
  const [wrong, right] = ["canary-wrong-8d1f", "canary-right-77b2"];
  const port = await freePort();
  const redis = useRedisServer({ args: ["--port", String(port)], password: right });
  const address = (password: string) => `redis://:${password}@127.0.0.1:${port}`;
  const settings = (password: string) => ({ TOWLINE_REDIS_URL: address(password), TOWLINE_LOG_LEVEL: "trace" });

  const early = await useFaultServer(world, journal, "early", settings(right));
  const denied = await useFaultServer(world, journal, "denied", settings(wrong));
  await vi.waitFor(() => expect(logOf(early)).toContain("Redis connection failed"), patience);
  await redis.start();
  await vi.waitFor(async () => expect((await readiness(early)).checks["redis"]?.ok).toBe(true), patience);
  const refusal = "it rejected the password (TOWLINE_REDIS_PASSWORD)";
  await vi.waitFor(
    () => expect(denied.lines).toContainEqual(expect.objectContaining({ level: "warn", error: refusal })),
    patience,
  );
  const answers = JSON.stringify([await readiness(early), await readiness(denied)]);
  const push = await sendPush(denied.webhooksUrl, { repo: "https://git.example.com/a/b", after: "2".repeat(40) });
  const metrics = await (await fetch(`${denied.adminUrl}/metrics`)).text();
  const told = [logOf(early), logOf(denied), answers, await push.text(), metrics].join("\n");
  expect(told).not.toContain("canary");

  // A server that cannot reach Redis still stops cleanly.
  denied.child.kill("SIGTERM");
  expect(await denied.ended).toBe(0);
});
