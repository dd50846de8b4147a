/**
 * Records deliveries for `towline replay`, encrypted, if that is configured. Redis removes each record when its time is
 * over, and a script removes the oldest when there are too many. A record that cannot be written is dropped: no delivery
 * waits for it.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { z } from "zod";
import type { ForgeConfig, RecordingConfig } from "../config.ts";
import { parseJson } from "../kit/json.ts";
import { createSealedBox, type SealedBox } from "../kit/sealed-box.ts";
import type { Logger } from "../log.ts";
import {
  RecordedContent,
  type RecordedDelivery,
  type RecordedIdentity,
  toRecordedEvent,
} from "../model/recorded-delivery.ts";
import { createBufferedWriter } from "./buffered-writer.ts";
import { createReadiness, withinDeadline } from "./connection.ts";
import type { AnsweredDelivery } from "./deliveries.ts";

export interface RecorderDeps {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** The prefix of all keys in Redis. */
  readonly prefix: string;
  readonly recording: () => RecordingConfig;
  readonly forges: () => readonly Pick<ForgeConfig, "id" | "kind" | "webhookSecrets">[];
  readonly observe?: ((outcome: "stored" | "dropped", deliveries: number) => void) | undefined;
  readonly log: Logger;
}

export interface DeliveryRecorder {
  /** Records an accepted delivery whose sender was verified. Returns at once and never throws. */
  record(delivery: AnsweredDelivery): void;
  /** Writes pending records. */
  flush(): Promise<void>;
}

export interface RecordingsDeps extends Pick<RecorderDeps, "connection" | "prefix"> {
  readonly recording: RecordingConfig;
}

export interface Recordings {
  /** The number of records that are not older than this, by Redis' clock. Throws QueueUnavailableError. */
  count(maxAgeMs?: number): Promise<number>;
  /** The records that are not older than this, oldest first, in pages. Throws QueueUnavailableError. */
  read(maxAgeMs: number, signal?: AbortSignal): AsyncGenerator<readonly ReadRecord[]>;
}

/** A record, or why it cannot be read. */
export type ReadRecord = RecordedDelivery | "unknown-key" | "altered" | "unknown-format";

/** What is stored under the key of a record. The identity is also part of the encryption. */
const Stored = z.object({
  v: z.literal(1),
  forge: z.string(),
  delivery: z.string(),
  at: z.number(),
  box: z.base64(),
});

const purpose = "towline recorded delivery";
const dayMs = 24 * 3_600_000;
/** In letters, of all records that wait to be written. */
const mostUnwritten = 4 * 1024 ** 2;
const pageSize = 200;

interface Unwritten {
  readonly identity: RecordedIdentity;
  readonly content: string;
}

export function createDeliveryRecorder(deps: RecorderDeps): DeliveryRecorder {
  const { connection, prefix, recording, forges, observe, log } = deps;
  const keys = keysOf(prefix);
  const sealedBoxOf = rememberLast(openBoxes);
  const writer = createBufferedWriter<Unwritten>({
    ...{ connection, ready: createReadiness(connection), log, what: "recorded deliveries" },
    ...{ most: mostUnwritten, sizeOf: ({ content }) => content.length, observe },
    write(pipeline, _key, records) {
      const { days, maxDeliveries, maxSizeBytes, keys: secrets } = recording();
      const box = sealedBoxOf(secrets);
      if (box === undefined) throw new Error("recording has no key");
      const sealed = records.flatMap(({ identity, content }) => {
        const id = randomUUID();
        const text = JSON.stringify({
          ...{ v: 1, ...identity },
          box: box.seal(content, boundTo(prefix, id, identity)).toString("base64"),
        });
        return [`${id}:${Buffer.byteLength(text)}`, text];
      });
      const limits = [days * dayMs, maxDeliveries, maxSizeBytes];
      pipeline.eval(store, 2, keys.index, keys.size, keys.record(""), ...limits, ...sealed);
    },
  });

  return {
    flush: writer.flush,
    record({ forge: id, at, status, event }) {
      if (!recording().enabled || status !== 202 || event === undefined) return;
      const forge = forges().find((one) => one.id === id);
      // Without a secret, deliveries are accepted unverified.
      if (forge === undefined || forge.webhookSecrets.length === 0) return;
      if (event.kind === "ping" || event.kind === "irrelevant") return;
      const recorded = toRecordedEvent(event);
      if (recorded === undefined) return observe?.("dropped", 1);
      const content: RecordedContent = { v: 1, host: forge.kind, event: recorded };
      const identity = { forge: id, delivery: event.delivery, at };
      writer.add(keys.index, { identity, content: JSON.stringify(content) });
    },
  };
}

