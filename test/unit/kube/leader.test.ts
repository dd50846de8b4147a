import { expect, onTestFinished, test, vi } from "vitest";
import { ApiError } from "../../../src/errors.ts";
import type { KubeRequest } from "../../../src/kube/client.ts";
import type { LeaseObject } from "../../../src/kube/lease-object.ts";
import { startLeadership } from "../../../src/kube/leader.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

/** An API server with the one Lease, or without its namespace. */
function fakeApi({ holder, missing = false }: { holder?: string; missing?: boolean } = {}) {
  let version = 1;
  let lease: LeaseObject | undefined =
    holder === undefined
      ? undefined
      : { metadata: meta(version), spec: { holderIdentity: holder, leaseDurationSeconds: 15 } };
  function meta(resourceVersion: number) {
    return { name: "5ab5d0f9.kluctl.io", namespace: "kluctl-system", resourceVersion: String(resourceVersion) };
  }
  let reads = 0;
  let down = false;
  return {
    /** Stops or restores the answers of the API server. */
    down: (is: boolean) => void (down = is),
    /** Resolves when the current version of the Lease has been read. */
    async seen() {
      const before = reads;
      await vi.waitFor(() => expect(reads).toBeGreaterThan(before + 1), patience);
    },
    holder: () => lease?.spec?.holderIdentity,
    /** Renews the Lease, as its holder does. */
    renew(by: string) {
      lease = { metadata: meta(++version), spec: { ...lease?.spec, holderIdentity: by } };
    },
    request({ method, body }: KubeRequest): Promise<unknown> {
      if (method === "GET") reads++;
      if (down) return Promise.reject(new ApiError(0, "no answer"));
      if (method === "GET") return lease ? Promise.resolve(lease) : Promise.reject(new ApiError(404, "no lease"));
      if (missing) return Promise.reject(new ApiError(404, "no namespace"));
      const written = body as LeaseObject;
      if (method === "POST" && lease) return Promise.reject(new ApiError(409, "exists"));
      if (method === "PUT" && written.metadata.resourceVersion !== lease?.metadata.resourceVersion)
        return Promise.reject(new ApiError(409, "changed"));
      lease = { metadata: meta(++version), spec: written.spec };
      return Promise.resolve(lease);
    },
  };
}

function start(api: ReturnType<typeof fakeApi>, how: "shared" | "exclusive" | "off", now?: () => number) {
  const leadership = startLeadership({
    client: api,
    namespace: "kluctl-system",
    how,
    identity: "us",
    log: silentLog,
    durationMs: 60,
    now,
  });
  onTestFinished(() => leadership.stop());
  return leadership;
}

test("any number of servers share the Lease, and work if its namespace does not exist", async () => {
  const api = fakeApi();
  const both = [start(api, "shared"), start(api, "shared")];
  expect(await Promise.all(both.map(({ won }) => won))).toEqual([true, true]);
  expect(api.holder()).toBe("towline");
  expect(await start(fakeApi({ missing: true }), "shared").won).toBe(true);
  expect(await start(fakeApi({ holder: "kluctl" }), "off").won).toBe(true);
});

test("while kluctl's own controller renews the Lease no Towline works, and after it stops the Lease has to expire", async () => {
  let now = 0;
  const api = fakeApi({ holder: "kluctl-controller-1" });
  const leadership = start(api, "shared", () => now);
  await vi.waitFor(() => expect(leadership.waitsFor()).toMatch(/^kluctl-controller-1 holds the Lease/), patience);
  now = 14_000;
  api.renew("kluctl-controller-1");
  await api.seen();
  now = 28_000;
  await api.seen();
  expect(api.holder()).toBe("kluctl-controller-1");
  now = 45_000;
  expect(await leadership.won).toBe(true);
  expect([leadership.waitsFor(), api.holder()]).toEqual([undefined, "towline"]);

  // A Towline that works exclusively is not reported as kluctl's controller.
  const alone = fakeApi();
  await start(alone, "exclusive").won;
  expect(alone.holder()).toMatch(/^towline-/);
  const other = start(alone, "shared", () => now);
  await vi.waitFor(() => expect(other.waitsFor()).toMatch(/^towline-.*an exclusive Towline/), patience);
});

test("a server whose Lease was taken by another has to stop", async () => {
  const api = fakeApi();
  const leadership = start(api, "shared");
  await leadership.won;
  api.renew("kluctl-controller-2");
  expect(await leadership.lost).toContain("kluctl-controller-2 took the Lease");
});

test("in exclusive mode the second server waits until the first releases the Lease", async () => {
  const api = fakeApi();
  const first = start(api, "exclusive");
  expect(await first.won).toBe(true);
  const second = start(api, "exclusive");
  await vi.waitFor(() => expect(second.waitsFor()).toContain("another controller holds"), patience);
  await first.stop();
  expect(await second.won).toBe(true);
});

test("a server that stops before its turn never had the Lease", async () => {
  const leadership = start(fakeApi({ holder: "kluctl" }), "exclusive");
  await leadership.stop();
  expect(await leadership.won).toBe(false);
});

test("no new work starts once the shared Lease was not renewed for two thirds of its duration, until it is renewed", async () => {
  let now = 0;
  const api = fakeApi();
  const leadership = start(api, "shared", () => now);
  await leadership.won;
  api.down(true);
  await api.seen();
  expect([leadership.mayBegin(), leadership.problem()]).toEqual([true, undefined]);
  now += 41;
  expect([leadership.mayBegin(), leadership.problem()]).toEqual([false, expect.stringContaining("renewed in time")]);
  api.down(false);
  await vi.waitFor(() => expect([leadership.mayBegin(), leadership.problem()]).toEqual([true, undefined]), patience);
  api.renew("kluctl-controller-2");
  await leadership.lost;

  // Without a Lease to renew, the renewal is never late.
  for (const free of [start(fakeApi({ missing: true }), "shared", () => now), start(fakeApi(), "off", () => now)]) {
    await free.won;
    now += 1_000;
    expect(free.mayBegin()).toBe(true);
  }
});
