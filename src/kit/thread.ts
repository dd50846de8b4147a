/** The code of the thread in in-thread.ts. Functions that it calls by name are tagged `@inThread`. */
import { parentPort } from "node:worker_threads";
import type { ThreadAnswer, ThreadCall, ThreadMessage } from "./in-thread.ts";

async function answer({ module, name, args }: ThreadCall): Promise<ThreadAnswer> {
  try {
    const exported = (await import(module)) as Record<string, (...args: unknown[]) => unknown>;
    parentPort?.postMessage("begun" satisfies ThreadMessage);
    return { value: await exported[name]?.(...args) };
  } catch (error) {
    return { error };
  }
}

parentPort?.on("message", (order: ThreadCall) => {
  void answer(order).then((found) => parentPort?.postMessage(found));
});
