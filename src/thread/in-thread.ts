/**
 * A thread for work that would stop the event loop: reading, comparing and redacting large texts. The process has one, like the
 * thread pool of node:zlib: it starts with the first call, does one call at a time, and ends when it has been idle for a
 * while. An idle thread does not keep the process alive.
 */
import { join } from "node:path";
import { getHeapStatistics } from "node:v8";
import { Worker } from "node:worker_threads";
import { createLimit } from "../limit.ts";

/** Characters. Work on less is done at once: it takes some tens of milliseconds at most. */
export const largeText = 200_000;

/** What the thread is asked to do: call an exported function of a module. */
export interface Order {
  readonly module: string;
  readonly name: string;
  readonly args: readonly unknown[];
}

export type Answer = { readonly value: unknown } | { readonly error: unknown };

/** The thread failed, not the function that it called: the message names no content. */
export class ThreadError extends Error {
  override name = "ThreadError";
}

/** The work on a text is bounded by its length; whatever takes longer than this would keep everybody else's from being done. */
const timeoutMs = 60_000;
const idleMs = 30_000;

const file = join(import.meta.dirname, `thread${import.meta.filename.endsWith(".ts") ? ".ts" : ".js"}`);
const turns = createLimit(1);
let thread: Worker | undefined;
let idling: NodeJS.Timeout | undefined;

/**
 * Calls a function that `module` (its `import.meta.url`) exports; arguments and result are copied. Rejects with what the function
 * throws, with a ThreadError if the thread fails or takes too long, and when the signal aborts: the next call then gets a new
 * thread.
 */
export async function inThread<Args extends readonly unknown[], Value>(
  module: string,
  { name }: (...args: Args) => Value,
  args: Args,
  signal?: AbortSignal,
): Promise<Awaited<Value>> {
  const value = await turns.run(() => call({ module, name, args }, signal), { signal });
  return value as Awaited<Value>;
}

async function call(order: Order, signal: AbortSignal | undefined): Promise<unknown> {
  signal?.throwIfAborted();
  clearTimeout(idling);
  const worker = (thread ??= open());
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  const giveUp = (why: Error): void => {
    if (thread === worker) thread = undefined;
    void worker.terminate();
    reject(why);
  };
  const onAnswer = (answer: Answer): void =>
    "error" in answer ? reject(answer.error as Error) : resolve(answer.value);
  const onError = ({ message }: Error): void =>
    giveUp(new ThreadError(`the thread for large texts failed: ${message}`));
  const onExit = (): void => giveUp(new ThreadError("the thread for large texts has ended"));
  const onAbort = (): void => giveUp(signal?.reason as Error);
  const late = setTimeout(
    () => giveUp(new ThreadError(`processing a large text took more than ${timeoutMs / 1_000} s`)),
    timeoutMs,
  );
  worker.on("message", onAnswer).on("messageerror", onError).on("error", onError).on("exit", onExit).ref();
  signal?.addEventListener("abort", onAbort, { once: true });
  try {
    worker.postMessage(order);
    return await promise;
  } finally {
    clearTimeout(late);
    signal?.removeEventListener("abort", onAbort);
    worker.off("message", onAnswer).off("messageerror", onError).off("error", onError).off("exit", onExit).unref();
    idling = setTimeout(close, idleMs).unref();
  }
}

/** What needs more memory fails, and the server goes on. */
function open(): Worker {
  const maxOldGenerationSizeMb = Math.min(1_024, Math.round(getHeapStatistics().heap_size_limit / 1024 / 1024));
  const opened = new Worker(file, { name: "large texts", env: {}, resourceLimits: { maxOldGenerationSizeMb } });
  // A failure is reported by `exit`, too; without a listener it would end the process.
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
