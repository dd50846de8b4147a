import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import express from "express";
import { expect, onTestFinished, test } from "vitest";
import { type AdminRoutesDeps, type Check, createAdminRoutes } from "../../../routes/admin.ts";
import { createMetrics } from "../../../src/metrics.ts";

test("the server is live as long as it responds, whatever fails outside", async () => {
  const { get } = await useAdmin({ checks: [failing("redis", "connection refused")] });
  for (const path of ["/livez", "/healthz"]) expect((await get(path)).status).toBe(200);
});

test("any other path is answered with the available ones", async () => {
  const { get } = await useAdmin({ checks: [] });
  const res = await get("/health");
  expect(res.status).toBe(404);
  expect(await res.json()).toMatchObject({ hint: "Available: /livez, /readyz, /metrics and /version." });
});

test("the server is ready if every check passes, and the answer has each check's details", async () => {
  const { get } = await useAdmin({ checks: [{ name: "kluctl", check: () => ({ ok: true, version: "2.28.2" }) }] });
  const res = await get("/readyz");
  expect([res.status, res.headers.get("cache-control")]).toEqual([200, "no-store"]);
  expect(await res.json()).toEqual({ ready: true, checks: { kluctl: { ok: true, version: "2.28.2" } } });
});

test("a check that fails, throws or hangs fails alone, and shows since when", async () => {
  let now = new Date("2026-01-02T03:04:05Z");
  const { get } = await useAdmin({
    now: () => now,
    checkTimeoutMs: 20,
    checks: [
      { name: "kubernetes", check: () => ({ ok: true, watchAgeSeconds: 3 }) },
      failing("redis", "connection refused at redis:6379"),
      { name: "kluctl", check: () => Promise.reject(new Error("not found")) },
      { name: "disk", check: () => new Promise(() => undefined) },
    ],
  });
  await get("/readyz");
  now = new Date("2026-01-02T03:05:00Z");
  const res = await get("/readyz");
  const since = "2026-01-02T03:04:05.000Z";
  expect(res.status).toBe(503);
  expect(await res.json()).toEqual({
    ready: false,
    checks: {
      kubernetes: { ok: true, watchAgeSeconds: 3 },
      redis: { ok: false, error: "connection refused at redis:6379", since },
      kluctl: { ok: false, error: "not found", since },
      disk: { ok: false, error: "no response within 20 ms", since },
    },
  });
});

test("a check that recovers and fails again shows the time of the new failure", async () => {
  let [now, ok] = ["2026-01-02T03:04:05.000Z", false];
  const { get } = await useAdmin({ now: () => new Date(now), checks: [{ name: "redis", check: () => ({ ok }) }] });
  const redis = async () => ((await (await get("/readyz")).json()) as { checks: { redis: unknown } }).checks.redis;
  expect(await redis()).toEqual({ ok: false, error: "not ready", since: now });
  ok = true;
  expect(await redis()).toEqual({ ok: true });
  [now, ok] = ["2026-01-02T04:00:00.000Z", false];
  expect(await redis()).toEqual({ ok: false, error: "not ready", since: now });
});

test("many simultaneous requests cause one round of checks", async () => {
  let rounds = 0;
  const opened = Promise.withResolvers<void>();
  const check = async () => {
    rounds++;
    await opened.promise;
    return { ok: true };
  };
  const { get } = await useAdmin({ checks: [{ name: "redis", check }] });
  const answers = [get("/readyz"), get("/readyz"), get("/readyz")];
  await expect.poll(() => rounds).toBe(1);
  expect((await get("/livez")).status).toBe(200); // the other requests have arrived by now
  opened.resolve();
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200]);
  expect(rounds).toBe(1);
});

test("metrics come in Prometheus' format, the version as JSON", async () => {
  const { get } = await useAdmin({ checks: [] });
  const metrics = await get("/metrics");
  expect(metrics.headers.get("content-type")).toContain("text/plain; version=0.0.4");
  expect(await metrics.text()).toContain("towline_redis_up");
  expect(await (await get("/version")).json()).toEqual({ version: "1.2.3", node: "v24.0.0" });
});

test("an answer with metrics that cannot be read completely is aborted, so that it is not taken for complete", async () => {
  async function* pieces() {
    yield "first 1\n".repeat(20_000);
    await Promise.resolve();
    throw new Error("no more");
  }
  const { get } = await useAdmin({ checks: [], metrics: { contentType: "text/plain", pieces } });
  await expect(get("/metrics").then((answer) => answer.text())).rejects.toThrow();
});

test("a client that disconnects during the metrics does not affect the next one", async () => {
  const left = Promise.withResolvers<void>();
  async function* pieces() {
    try {
      for (;;) {
        yield "one 1\n".repeat(10_000);
        await Promise.resolve();
      }
    } finally {
      left.resolve();
    }
  }
  const { get } = await useAdmin({ checks: [], metrics: { contentType: "text/plain", pieces } });
  const { body } = await get("/metrics");
  await body?.cancel();
  await left.promise;
  expect((await get("/version")).ok).toBe(true);
});

function failing(name: string, error: string): Check {
  return { name, check: () => ({ ok: false, error }) };
}

async function useAdmin(deps: Pick<AdminRoutesDeps, "checks"> & Partial<AdminRoutesDeps>) {
  const version = () => ({ version: "1.2.3", node: "v24.0.0" });
  const routes = createAdminRoutes({ metrics: createMetrics().registry, version, ...deps });
  const server = createServer(express().use(routes)).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { get: (path: string) => fetch(`http://127.0.0.1:${port}${path}`) };
}