/** The recorded deliveries, for reading only. */
export function createRecordings({ connection, prefix, recording }: RecordingsDeps): Recordings {
  const ready = createReadiness(connection);
  const keys = keysOf(prefix);
  const box = openBoxes(recording.keys);

  async function inTime<T>(work: () => Promise<T>): Promise<T> {
    return withinDeadline("return the recorded deliveries", 5_000, async (signal) => {
      await ready(signal);
      return work();
    });
  }

  /** Redis' time then, in milliseconds. */
  async function since(maxAgeMs: number): Promise<number> {
    const [seconds, micros] = await connection.time();
    return Number(seconds) * 1_000 + Number(micros) / 1_000 - maxAgeMs;
  }

  function open(id: string, json: string): ReadRecord {
    const { data: stored } = Stored.safeParse(parseJson(json));
    if (stored === undefined) return "unknown-format";
    const { forge, delivery, at } = stored;
    const identity = { forge, delivery, at };
    const opened = box?.open(Buffer.from(stored.box, "base64"), boundTo(prefix, id, identity)) ?? "unknown-key";
    if (typeof opened === "string") return opened;
    const { data: content } = RecordedContent.safeParse(parseJson(opened.content));
    return content === undefined ? "unknown-format" : { ...identity, host: content.host, event: content.event };
  }

  return {
    count: (maxAgeMs = recording.days * dayMs) =>
      inTime(async () => connection.zcount(keys.index, await since(maxAgeMs), "+inf")),
    async *read(maxAgeMs, signal) {
      const members = await inTime(async () => connection.zrangebyscore(keys.index, await since(maxAgeMs), "+inf"));
      const ids = members.map((member) => member.replace(/:\d+$/, ""));
      for (let at = 0; at < ids.length; at += pageSize) {
        signal?.throwIfAborted();
        const page = ids.slice(at, at + pageSize);
        const found = await inTime(async () => connection.mget(page.map(keys.record)));
        // Some may have been removed in the meantime.
        yield page.flatMap((id, index) => {
          const json = found[index] ?? undefined;
          return json === undefined ? [] : open(id, json);
        });
      }
    },
  };
}

/** Keys in Redis. `index`: the ids of all records by time, each with its size; `size`: their total size. */
function keysOf(prefix: string) {
  return {
    index: `${prefix}:recorded`,
    size: `${prefix}:recorded:size`,
    record: (id: string) => `${prefix}:recorded:${id}`,
  };
}

/** A record that is copied to another key, or gets the identity of another delivery, cannot be decrypted any more. */
function boundTo(prefix: string, id: string, { forge, delivery, at }: RecordedIdentity): string {
  return JSON.stringify([prefix, id, forge, delivery, at]);
}

function openBoxes(keys: RecordingConfig["keys"]): SealedBox | undefined {
  return keys.length === 0
    ? undefined
    : createSealedBox(
        keys.map((key) => key.reveal()),
        purpose,
      );
}

function rememberLast<Input, Output>(compute: (input: Input) => Output): (input: Input) => Output {
  let last: { readonly input: Input; readonly output: Output } | undefined;
  return (input) => {
    if (last?.input !== input) last = { input, output: compute(input) };
    return last.output;
  };
}

/**
 * Stores records, then removes the oldest ones that are too old or too many. KEYS: the index and the total size. ARGV: the
 * beginning of the records' keys; limits: age in milliseconds, number, bytes; then for each record its id with its size,
 * and its text. Records of one call keep their order, by fractions of a millisecond.
 */
const store = `
local index, total = KEYS[1], KEYS[2]
local record, keep, most, mostBytes = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function remove(members)
  for _, member in ipairs(members) do
    local id, bytes = string.match(member, "^(.*):(%d+)$")
    redis.call("DEL", record .. id)
    redis.call("ZREM", index, member)
    redis.call("DECRBY", total, bytes)
  end
end

for at = 5, #ARGV, 2 do
  local id, bytes = string.match(ARGV[at], "^(.*):(%d+)$")
  redis.call("SET", record .. id, ARGV[at + 1], "PX", keep)
  redis.call("ZADD", index, string.format("%.3f", now + (at - 5) / 2000), ARGV[at])
  redis.call("INCRBY", total, bytes)
end

remove(redis.call("ZRANGEBYSCORE", index, "-inf", string.format("%.0f", now - keep)))
local over = redis.call("ZCARD", index) - most
if over > 0 then remove(redis.call("ZRANGE", index, 0, over - 1)) end
while tonumber(redis.call("GET", total) or "0") > mostBytes do
  local oldest = redis.call("ZRANGE", index, 0, 0)
  if #oldest == 0 then
    redis.call("DEL", total)
    break
  end
  remove(oldest)
end
redis.call("PEXPIRE", index, keep)
redis.call("PEXPIRE", total, keep)
return redis.call("ZCARD", index)
`;
