import { kluctlApi } from "../../../src/apis/kluctl/api.ts";
import { expect, onTestFinished, test, vi } from "vitest";
import { createDeployments } from "../../../src/apis/deployments.ts";
import { type DeploymentChange, isMalformed, type RepoId } from "../../../src/model.ts";
import { deploymentsPath, fakeLog, resource, type TestKube, useKube } from "../../support/kube.ts";
import { patience } from "../../support/patience.ts";

const isWatch = (request: string) => request.includes("kluctldeployments?watch=true");
const isList = (request: string) => request.includes("kluctldeployments?limit=");

/** Watches the test's namespace through the proxy. */
async function useWatch(options: { silentMs?: number; start?: boolean } = {}) {
  const kube = await useKube();
  const { log, lines } = fakeLog();
  const changes: string[] = [];
  const restarts: string[] = [];
  const deployments = createDeployments({
    apis: [kluctlApi],
    client: kube.proxied,
    namespaces: [kube.namespace],
    controllerName: "towline-test",
    log,
    silentMs: options.silentMs,
    retryMs: 20,
    observe: { restarted: (why) => restarts.push(why) },
  });
  deployments.onChange(({ kind, deployment }) => changes.push(`${kind} ${deployment.key.name}`));
  onTestFinished(() => deployments.stop());
  if (options.start !== false) {
    await deployments.start();
    await vi.waitFor(() => expect(kube.proxy.requests.filter(isWatch)).not.toEqual([]), patience);
  }
  return { ...kube, deployments, changes, restarts, lines };
}

async function create({ client, namespace }: TestKube, name: string, spec?: object): Promise<void> {
  await client.request({ method: "POST", path: deploymentsPath(namespace), body: resource(namespace, name, spec) });
}

async function remove({ client, namespace }: TestKube, name: string): Promise<void> {
  await client.request({ method: "DELETE", path: deploymentsPath(namespace, name) });
}

async function patch({ client, namespace }: TestKube, name: string, body: object): Promise<void> {
  await client.request({ method: "PATCH", path: deploymentsPath(namespace, name), body });
}

test("created, changed and deleted deployments are seen, and found by their repository", async () => {
  const world = await useWatch();
  const { deployments, changes } = world;
  await create(world, "shop");
  await vi.waitFor(() => expect(changes).toEqual(["added shop"]), patience);
  expect(deployments.tracking("git.test/org/shop" as RepoId)).toMatchObject([{ key: { name: "shop" } }]);

  await patch(world, "shop", { spec: { source: { git: { url: "ssh://git@git.test/org/other" } } } });
  await vi.waitFor(() => expect(changes).toEqual(["added shop", "changed shop"]), patience);
  expect(deployments.tracking("git.test/org/shop" as RepoId)).toEqual([]);
  expect(deployments.tracking("git.test/org/other" as RepoId)).toHaveLength(1);

  await remove(world, "shop");
  await vi.waitFor(() => expect(changes.at(-1)).toBe("removed shop"), patience);
  expect(deployments.all()).toEqual([]);
  expect(deployments.tracking("git.test/org/other" as RepoId)).toEqual([]);
});

test.for([
  ["a reset connection", ({ proxy }: TestKube) => proxy.cut()],
  ["a watch whose time is up", ({ proxy }: TestKube) => proxy.endWatches()],
  ["a version that is too old", ({ proxy }: TestKube) => proxy.inject({ type: "ERROR", object: { code: 410 } })],
  ["an internal error", ({ proxy }: TestKube) => proxy.inject({ type: "ERROR", object: { code: 500 } })],
  ["a line that is no JSON", ({ proxy }: TestKube) => proxy.inject("{")],
] as const)("after %s no change is missed or reported twice", async ([, fault]) => {
  const world = await useWatch();
  const { proxy, changes } = world;
  await create(world, "stays");
  await create(world, "goes");
  await vi.waitFor(() => expect(changes).toHaveLength(2), patience);
  const resumed = proxy.answer((request) => isWatch(request) || isList(request), { status: 503 });

  fault(world);
  await create(world, "comes");
  await remove(world, "goes");
  await vi.waitFor(
    () => expect(proxy.requests.filter((r) => isWatch(r) || isList(r)).length).toBeGreaterThan(3),
    patience,
  );
  resumed();

  await vi.waitFor(() => expect(changes).toHaveLength(4), patience);
  expect(changes.slice(0, 2)).toEqual(["added stays", "added goes"]);
  expect(changes.slice(2).sort()).toEqual(["added comes", "removed goes"]);
});

test.for([410, 429, 500, 503])("a watch that is answered with %i is started again", async (status) => {
  const world = await useWatch({ start: false });
  const { proxy, changes, deployments, restarts } = world;
  proxy.answer(isWatch, { status, headers: { "Retry-After": "0" } }, 2);
  await deployments.start();

  await vi.waitFor(() => expect(restarts).toEqual([String(status), String(status)]), patience);
  await create(world, "shop");
  await vi.waitFor(() => expect(changes).toEqual(["added shop"]), patience);
});

