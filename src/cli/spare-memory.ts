/**
 * Memory that is not needed any more. For a rush, and its start is one, V8 takes tens of megabytes for what is young, and a
 * server that is quiet again allocates so little that V8 never looks whether they are still needed. It is told to.
 */
import { Session } from "node:inspector/promises";
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import type { Logger } from "../log.ts";

export interface Heap {
  /** Of the time since it was last asked, how much the event loop was busy: 0 to 1. */
  busy(): number;
  /** What V8 has of the system. */
  heldBytes(): number;
  /** Collects all garbage, and gives back to the system what is not needed. Nothing else runs meanwhile: 0.1 to 0.3 s. */
  collect(): Promise<void>;
}

const lookEveryMs = 10_000;
const quiet = 0.05;
/** For less than this nobody is held up: it is what comes and goes while nothing happens. */
const worthBytes = 24 * 1024 * 1024;

/** Looks now and then whether the server is quiet and holds more than it did when it was last told. Returns how to stop. */
export function startGivingBack(log: Logger, heap: Heap = heapOfProcess()): () => void {
  let needed = 0;
  heap.busy();
  const look = async () => {
    const held = heap.heldBytes();
    if (heap.busy() > quiet || held < needed + worthBytes) return;
    await heap.collect();
    needed = heap.heldBytes();
    log.debug({ before: held, after: needed }, "gave memory back that was not needed any more");
  };
  const timer = setInterval(() => {
    look().catch((err: unknown) => log.warn({ err }, "could not give memory back"));
  }, lookEveryMs);
  timer.unref();
  return () => clearInterval(timer);
}

export function heapOfProcess(): Heap {
  let since = performance.eventLoopUtilization();
  return {
    busy() {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, since);
      since = now;
      return utilization;
    },
    heldBytes: () => getHeapStatistics().total_physical_size,
    async collect() {
      const session = new Session();
      session.connect();
      try {
        await session.post("HeapProfiler.collectGarbage");
      } finally {
        session.disconnect();
      }
    },
  };
}
