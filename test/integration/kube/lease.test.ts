import { setImmediate } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { createLeases, leaseName } from "../../../src/kube/lease.ts";
import type { Held } from "../../../src/model.ts";
import { deploymentsPath, fakeLog, resource, useKube } from "../../support/kube.ts";
import { patience } from "../../support/patience.ts";

interface LeaseItem {
  readonly metadata: { readonly uid: string; readonly ownerReferences?: readonly { uid: string }[] };
  readonly spec: {
    readonly holderIdentity: string;
    readonly leaseTransitions: number;
    readonly leaseDurationSeconds: number;
  };
}

/** Two servers on one cluster: the first one behind the proxy, the second one with a clock that the test controls. */
async function useLeases(durationMs = 15_000) {
  const kube = await useKube();
  const { namespace, client, proxied, proxy } = kube;
  const { log } = fakeLog();
  const clock = { ms: 0 };
  const one = createLeases({ client: proxied, identity: "one", durationMs, log });
  const two = createLeases({ client, identity: "two", durationMs, log, now: () => clock.ms });
  const key = { namespace, name: "shop" };
  const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
  const read = async () =>
    (await client.request({ method: "GET", path: `${path}/${leaseName(key.name)}` })) as LeaseItem;
  const holds: Held[] = [];
  onTestFinished(async () => {
    proxy.blackHole(false);
    await Promise.all(holds.map((held) => held.release()));
  });
  const mustHold = async (held: Promise<Held | undefined>) => {
    const it = await held;
    if (it === undefined) throw new Error("Somebody else holds it.");
    holds.push(it);
    return it;
  };
  return { ...kube, one, two, key, path, read, mustHold, clock };
}

test("only one server holds a lease; once released, it is free at once", async () => {
  const { one, two, key, read, mustHold } = await useLeases();
  const first = await mustHold(one.hold(key));
  await expect(two.hold(key)).resolves.toBeUndefined();
  await expect(one.hold(key)).resolves.toBeUndefined();
  expect(await read()).toMatchObject({ spec: { leaseTransitions: 0, leaseDurationSeconds: 15 } });

  await first.release();
  const second = await mustHold(two.hold(key));
  expect(await read()).toMatchObject({ spec: { holderIdentity: expect.stringMatching(/^two_/), leaseTransitions: 1 } });
  expect(first.lost.aborted).toBe(false);
  expect(second.lost.aborted).toBe(false);
});

test("acquiring an uncontended lease takes one request, and so does releasing it", async () => {
  const { one, key, proxy, mustHold } = await useLeases();
  const requests = () => proxy.requests.splice(0).map((request) => request.split(" ")[0]);
  requests();

  const first = await mustHold(one.hold(key));
  expect(requests()).toEqual(["POST"]);
  await first.release();
  expect(requests()).toEqual(["PUT"]);
  const second = await mustHold(one.hold(key));
  await second.release();
  expect(requests()).toEqual(["PUT", "PUT"]);
  expect([first.untouchedSince, second.untouchedSince]).toEqual([undefined, expect.any(Number)]);
});

test("a server can tell whether another one has held the lease since its own last time", async () => {
  const { one, two, key, mustHold } = await useLeases();
  await (await mustHold(one.hold(key))).release();
  await (await mustHold(two.hold(key))).release();
  const again = await mustHold(one.hold(key));
  expect(again.untouchedSince).toBeUndefined();
  const before = performance.now();
  await again.release();
  const { untouchedSince } = await mustHold(one.hold(key));
  expect(untouchedSince).toBeGreaterThan(before);
});

test("in 200 rounds of two servers racing there is never more than one holder", async () => {
  const { one, two, key } = await useLeases();
  let holders = 0;
  const won = { one: 0, two: 0 };
  async function race(name: "one" | "two", round: number): Promise<void> {
    const held = await { one, two }[name].hold({ ...key, name: `shop-${round % 10}` });
    if (held === undefined) return;
    holders++;
    won[name]++;
    expect(holders).toBe(1);
    await setImmediate();
    expect(held.lost.aborted).toBe(false);
    holders--;
    await held.release();
  }
  for (let round = 0; round < 200; round++) await Promise.all([race("one", round), race("two", round)]);

  expect(won.one + won.two).toBeGreaterThanOrEqual(200);
});

test("a dead holder's lease is taken over only after it was seen unchanged for its whole duration", async () => {
  const { one, two, key, proxy, read, mustHold, clock } = await useLeases(2_000);
  const held = await mustHold(one.hold(key));
  // Another machine's clock does not count: however far ahead ours is, the whole duration has to be observed.
  clock.ms = 3_600_000;
  await expect(two.hold(key)).resolves.toBeUndefined();
  await vi.waitFor(() => expect(proxy.requests.some((request) => request.startsWith("PUT"))).toBe(true), patience);
  clock.ms += 1_500;
  await expect(two.hold(key)).resolves.toBeUndefined(); // renewed meanwhile, so the duration starts again
  proxy.blackHole(true);
  await vi.waitFor(() => expect(held.lost.aborted).toBe(true), patience);
  await expect(two.hold(key)).resolves.toBeUndefined();

  clock.ms += 2_001;
  await mustHold(two.hold(key));
  expect((await read()).spec).toMatchObject({ holderIdentity: expect.stringMatching(/^two_/), leaseTransitions: 1 });
});