test("an outage of the API server, at the start or later, is waited out", async () => {
  const world = await useWatch({ start: false });
  const { proxy, changes, deployments } = world;
  await create(world, "shop");
  await proxy.close();
  const started = deployments.start();
  await vi.waitFor(() => expect(deployments.problem()).toBe("the API server does not respond"), patience);
  expect(deployments.synced()).toBe(false);
  await proxy.open();
  await started;
  expect(changes).toEqual(["added shop"]);
  expect(deployments.synced()).toBe(true);

  await proxy.close();
  await remove(world, "shop");
  await proxy.open();
  await vi.waitFor(() => expect(changes).toEqual(["added shop", "removed shop"]), patience);
  await vi.waitFor(() => expect(deployments.problem()).toBeUndefined(), patience);
});

test("a dead but open connection is detected by its silence", async () => {
  const world = await useWatch({ silentMs: 500 });
  const { proxy, changes, deployments } = world;
  proxy.blackHole(true);
  await create(world, "shop");
  await vi.waitFor(() => expect(deployments.age()).toBeGreaterThan(0.4), patience);
  await vi.waitFor(() => expect(proxy.requests.filter(isWatch).length).toBeGreaterThan(1), patience);
  proxy.blackHole(false);
  proxy.cut();

  await vi.waitFor(() => expect(changes).toEqual(["added shop"]), patience);
  expect(deployments.age()).toBeLessThan(60);
});

test("duplicate and late events, and events of a deleted object with the same name, change nothing", async () => {
  const world = await useWatch();
  const { client, namespace, proxy, changes, deployments } = world;
  await create(world, "shop");
  const old = (await client.request({ method: "GET", path: deploymentsPath(namespace, "shop") })) as object;
  await patch(world, "shop", { spec: { interval: "7m" } });
  await vi.waitFor(() => expect(changes).toEqual(["added shop", "changed shop"]), patience);

  proxy.inject({ type: "MODIFIED", object: old });
  proxy.inject({ type: "ADDED", object: old });
  const other = resource(namespace, "shop") as { metadata: object };
  proxy.inject({ type: "DELETED", object: { ...other, metadata: { ...other.metadata, uid: "another" } } });
  await create(world, "last");

  await vi.waitFor(() => expect(changes.at(-1)).toBe("added last"), patience);
  expect(changes).toEqual(["added shop", "changed shop", "added last"]);
  expect(deployments.all()).toMatchObject([{ spec: { intervalMs: 420_000 } }, { key: { name: "last" } }]);
});

test("neither an invalid resource nor a handler that throws affects others", async () => {
  const world = await useWatch();
  const { namespace, proxy, changes, deployments, lines } = world;
  deployments.onChange(({ deployment }: DeploymentChange) => {
    if (deployment.key.name === "trap") throw new Error("trapped");
  });
  proxy.inject({ type: "ADDED", object: null });
  proxy.inject({ type: "ADDED", object: { metadata: { name: 7 } } });
  proxy.inject({ type: "MODIFIED", object: { metadata: { name: "wild", namespace, uid: "u" }, spec: [["?"]] } });
  await create(world, "trap");
  await create(world, "broken", { source: {} });
  await create(world, "sound");

  await vi.waitFor(() => expect(changes.at(-1)).toBe("added sound"), patience);
  const problems = deployments.all().map((one) => [one.key.name, isMalformed(one) && one.problem]);
  expect(problems).toContainEqual(["broken", "missing source spec; set spec.source.git or spec.source.oci with a url"]);
  expect(problems).toContainEqual(["sound", false]);
  expect(lines.map(({ msg }) => msg)).toContain("could not handle a change");
});

test("a missing CRD or missing permissions are logged clearly and once, until they exist", async () => {
  const world = await useWatch({ start: false });
  const { proxy, deployments, lines } = world;
  const granted = proxy.answer(isList, { status: 403, body: JSON.stringify({ message: "forbidden" }) });
  const started = deployments.start();

  await vi.waitFor(() => expect(proxy.requests.filter(isList).length).toBeGreaterThan(2), patience);
  expect(deployments.problem()).toMatch(/is not allowed to list and watch them; grant the account/);
  expect(deployments.synced()).toBe(false);
  expect(lines.filter(({ level }) => level === 40)).toHaveLength(1);

  granted();
  await started;
  await vi.waitFor(() => expect(deployments.problem()).toBeUndefined(), patience);
});

test("an object that was deleted and created again during an outage is a new object", async () => {
  const world = await useWatch();
  const { proxy, changes } = world;
  await create(world, "shop");
  await vi.waitFor(() => expect(changes).toEqual(["added shop"]), patience);
  await proxy.close();
  await remove(world, "shop");
  await create(world, "shop");
  await proxy.open();

  await vi.waitFor(() => expect(changes).toEqual(["added shop", "removed shop", "added shop"]), patience);
});
