/** A reconciliation that was interrupted after it had recorded its commit, and for which Redis has no job any more. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { expect, test, vi } from "vitest";
import { useFaultServer } from "../support/faults.ts";
import { useJournal } from "../support/journal.ts";
import { useFaultProxy } from "../support/kube-fault-proxy.ts";
import { patience } from "../support/patience.ts";
import { findProcessesOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, type TowlineProcess } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

/** With these intervals, only the tested mechanism makes it due again. */
const daily = { interval: "24h", retryInterval: "24h" };

/** Deploys red, and holds a deploy of blue that a webhook started. */
async function aHeldDeploy(world: Awaited<ReturnType<typeof useWorld>>, start: typeof useFaultServer, extra = {}) {
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const server = await start(world, journal, "one", { TOWLINE_SWEEP_INTERVAL: "30s", ...extra });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, daily));
  await deployment.reaches("Ready");
  const release = await journal.hold('[ "$command" = deploy ]');
  const commit = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: commit })).status).toBe(202);
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(2), patience);
  return { journal, server, deployment, commit, release };
}

function triesOf({ lines }: TowlineProcess): number {
  return lines.filter(({ msg }) => msg === "request to the Kubernetes API failed").length;
}

test("after an outage of the API server that outlasts all attempts, the deployment does not wait for its interval", async () => {
  const world = await useWorld();
  const proxy = await useFaultProxy(world.cluster.kubeconfig);
  const kubeconfig = join(world.dir, "faulty-kubeconfig");
  await writeFile(kubeconfig, proxy.kubeconfig);
  const { server, deployment, commit, release } = await aHeldDeploy(world, useFaultServer, {
    TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig,
  });

  const awaySince = performance.now();
  await proxy.close();
  await release();
  // Each of the five attempts logs this line; Redis is empty afterwards.
  await vi.waitFor(() => expect(triesOf(server)).toBeGreaterThanOrEqual(5), { ...patience, timeout: 400_000 });
  await vi.waitFor(() => expect(performance.now() - awaySince).toBeGreaterThan(200_000), patience);
  await proxy.open();

  // 15 seconds on a quiet machine; without the sweep it would take a day.
  const settled = await deployment.reaches("Ready");
  expect(settled.status).toMatchObject({ observedCommit: commit });
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
}, 600_000);

test("if a server dies and Redis loses its job, another running server completes the reconciliation", async () => {
  const world = await useWorld();
  const { journal, server, deployment, commit, release } = await aHeldDeploy(world, useFaultServer);
  const other = await useFaultServer(world, journal, "two");
  await vi.waitFor(() => expect(other.lines.some(({ msg }) => msg.startsWith("watching"))).toBe(true), patience);

  server.child.kill("SIGKILL");
  await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
  const redis = new Redis(world.redis.url);
  const keys = await redis.keys(`${world.redis.prefix}:*`);
  if (keys.length > 0) await redis.del(keys);
  redis.disconnect();
  await release();

  await deployment.reaches("Ready");
  expect((await deployment.get())?.status).toMatchObject({ observedCommit: commit });
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  expect(journal.overlaps()).toEqual([]);
});