test("a lease that cannot be renewed is lost before another server can take it", async () => {
  const { one, key, proxy, mustHold } = await useLeases(9_000);
  const held = await mustHold(one.hold(key));
  let renewals = 0;
  held.onRenewed(() => renewals++);
  expect(renewals).toBe(1);
  await vi.waitFor(() => expect(renewals).toBeGreaterThan(1), patience);
  const cutAt = performance.now();
  proxy.blackHole(true);

  await vi.waitFor(() => expect(held.lost.aborted).toBe(true), patience);
  expect(performance.now() - cutAt).toBeLessThan(9_000);
  expect(String(held.lost.reason)).toContain("could not be renewed in time");
});

test("a short fault does not lose the lease", async () => {
  const { one, key, proxy, mustHold } = await useLeases(6_000);
  const held = await mustHold(one.hold(key));
  proxy.swallow((request) => request.startsWith("PUT"));
  proxy.answer((request) => request.startsWith("PUT"), { status: 500 }, 1);
  let renewals = -1; // the first call is the initial acquisition, not a renewal
  held.onRenewed(() => renewals++);

  await vi.waitFor(() => expect(renewals).toBeGreaterThan(1), patience);
  expect(held.lost.aborted).toBe(false);
});

test("a server whose response got lost still gets the lease", async () => {
  const { one, two, key, proxy, mustHold } = await useLeases();
  proxy.swallow((request) => request.startsWith("POST") && request.includes("/leases"));
  const held = await mustHold(one.hold(key));
  await expect(two.hold(key)).resolves.toBeUndefined();

  proxy.swallow((request) => request.startsWith("PUT"));
  await held.release();
  await mustHold(two.hold(key));
});

test("a server that finds another holder, or no Lease, has lost it", async () => {
  const { one, key, client, path, mustHold } = await useLeases(6_000);
  const taken = await mustHold(one.hold(key));
  const deleted = await mustHold(one.hold({ ...key, name: "other" }));
  const spec = { holderIdentity: "usurper" };
  await client.request({ method: "PATCH", path: `${path}/${leaseName("shop")}`, body: { spec } });
  await client.request({ method: "DELETE", path: `${path}/${leaseName("other")}` });

  await vi.waitFor(() => expect(taken.lost.aborted && deleted.lost.aborted).toBe(true), patience);
  expect(String(taken.lost.reason)).toContain("another process holds it now");
  expect(String(deleted.lost.reason)).toContain("deleted");
});

test("a foreign write that only changes labels does not lose the lease", async () => {
  const { one, key, client, path, mustHold } = await useLeases(6_000);
  const held = await mustHold(one.hold(key));
  const metadata = { labels: { seen: "yes" } };
  await client.request({ method: "PATCH", path: `${path}/${leaseName("shop")}`, body: { metadata } });
  let renewals = -1;
  held.onRenewed(() => renewals++);

  await vi.waitFor(() => expect(renewals).toBeGreaterThan(0), patience);
  expect(held.lost.aborted).toBe(false);
});

test("a Lease is owned by its deployment, and deleted with it", async () => {
  const { one, key, client, namespace, read, mustHold } = await useLeases();
  const body = resource(namespace, key.name);
  const created = await client.request({ method: "POST", path: deploymentsPath(namespace), body });
  const { uid } = (created as LeaseItem).metadata;
  const held = await mustHold(one.hold(key, { uid }));
  expect((await read()).metadata.ownerReferences).toMatchObject([{ uid }]);

  await held.release();
  await client.request({ method: "DELETE", path: deploymentsPath(namespace, key.name) });
  await vi.waitFor(() => expect(read()).rejects.toMatchObject({ status: 404 }), patience);
});

test("a lease in a missing namespace is an error, not a wait", async () => {
  const { one } = await useLeases();
  await expect(one.hold({ namespace: "absent", name: "shop" })).rejects.toMatchObject({ status: 404 });
});

test("deleting a deployment in a terminating namespace needs no Lease, which cannot be created there", async () => {
  const { one, key, namespace, client, mustHold } = await useLeases(6_000);
  const map = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "stays", finalizers: ["example.com/stays"] } };
  const maps = `/api/v1/namespaces/${namespace}/configmaps`;
  await client.request({ method: "POST", path: maps, body: map });
  const letGo = { metadata: { finalizers: null } };
  onTestFinished(
    async () => void (await client.request({ method: "PATCH", patch: "merge", path: `${maps}/stays`, body: letGo })),
  );
  await client.request({ method: "DELETE", path: `/api/v1/namespaces/${namespace}` });

  const owner = { apiVersion: "gitops.kluctl.io/v1beta1", uid: "1" } as const;
  await expect(one.hold(key, owner)).rejects.toThrow(/being terminated/);
  const held = await mustHold(one.hold(key, { ...owner, deletionTimestamp: "2026-01-01T00:00:00Z" }));
  let renewals = 0;
  held.onRenewed(() => renewals++);
  await vi.waitFor(() => expect(renewals).toBeGreaterThan(1), patience); // kluctl only runs while renewals arrive
  expect(held.lost.aborted).toBe(false);
});
