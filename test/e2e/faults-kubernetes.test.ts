/** An API server that is down, comes back, or stops responding. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { logOf, readiness, useFaultServer } from "../support/faults.ts";
import { patience } from "../support/patience.ts";
import { useJournal } from "../support/journal.ts";
import { useFaultProxy } from "../support/kube-fault-proxy.ts";
import { findRunsOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";

/** The server reaches the API server through a proxy; the test itself reaches it directly. */
async function useFaultyWorld() {
  const world = await useWorld();
  const proxy = await useFaultProxy(world.cluster.kubeconfig);
  const kubeconfig = join(world.dir, "faulty-kubeconfig");
  await writeFile(kubeconfig, proxy.kubeconfig);
  return { world, proxy, extra: { TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig } };
}

test("without an API server the server starts and reports what it waits for, and deploys once there is one", async () => {
  const { world, proxy, extra } = await useFaultyWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await proxy.close();

  const server = await useFaultServer(world, journal, "server", extra);
  await vi.waitFor(
    async () =>
      expect(await readiness(server)).toMatchObject({
        status: 503,
        checks: { kubernetes: { ok: false, error: "the API server does not respond" }, redis: { ok: true } },
      }),
    patience,
  );
  // It does not know yet which deployments the push affects, and must not say that there are none.
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: commit })).status).toBe(503);

  await proxy.open();
  await vi.waitFor(async () => expect(await readiness(server)).toMatchObject({ status: 200 }), patience);
  await deployment.reaches("Ready");
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
});

test("a push that arrives while the API server is down is deployed when it is back", async () => {
  const { world, proxy, extra } = await useFaultyWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const server = await useFaultServer(world, journal, "server", extra);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  await proxy.close();
  const next = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  const answer = await sendPush(server.webhooksUrl, { repo: repo.url, after: next });
  expect(await answer.json()).toMatchObject({ matched: 1, queued: 1 });
  await vi.waitFor(
    async () => expect((await readiness(server)).checks["kubernetes"]?.error).toBe("the API server does not respond"),
    patience,
  );

  await proxy.open();
  await vi.waitFor(async () => expect(await readiness(server)).toMatchObject({ status: 200 }), patience);
  await deployment.settles(next);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
  expect(journal.deploys().at(-1)).toMatchObject({ commit: next, exitCode: 0 });
});

test("a deploy is ended in time if the API server stops responding, and repeated afterwards", async () => {
  const { world, proxy, extra } = await useFaultyWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const server = await useFaultServer(world, journal, "server", { ...extra, TOWLINE_LEASE_DURATION: "15s" });
  const release = await journal.hold('[ "$command" = deploy ]');
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);

  proxy.blackHole(true);
  const silentFrom = Date.now();
  await vi.waitFor(() => expect(findRunsOf(server.dataDir, server.pid)).toEqual([]), patience);
  // Before another server can hold the lease.
  expect(journal.deploys()[0]!.seenAt - silentFrom).toBeLessThan(15_000);
  await vi.waitFor(() => expect(logOf(server)).toContain("could not be renewed in time"), patience);
  await release();
  proxy.blackHole(false);
  proxy.cut();

  await deployment.reaches("Ready");
  expect((await deployment.get())?.status).toMatchObject({ observedCommit: commit });
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
  expect(journal.overlaps()).toEqual([]);
  expect(journal.deploys().map(({ exitCode }) => exitCode)).toEqual([undefined, 0]);
});

test("a server that cannot renew the Lease for the whole cluster starts nothing new until it can", async () => {
  const { world, proxy, extra } = await useFaultyWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  const server = await useFaultServer(world, journal, "server", {
    ...extra,
    TOWLINE_CONTROLLER_NAMESPACE: namespace,
  });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  const isRenewal = (request: string) => request.startsWith("PUT") && request.includes("/leases/5ab5d0f9.kluctl.io");
  const renew = proxy.answer(isRenewal, { status: 500 });
  await vi.waitFor(
    async () =>
      expect((await readiness(server)).checks["kubernetes"]?.error).toMatch(/5ab5d0f9.*could not be renewed in time/),
    patience,
  );
  const [before, runs] = [await putOff(server), journal.runs().length];
  const commit = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  expect((await sendPush(server.webhooksUrl, { repo: repo.url, after: commit })).status).toBe(202);
  await vi.waitFor(async () => expect(await putOff(server)).toBeGreaterThan(before + 1), patience);
  expect(journal.runs()).toHaveLength(runs);

  renew();
  await deployment.settles(commit);
  expect(await world.cluster.data("settings")).toEqual({ color: "blue" });
});

/** How many jobs were deferred because the server did not hold the Lease. */
async function putOff({ adminUrl }: { adminUrl: string }): Promise<number> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(/^towline_reconcile_total\{result="busy"\} (\d+)/m.exec(metrics)?.[1] ?? 0);
}
