/**
 * git, started by a small process of its own. To start a process, the kernel copies what it knows of the starter's memory;
 * meanwhile, and for each page that is written to until the program runs, all threads of the starter wait. In a busy server
 * of a few hundred megabytes that is tens of milliseconds in which it could answer no webhook.
 */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { SourceError, type SourceProblem } from "../errors.ts";
import { type Git, type GitCall, GitFailure } from "./git.ts";

export interface GitSettings {
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
}

export interface GitStarter {
  readonly git: Git;
  /** Ends the process; what still runs is given up. */
  stop(): Promise<void>;
}

/** To the process. */
export type GitOrder =
  | GitSettings
  | { readonly id: number; readonly args: readonly string[]; readonly call: Omit<GitCall, "signal"> }
  | { readonly id: number; readonly stop: true };

/** From the process. */
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

/**
 * It holds what git prints, and little else. What it runs is so short that to compile it gains nothing, and the compilers
 * would take 4 MB. Who looks into the server does not mean to look into this.
 */
const execArgv = [
  ...process.execArgv.filter((option) => !/^--(inspect|cpu-prof|heap-prof)/.test(option)),
  "--max-semi-space-size=1",
  "--max-old-space-size=512",
  "--no-sparkplug",
  "--no-maglev",
  "--no-opt",
];

const file = join(import.meta.dirname, `git-starter-process${import.meta.filename.endsWith(".ts") ? ".ts" : ".js"}`);

/** The process begins with the first call. */
export function startGitStarter(settings: GitSettings): GitStarter {
  const waiting = new Map<number, Waiting>();
  let starter: ChildProcess | undefined;
  let calls = 0;

  function open(): ChildProcess {
    const opened = fork(file, [], { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    opened.send(settings satisfies GitOrder);
    opened.on("message", (answer: GitAnswer) => {
      const one = waiting.get(answer.id);
      waiting.delete(answer.id);
      if (waiting.size === 0) setHold(opened, false);
      if ("printed" in answer) one?.resolve(answer.printed);
      else one?.reject(toError(answer.failed));
    });
    // Another one is opened for the next call.
    opened.once("error", (error) => giveUp(opened, error));
    opened.once("exit", () => giveUp(opened, new Error("the process that starts git has ended")));
    return opened;
  }

  function giveUp(ended: ChildProcess, why: Error): void {
    if (starter !== ended) return;
    starter = undefined;
    for (const { reject } of waiting.values()) reject(why);
    waiting.clear();
  }

  return {
    async git(args, { signal, ...call }) {
      const opened = (starter ??= open());
      const id = ++calls;
      const send = (order: GitOrder) => void opened.send(order, () => undefined); // that it has ended is told by itself
      const stop = () => send({ id, stop: true });
      try {
        return await new Promise<string>((resolve, reject) => {
          waiting.set(id, { resolve, reject });
          setHold(opened, true);
          send({ id, args, call });
          if (signal?.aborted) stop();
          else signal?.addEventListener("abort", stop, { once: true });
        });
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    },
    async stop() {
      const opened = starter;
      if (opened === undefined) return;
      const ended = new Promise((resolve) => opened.once("exit", resolve));
      setHold(opened, true);
      if (opened.connected) opened.disconnect();
      await ended;
    },
  };
}

/** While nobody waits for git, it keeps no process from ending. */
function setHold(starter: ChildProcess, hold: boolean): void {
  starter[hold ? "ref" : "unref"]();
  starter.channel?.[hold ? "ref" : "unref"]();
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
