/**
 * Gathers what is stored for display only, and writes it with few commands. If Redis is unavailable, it is dropped: no
 * work is lost.
 */
import type { ChainableCommander, Redis } from "ioredis";
import type { Logger } from "../log.ts";
import { describeRedisError, withinDeadline } from "./connection.ts";

export interface BufferedWriterDeps<T> {
  /** A producer's connection, see connection.ts. */
  readonly connection: Redis;
  /** Waits until the connection accepts commands. */
  readonly ready: (signal: AbortSignal) => Promise<void>;
  /** What is stored, for display. */
  readonly what: string;
  /** For all keys together: newer items are dropped until the others are written. */
  readonly most?: number | undefined;
  /** What `most` limits, instead of the number of items: their total size. */
  readonly sizeOf?: ((item: T) => number) | undefined;
  /** Called with the number of items that were stored or dropped. */
  readonly observe?: ((outcome: "stored" | "dropped", items: number) => void) | undefined;
  /** Adds the commands that store a key's items. */
  readonly write: (pipeline: ChainableCommander, key: string, items: readonly T[], mostOfKey: number) => void;
  readonly log: Logger;
}

export interface BufferedWriter<T> {
  /** Returns at once and never throws. Of a key, the newest `mostOfKey` items are kept until they are written. */
  add(key: string, item: T, mostOfKey?: number): void;
  /** Writes pending items. */
  flush(): Promise<void>;
}

/** Items within this time are written together. */
const gatherMs = 200;
/** The same during a burst, in which most items of a key are dropped before they are written. */
const gatherInRushMs = 1_000;

export function createBufferedWriter<T>(deps: BufferedWriterDeps<T>): BufferedWriter<T> {
  const { connection, ready, what, most = Infinity, sizeOf = () => 1, observe, log } = deps;
  let unwritten = new Map<string, { readonly items: T[]; readonly mostOfKey: number }>();
  let size = 0;
  let pauseMs = gatherMs;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> = Promise.resolve();

  async function write(): Promise<void> {
    const batch = unwritten;
    unwritten = new Map();
    size = 0;
    if (batch.size === 0) return;
    const count = [...batch.values()].reduce((sum, of) => sum + of.items.length, 0);
    pauseMs = [...batch.values()].some((of) => of.items.length >= of.mostOfKey / 2) ? gatherInRushMs : gatherMs;
    try {
      await withinDeadline(`store ${what}`, 2_000, async (signal) => {
        await ready(signal);
        const pipeline = connection.pipeline();
        for (const [key, { items, mostOfKey }] of batch) deps.write(pipeline, key, items, mostOfKey);
        const failed = (await pipeline.exec())?.find(([error]) => error)?.[0];
        if (failed) throw failed;
      });
      observe?.("stored", count);
    } catch (error) {
      observe?.("dropped", count);
      log.debug({ error: describeRedisError(error) }, `could not store ${what}`);
    }
  }

  function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    return (writing = writing.then(write));
  }

  return {
    flush,
    add(key, item, mostOfKey = Infinity) {
      if (size >= most) return observe?.("dropped", 1);
      size += sizeOf(item);
      const { items } = unwritten.get(key) ?? unwritten.set(key, { items: [], mostOfKey }).get(key)!;
      items.push(item);
      if (items.length > mostOfKey) {
        items.shift();
        observe?.("dropped", 1);
      }
      timer ??= setTimeout(() => void flush(), pauseMs);
    },
  };
}
