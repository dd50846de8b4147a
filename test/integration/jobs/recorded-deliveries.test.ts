/** Deliveries that are recorded in Redis for `towline replay`. */
import { expect, test, vi } from "vitest";
import type { ForgeConfig, RecordingConfig } from "../../../src/config.ts";
import { Secret } from "../../../src/config.ts";
import type { PushEvent } from "../../../src/model.ts";
import type { AnsweredDelivery } from "../../../src/redis/deliveries.ts";
import { createDeliveryRecorder, createRecordings, type ReadRecord } from "../../../src/redis/recorded-deliveries.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";
import { type RedisServer, uniquePrefix, useRedisServer } from "../../support/redis.ts";

const [first, second] = ["a-key-of-thirty-two-characters-01", "a-key-of-thirty-two-characters-02"].map(
  (key) => new Secret(key),
) as [Secret, Secret];
const dayMs = 24 * 3_600_000;
const forge = { id: "gitea", kind: "gitea", webhookSecrets: [new Secret("a-webhook-secret-123")] } as const;
const unsigned = { id: "lab", kind: "gitea", webhookSecrets: [] } as const;

const push: PushEvent = {
  kind: "push",
  forge: "gitea",
  delivery: "d",
  repoUrls: ["https://git.example.com/shop"],
  repoName: "org/shop",
  ref: "refs/heads/main",
  change: "updated",
  after: "3".repeat(40),
  sender: "an-account",
  changed: { complete: true, paths: ["a-path"] },
};

function aDelivery(delivery: string, more: Partial<AnsweredDelivery> = {}): AnsweredDelivery {
  return { forge: "gitea", at: 1_000, ms: 3, status: 202, event: { ...push, delivery }, ...more };
}

function useRecording(redis: RedisServer, more: Partial<RecordingConfig> = {}) {
  const prefix = uniquePrefix();
  const counts = { stored: 0, dropped: 0 };
  const live = { enabled: true, days: 7, maxDeliveries: 1_000, maxSizeBytes: 1024 ** 2, keys: [first], ...more };
  const recorder = createDeliveryRecorder({
    ...{ connection: redis.producer(), prefix, log: silentLog, recording: () => live },
    forges: () => [forge, unsigned] as readonly Pick<ForgeConfig, "id" | "kind" | "webhookSecrets">[],
    observe: (outcome, count) => void (counts[outcome] += count),
  });
  const recordings = (config: Partial<RecordingConfig> = {}) =>
    createRecordings({ connection: redis.producer(), prefix, recording: { ...live, ...config } });
  return {
    ...{ prefix, live, counts, recordings },
    async record(...deliveries: readonly AnsweredDelivery[]) {
      for (const delivery of deliveries) recorder.record(delivery);
      await recorder.flush();
    },
    async read(config: Partial<RecordingConfig> = {}, maxAgeMs = 7 * dayMs) {
      const found: ReadRecord[] = [];
      for await (const page of recordings(config).read(maxAgeMs)) found.push(...page);
      return found;
    },
  };
}

const idOf = (record: ReadRecord) => (typeof record === "string" ? record : record.delivery);
const numbered = (count: number) => Array.from({ length: count }, (_, n) => aDelivery(`d${n}`));

test("accepted and signed pushes are recorded in order and encrypted, and nothing else is recorded", async () => {
  const redis = useRedisServer();
  await redis.start();
  const { record, read, prefix, live, counts } = useRecording(redis);
  const ping = { kind: "ping", forge: "gitea", delivery: "p" } as const;
  await record(...numbered(300), aDelivery("refused", { status: 401, refused: "no", event: undefined }));
  await record(aDelivery("unavailable", { status: 503 }), aDelivery("ping", { event: ping }));
  await record(aDelivery("unsigned", { forge: "lab" }), aDelivery("unknown", { forge: "other" }));
  live.enabled = false;
  await record(aDelivery("off"));

  const found = await read();
  expect(found.map(idOf)).toEqual(numbered(300).map(({ event }) => event?.delivery));
  expect(found[0]).toEqual({
    ...{ forge: "gitea", delivery: "d0", at: 1_000, host: "gitea" },
    event: {
      ...{ kind: "push", repoUrls: push.repoUrls, repoName: "org/shop", ref: "refs/heads/main", change: "updated" },
      ...{ after: push.after, paths: ["a-path"] },
    },
  });
  expect(counts).toEqual({ stored: 300, dropped: 0 });
  const client = redis.client();
  const keys = await client.keys(`${prefix}:recorded:*-*`);
  expect(keys).toHaveLength(300);
  const stored = (await client.mget(keys)).join();
  for (const text of ["shop", "refs/heads", "a-path", "an-account"]) expect(stored).not.toContain(text);
});

