/**
 * Returns unused heap memory to the system. Under load, and at start, V8 grows its young generation by tens of megabytes; an
 * idle server then allocates so little that V8 never collects. This module triggers the collection.
 */
import { performance } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Logger } from "../log.ts";

export interface Heap {
  /** Utilization of the event loop since the previous call: 0 to 1. */
  busy(): number;
  /** Memory that V8 has allocated from the system. */
  heldBytes(): number;
  /**
   * Collects garbage once, which blocks the thread for about 0.1 s. V8 continues in slices over the next seconds, and returns
   * unused memory to the system.
   */
  collect(): void;
}

const lookEveryMs = 10_000;
/** Below this utilization a collection delays nothing. */
const quiet = 0.05;
/** Below this utilization a collection is acceptable once per `seldomMs`: a server with a thousand unchanged deployments. */
const calm = 0.2;
const seldomMs = 60_000;
/** Less growth than this is not worth a collection: it is normal variation of an idle server. */
const worthBytes = 24 * 1024 * 1024;

/**
 * Collects garbage when the server is quiet, or has been calm for some time, and the heap has grown since the previous
 * collection, or the load has dropped since then. Returns a function that stops it.
 */
export function startReturningMemory(log: Logger, heap: Heap = heapOfProcess()): () => void {
  let needed = 0;
  let neededWhile = 0;
  let calmLooks: number[] = [];
  heap.busy();
  const look = () => {
    const held = heap.heldBytes();
    needed = Math.min(needed, held); // V8 returns memory over some seconds
    const busy = heap.busy();
    calmLooks = busy > calm ? [] : [...calmLooks, busy].slice(-seldomMs / lookEveryMs);
    const calmForLong = calmLooks.length * lookEveryMs >= seldomMs;
    const mean = calmLooks.reduce((sum, one) => sum + one, 0) / calmLooks.length;
    const mayHoldUp = busy > quiet && !calmForLong;
    const needsLess = calmForLong && neededWhile > quiet && mean < neededWhile / 2;
    if (mayHoldUp || (held < needed + worthBytes && !needsLess)) return;
    calmLooks = [];
    const from = performance.now();
    heap.collect();
    needed = heap.heldBytes();
    neededWhile = mean;
    log.debug({ before: held, after: needed, ms: Math.round(performance.now() - from) }, "collected garbage");
  };
  const timer = setInterval(look, lookEveryMs);
  timer.unref();
  return () => clearInterval(timer);
}

export function heapOfProcess(): Heap {
  let since = performance.eventLoopUtilization();
  // The inspector's collectGarbage repeats until nothing is left, which takes half a second after large results.
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as NodeJS.GCFunction;
  return {
    busy() {
      const now = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(now, since);
      since = now;
      return utilization;
    },
    heldBytes: () => getHeapStatistics().total_physical_size,
    collect: () => collect(),
  };
}
