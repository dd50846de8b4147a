/**
 * Memory that is not needed any more. For a rush, and its start is one, V8 takes tens of megabytes for what is young, and a
 * server that is quiet again allocates so little that V8 never looks whether they are still needed. It is told to.
 */
import { performance } from "node:perf_hooks";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { Logger } from "../log.ts";

export interface Heap {
  /** Of the time since it was last asked, how much the event loop was busy: 0 to 1. */
  busy(): number;
  /** What V8 has of the system. */
  heldBytes(): number;
  /**
   * Collects garbage once. Nothing else runs meanwhile: some 0.1 s. What is left of it V8 then collects in slices, within some
   * seconds, and gives back to the system what is not needed: a collection makes it look.
   */
  collect(): void;
}

const lookEveryMs = 10_000;
/** Nobody is held up. */
const quiet = 0.05;
/** Hardly anybody is, if it happens seldom: so busy is a server with a thousand deployments of which none changes. */
const calm = 0.2;
const seldomMs = 60_000;
/** For less than this nobody is held up: it is what comes and goes while nothing happens. */
const worthBytes = 24 * 1024 * 1024;

/**
 * Looks now and then whether the server is quiet, or calm for some time, and holds more than it did when it was last told,
 * or has come to need less since: what was held then was held by a busier one. Returns how to stop.
 */
export function startGivingBack(log: Logger, heap: Heap = heapOfProcess()): () => void {
  let needed = 0;
  let neededWhile = 0;
  let calmLooks: number[] = [];
  heap.busy();
  const look = () => {
    const held = heap.heldBytes();
    needed = Math.min(needed, held); // what was told to be given back takes some seconds
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
  // The inspector's way collects again and again until nothing is left, which takes half a second after large results.
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