test("Redis deletes a record after its days, and the oldest are dropped beyond the number and the size", async () => {
  const redis = useRedisServer();
  await redis.start();
  const { record, read, prefix, live, recordings } = useRecording(redis, { maxDeliveries: 5, days: 2 });
  await record(...numbered(8));
  expect((await read()).map(idOf)).toEqual(["d3", "d4", "d5", "d6", "d7"]);
  expect(await recordings().count()).toBe(5);
  const client = redis.client();
  const keys = await client.keys(`${prefix}:recorded*`);
  expect(keys).toHaveLength(7); // the records, their index and their size
  for (const key of keys) {
    const left = await client.pttl(key);
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(2 * dayMs);
  }

  // The stored size is that of the records, and is a limit, too.
  const sizes = await Promise.all((await client.keys(`${prefix}:recorded:*-*`)).map((key) => client.strlen(key)));
  expect(Number(await client.get(`${prefix}:recorded:size`))).toBe(sizes.reduce((sum, size) => sum + size, 0));
  live.maxSizeBytes = 2 * Math.max(...sizes) + 10;
  await record(aDelivery("d8"));
  expect((await read()).map(idOf)).toEqual(["d7", "d8"]);

  // A record whose time is over disappears from the index with the next one, also if Redis has deleted it already.
  const [oldest = ""] = await client.zrange(`${prefix}:recorded`, "0", "0");
  await client.zadd(`${prefix}:recorded`, Date.now() - 2 * dayMs - 1_000, oldest);
  await client.del(`${prefix}:recorded:${oldest.replace(/:\d+$/, "")}`);
  expect((await read({}, dayMs)).map(idOf)).toEqual(["d8"]);
  await record(aDelivery("d9"));
  expect(await client.zcard(`${prefix}:recorded`)).toBe(2);
  expect((await read()).map(idOf)).toEqual(["d8", "d9"]);
});

test("a record that is changed, moved, or given to another delivery is reported, and so is an unknown key", async () => {
  const redis = useRedisServer();
  await redis.start();
  const { record, read, prefix, live } = useRecording(redis);
  await record(...numbered(4));
  const client = redis.client();
  const members = await client.zrange(`${prefix}:recorded`, "0", "-1");
  const keys = members.map((member) => `${prefix}:recorded:${member.replace(/:\d+$/, "")}`);
  const [one = "", two = "", three = ""] = keys;
  const texts = await client.mget(keys);
  const [text = "", other = "", , last = ""] = texts.map((json) => json ?? "");
  const parsed = JSON.parse(text) as { box: string };
  // The content of another record; another record as a whole; a time that was changed.
  await client.set(one, JSON.stringify({ ...parsed, box: (JSON.parse(other) as typeof parsed).box }), "KEEPTTL");
  await client.set(two, last, "KEEPTTL");
  await client.set(three, texts[2]?.replace('"at":1000', '"at":1001') ?? "", "KEEPTTL");
  expect((await read()).map(idOf)).toEqual(["altered", "altered", "altered", "d3"]);
  await client.set(one, '{"v":2}', "KEEPTTL");
  expect((await read()).map(idOf)).toEqual(["unknown-format", "altered", "altered", "d3"]);

  live.keys = [second, first];
  await record(aDelivery("d4"));
  expect((await read()).map(idOf).slice(3)).toEqual(["d3", "d4"]);
  expect((await read({ keys: [second] })).map(idOf).slice(3)).toEqual(["unknown-key", "d4"]);
  expect((await read({ keys: [first] })).map(idOf).slice(3)).toEqual(["d3", "unknown-key"]);
});

test("records are dropped while Redis does not answer, without an error, and within a limit of memory", async () => {
  const redis = useRedisServer();
  await redis.start();
  const { record, read, counts } = useRecording(redis);
  await record(aDelivery("before"));
  redis.freeze();
  const large = { ...push, changed: { complete: true, paths: [`shop/${"a".repeat(90_000)}`] } };
  await record(...Array.from({ length: 100 }, () => aDelivery("large", { event: large })));
  expect(counts).toEqual({ stored: 1, dropped: 100 });
  redis.thaw();
  await vi.waitFor(async () => {
    await record(aDelivery("after"));
    expect((await read()).map(idOf)).toContain("after");
  }, patience);
});
