/**
 * Worker threads for work that would block the event loop: parsing, comparing and redacting large texts, evaluating
 * users' expressions. A thread starts with the first call, runs one call at a time, and ends after it has been idle for
 * a while. An idle thread does not keep the process alive.
 */
import { join } from "node:path";
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { createLimit } from "./limit.ts";

/** Characters. Shorter texts are processed on the calling thread: that takes some tens of milliseconds at most. */
export const largeText = 200_000;

/** A call for the thread: an exported function of a module and its arguments. */
export interface ThreadCall {
  readonly module: string;
  readonly name: string;
  readonly args: readonly unknown[];
}

export type ThreadAnswer = { readonly value: unknown } | { readonly error: unknown };

/** `begun`: the module is loaded, which takes seconds on a busy machine, and the function runs from now on. */
export type ThreadMessage = "begun" | ThreadAnswer;

/** The thread itself failed, not the function that it called; the message contains no content. */
export class ThreadError extends Error {
  override name = "ThreadError";
}

export interface ThreadOptions {
  /** For messages: `the thread for …`. */
  readonly name: string;
  /** A call that takes longer would block the calls of all others. The start of the thread does not count. */
  readonly timeoutMs: number;
  /** A call that exceeds the memory limit fails without affecting the server. */
  readonly memoryMb: () => number;
}

export type CallInThread = <Args extends readonly unknown[], Value>(
  module: string,
  named: (...args: Args) => Value,
  args: Args,
  signal?: AbortSignal,
) => Promise<Awaited<Value>>;

const idleMs = 30_000;
const startMs = 60_000;
const file = join(import.meta.dirname, `thread${import.meta.filename.endsWith(".ts") ? ".ts" : ".js"}`);

/**
 * Returns a function that calls a function that `module` (its `import.meta.url`) exports; arguments and result are
 * copied. Rejects with the function's error, with a ThreadError if the thread fails or takes too long, or when the
 * signal aborts; in the latter two cases the next call gets a new thread.
 */
export function createThread({ name: purpose, timeoutMs, memoryMb }: ThreadOptions): CallInThread {
  const turns = createLimit(1);
  let thread: Worker | undefined;
  let idling: NodeJS.Timeout | undefined;

  async function call(order: ThreadCall, signal: AbortSignal | undefined): Promise<unknown> {
    signal?.throwIfAborted();
    clearTimeout(idling);
    const worker = (thread ??= open());
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const giveUp = (why: Error): void => {
      if (thread === worker) thread = undefined;
      void worker.terminate();
      reject(why);
    };
    const fail = (what: string): void => giveUp(new ThreadError(`the thread for ${purpose} ${what}`));
    const failAfter = (ms: number) => setTimeout(() => fail(`took more than ${ms / 1_000} s`), ms);
    let late = failAfter(startMs);
    const onMessage = (message: ThreadMessage): void => {
      if (message !== "begun") return "error" in message ? reject(message.error as Error) : resolve(message.value);
      clearTimeout(late);
      late = failAfter(timeoutMs);
    };
    const onError = ({ message }: Error): void => fail(`failed: ${message}`);
    const onExit = (): void => fail("has ended");
    const onAbort = (): void => giveUp(signal?.reason as Error);
    worker.on("message", onMessage).on("messageerror", onError).on("error", onError).on("exit", onExit).ref();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      worker.postMessage(order);
      return await promise;
    } finally {
      clearTimeout(late);
      signal?.removeEventListener("abort", onAbort);
      worker.off("message", onMessage).off("messageerror", onError).off("error", onError).off("exit", onExit).unref();
      idling = setTimeout(close, idleMs).unref();
    }
  }

  function open(): Worker {
    const resourceLimits = { maxOldGenerationSizeMb: memoryMb() };
    const opened = new Worker(file, { name: purpose, env: {}, resourceLimits });
    // `exit` reports the failure too; without an `error` listener the process would end.
    opened.on("error", () => undefined);
    opened.on("exit", () => {
      if (thread === opened) thread = undefined;
    });
    return opened;
  }

  function close(): void {
    void thread?.terminate();
    thread = undefined;
  }

  return async (module, { name }, args, signal) => {
    const value = await turns.run(() => call({ module, name, args }, signal), { signal });
    return value as never; // what the named function returns, which the thread cannot know
  };
}

/** The process's thread for large texts, for work that is bounded by a text's length. */
export const inThread = createThread({
  name: "large texts",
  timeoutMs: 60_000,
  memoryMb: () => Math.min(1_024, Math.round(getHeapStatistics().heap_size_limit / 1024 / 1024)),
});
