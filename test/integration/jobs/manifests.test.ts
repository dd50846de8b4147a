import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import type { ReportManifests } from "../../../src/model/manifests.ts";
import { createManifestStore, type ManifestStoreDeps } from "../../../src/redis/manifests.ts";
import { aPullRequestKey } from "../../support/jobs.ts";
import { uniquePrefix, useRedisServer } from "../../support/redis.ts";

async function useManifests(options: Partial<ManifestStoreDeps> = {}) {
  const redis = useRedisServer();
  await redis.start();
  const prefix = uniquePrefix();
  const store = createManifestStore({ connection: redis.producer(), prefix, ...options });
  const client = redis.client();
  const storedKey = async () => (await client.keys(`${prefix}:*`))[0] ?? "";
  return { store, client, storedKey };
}

const of = (...texts: string[]): ReportManifests => ({
  startedAt: 1,
  deployments: [
    {
      deployment: "shop/prod",
      objects: texts.map((text, at) => ({ ref: { kind: "ConfigMap", name: `${at}` }, text, linesLeftOut: 0 })),
      leftOut: 0,
    },
  ],
});

test("manifests are returned as they were saved, compressed, and expire", async () => {
  const { store, client, storedKey } = await useManifests({ keepMs: 60_000 });
  const manifests = of("kind: ConfigMap\n".repeat(1_000), "ünïcödé");
  await store.save(aPullRequestKey(7, "Org/Shop"), manifests);
  expect(await store.find(aPullRequestKey())).toEqual(manifests);
  expect(await store.find(aPullRequestKey(8))).toBeUndefined();
  expect(await client.strlen(await storedKey())).toBeLessThan(1_000);
  expect(await client.pttl(await storedKey())).toBeGreaterThan(0);
});

test("what is too much is left out until the rest fits, and is counted", async () => {
  const { store, client, storedKey } = await useManifests({ mostBytes: 10_000 });
  const texts = Array.from({ length: 100 }, () => randomBytes(500).toString("hex"));
  await store.save(aPullRequestKey(), of(...texts));
  const [found] = (await store.find(aPullRequestKey()))?.deployments ?? [];
  expect(await client.strlen(await storedKey())).toBeLessThanOrEqual(10_000);
  expect(found?.objects.length).toBeGreaterThan(0);
  expect((found?.objects.length ?? 0) + (found?.leftOut ?? 0)).toBe(100);
});

test("what another program wrote there counts as not stored", async () => {
  const { store, client, storedKey } = await useManifests();
  await store.save(aPullRequestKey(), of("a"));
  await client.set(await storedKey(), "not compressed");
  expect(await store.find(aPullRequestKey())).toBeUndefined();
});
