/**
 * git, started by a thread of its own. To start a process, the kernel copies what it knows of the server's memory, and the
 * thread that asked for it waits until the program runs: several milliseconds in a busy server, in which it could answer no
 * webhook.
 */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { SourceError, type SourceProblem } from "../errors.ts";
import { type Git, type GitCall, GitFailure } from "./git.ts";

export interface GitSettings {
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
}

export interface GitThread {
  readonly git: Git;
  /** Ends the thread; what still runs is given up. */
  stop(): Promise<void>;
}

/** To the thread. */
export type GitOrder =
  | { readonly id: number; readonly args: readonly string[]; readonly call: Omit<GitCall, "signal"> }
  | { readonly id: number; readonly stop: true };

/** From the thread. */
export type GitAnswer = { readonly id: number } & ({ readonly printed: string } | { readonly failed: Failed });

/** An error, as far as it can be sent, and somebody decides on it. */
export type Failed =
  | { readonly kind: "git"; readonly stderr: string; readonly stopped?: string | undefined }
  | { readonly kind: "source"; readonly problem: SourceProblem; readonly message: string }
  | {
      readonly kind: "other";
      readonly message: string;
      readonly code?: string | undefined;
      readonly syscall?: string | undefined;
    };

interface Waiting {
  readonly resolve: (printed: string) => void;
  readonly reject: (error: Error) => void;
}

/** It holds what git prints, and little else. */
const resourceLimits = { maxYoungGenerationSizeMb: 2, maxOldGenerationSizeMb: 512 };

const file = join(import.meta.dirname, `git-thread-worker${import.meta.filename.endsWith(".ts") ? ".ts" : ".js"}`);

/** The thread begins with the first call. */
export function startGitThread(settings: GitSettings): GitThread {
  const waiting = new Map<number, Waiting>();
  let worker: Worker | undefined;
  let calls = 0;

  function open(): Worker {
    const workerData = { ...settings, env: { ...settings.env } };
    const opened = new Worker(file, { workerData, resourceLimits });
    opened.on("message", (answer: GitAnswer) => {
      const one = waiting.get(answer.id);
      waiting.delete(answer.id);
      if (waiting.size === 0) opened.unref(); // it keeps no process
      if ("printed" in answer) one?.resolve(answer.printed);
      else one?.reject(toError(answer.failed));
    });
    // Another one is opened for the next call.
    opened.on("error", (error) => giveUp(opened, error as Error));
    opened.on("exit", () => giveUp(opened, new Error("the thread that runs git has ended")));
    return opened;
  }

  function giveUp(ended: Worker, why: Error): void {
    if (worker !== ended) return;
    worker = undefined;
    for (const { reject } of waiting.values()) reject(why);
    waiting.clear();
  }

  return {
    async git(args, { signal, ...call }) {
      const thread = (worker ??= open());
      const id = ++calls;
      const send = (order: GitOrder) => thread.postMessage(order);
      const stop = () => send({ id, stop: true });
      try {
        return await new Promise<string>((resolve, reject) => {
          waiting.set(id, { resolve, reject });
          thread.ref();
          send({ id, args, call });
          if (signal?.aborted) stop();
          else signal?.addEventListener("abort", stop, { once: true });
        });
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    },
    stop: async () => void (await worker?.terminate()),
  };
}

function toError(failed: Failed): Error {
  switch (failed.kind) {
    case "git": {
      const { stderr, stopped } = failed;
      return new GitFailure(Buffer.from(stderr), stopped === undefined ? undefined : new Error(stopped));
    }
    case "source":
      return new SourceError(failed.problem, failed.message);
    case "other":
      return Object.assign(new Error(failed.message), {
        ...(failed.code !== undefined && { code: failed.code, syscall: failed.syscall }),
      });
  }
}
