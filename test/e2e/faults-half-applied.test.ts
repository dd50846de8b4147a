/**
 * A deploy that is interrupted between two objects, and a push that reverts its commit: nothing of the commit may stay.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { type FaultServer, useFaultServer } from "../support/faults.ts";
import { useJournal } from "../support/journal.ts";
import { useFaultProxy } from "../support/kube-fault-proxy.ts";
import { patience } from "../support/patience.ts";
import { findProcessesOf } from "../support/processes.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { conditionOf, readyOf, type TestCluster } from "../support/world-cluster.ts";

/**
 * The servers of this test, and their kluctl, reach the API server through the proxy; the test itself reaches it
 * directly.
 */
async function useProxiedWorld() {
  const world = await useWorld();
  const proxy = await useFaultProxy(world.cluster.kubeconfig);
  const kubeconfig = join(world.dir, "proxied-kubeconfig");
  await writeFile(kubeconfig, proxy.kubeconfig);
  const start = (name: string, extra: Record<string, string> = {}) =>
    useFaultServer(world, { kluctl: world.kluctl }, name, { TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig, ...extra });
  return { world, proxy, start };
}

/** Two ConfigMaps; the second is applied only after the first. */
function twoSteps(namespace: string, color: string) {
  const configMap = (name: string) =>
    stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { color } });
  return {
    ...aProject({ namespace }),
    "deployment.yaml": stringify({ deployments: [{ path: "one" }, { barrier: true }, { path: "two" }] }),
    "one/first.yml": configMap("first"),
    "two/second.yml": configMap("second"),
  };
}

async function colorsOf(cluster: TestCluster) {
  const [first, second] = await Promise.all(["first", "second"].map((name) => cluster.data(name)));
  return { first: first?.["color"], second: second?.["color"] };
}

const isApplyOfSecond = (request: string) =>
  /^PATCH .*\/configmaps\/second\?/.test(request) && !request.includes("dryRun");

/**
 * Deploys red, lets blue be applied to the first object only, and pushes red again with a webhook. `interrupt` ends the
 * deploy, and returns once a server runs that may continue.
 */
async function takenBack(
  spec: Record<string, unknown>,
  interrupt: (server: FaultServer, there: Awaited<ReturnType<typeof useProxiedWorld>>) => Promise<unknown>,
) {
  const there = await useProxiedWorld();
  const { world, proxy, start } = there;
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  await repo.push(twoSteps(namespace, "red"));
  const server = await start("one", { TOWLINE_SHUTDOWN_DRAIN: "0s" });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, spec));
  await deployment.reaches("Ready");

  const held = proxy.hold(isApplyOfSecond);
  const push = async (color: string) => {
    const after = await repo.push(twoSteps(namespace, color));
    expect((await sendPush(server.webhooksUrl, { repo: repo.url, after })).status).toBe(202);
    return after;
  };
  await push("blue");
  await held.arrived;
  expect(await colorsOf(world.cluster)).toEqual({ first: "blue", second: "red" });
  const back = await push("red");
  await interrupt(server, there);
  return { ...there, deployment, back };
}

async function settledRed({ world, deployment, back }: Awaited<ReturnType<typeof takenBack>>) {
  const settled = await deployment.settles(back);
  expect(readyOf(settled)).toMatchObject({ status: "True" });
  expect(await colorsOf(world.cluster)).toEqual({ first: "red", second: "red" });
}

test("objects that a killed server had applied are reverted with their commit", async () => {
  const interrupted = await takenBack({}, async (server, { start }) => {
    server.child.kill("SIGKILL");
    await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
    await start("one");
  });
  await settledRed(interrupted);
});

test("objects that a stopped server had applied before its drain timeout are reverted as well", async () => {
  const interrupted = await takenBack({}, async (server, { start }) => {
    server.child.kill("SIGTERM");
    expect(await server.ended).toBe(0);
    await start("two");
  });
  await settledRed(interrupted);
});

test("objects that were applied before the lease was lost are reverted as well", async () => {
  const interrupted = await takenBack({}, (_, { world }) =>
    world.cluster.delete({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { name: "towline-shop" },
    }),
  );
  await settledRed(interrupted);
});

test("a suspended deployment whose deploy was interrupted is not ready, and is deployed when it is resumed", async () => {
  const { world, deployment, back } = await takenBack({}, async (server, { world, start }) => {
    server.child.kill("SIGKILL");
    await vi.waitFor(() => expect(findProcessesOf(server.dataDir)).toEqual([]), patience);
    await world.cluster.deployment("shop").patch({ spec: { suspend: true } });
    await start("one");
  });
  const suspended = await deployment.until("its end", (resource) => !conditionOf(resource, "Reconciling"));
  expect(readyOf(suspended)).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(readyOf(suspended).message).toContain("interrupted");
  expect(await colorsOf(world.cluster)).toEqual({ first: "blue", second: "red" });

  await deployment.patch({ spec: { suspend: false } });
  await settledRed({ world, deployment, back } as Awaited<ReturnType<typeof takenBack>>);
});

test("nothing is deployed before the status records that a deploy is in progress", async () => {
  const { world, proxy } = await useProxiedWorld();
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  const commit = await repo.push(aProject({ namespace: world.cluster.namespace }));
  const kubeconfig = join(world.dir, "proxied-kubeconfig");
  expect(await readFile(kubeconfig, "utf8")).toBe(proxy.kubeconfig);
  const isStatus = (request: string) => /^PATCH .*\/kluctldeployments\/shop\/status/.test(request);
  const allow = proxy.answer(isStatus, { status: 500 });
  const server = await useFaultServer(world, journal, "server", { TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig });
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));

  await vi.waitFor(() => expect(server.lines.some(({ msg }) => msg === "source checked out")).toBe(true), patience);
  const before = proxy.requests.filter(isStatus).length;
  await vi.waitFor(() => expect(proxy.requests.filter(isStatus).length).toBeGreaterThan(before + 6), patience);
  expect(journal.deploys()).toEqual([]);
  expect(await world.cluster.data("settings")).toBeUndefined();

  allow();
  await deployment.settles(commit);
  await deployment.reaches("Ready");
  expect(await world.cluster.data("settings")).toEqual({ color: "red" });
});
