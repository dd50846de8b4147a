/**
 * Starts git and kluctl from a small separate process. To start a process, the kernel copies the parent's memory
 * tables; meanwhile, and on each page written until the program runs, all threads of the parent wait. In a busy server
 * of a few hundred megabytes, that blocks webhooks for tens of milliseconds; in a small one, it costs more CPU than
 * anything else the server does for a kluctl run.
 */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { removeDirectory } from "../kit/work-directories.ts";
import { groupGone, killGroup, type StartWatched, type WatchedEnd } from "../kluctl/watched.ts";
import type { Git } from "../source/git.ts";
import { type StarterAnswer, type Order, type OrderOf, type StarterSettings, toError } from "./orders.ts";

export interface Starter {
  readonly git: Git;
  /** Starts the process in a process group of its own, which is killed if the starter process ends. */
  readonly startWatched: StartWatched;
  /** Removes a small directory with its contents, if it exists. */
  removeDirectory(path: string): Promise<void>;
  /** Ends the process; running work is abandoned. */
  stop(): Promise<void>;
}

/** Handles the answers to one order. */
interface Waiting {
  /** Returns whether it was the last answer. */
  answer(answer: StarterAnswer): boolean;
  gone(why: Error): void;
}

/**
 * Node options of the process. It holds git's output and little else. Its code runs too briefly for compilation to pay
 * off, and the compilers would take 4 MB. Debugging and profiling options of the server are not meant for it.
 */
const execArgv = [
  ...process.execArgv.filter((option) => !/^--(inspect|cpu-prof|heap-prof)/.test(option)),
  "--max-semi-space-size=1",
  "--max-old-space-size=512",
  "--no-sparkplug",
  "--no-maglev",
  "--no-opt",
];

const file = join(import.meta.dirname, `starter-process${import.meta.filename.endsWith(".ts") ? ".ts" : ".js"}`);
/** How long to wait for a killed group to disappear, even if the CPU is busy. */
const dyingMs = 10_000;
/** How long to wait before giving up on a process whose pid is unknown. */
const unknownMs = 1_000;

/** The process starts with the first call. */
export function startStarter(settings: StarterSettings): Starter {
  const waiting = new Map<number, Waiting>();
  let starter: ChildProcess | undefined;
  let calls = 0;

  function open(): ChildProcess {
    const opened = fork(file, [], { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    opened.send(settings satisfies Order);
    opened.on("message", (answer: StarterAnswer) => {
      if (waiting.get(answer.id)?.answer(answer) === true) waiting.delete(answer.id);
      if (waiting.size === 0) setHold(opened, false);
    });
    // The next call starts another process.
    opened.once("error", (error) => giveUp(opened, error));
    opened.once("exit", () => giveUp(opened, new Error("the process that starts git and kluctl has ended")));
    return opened;
  }

  function giveUp(ended: ChildProcess, why: Error): void {
    if (starter !== ended) return;
    starter = undefined;
    const left = [...waiting.values()];
    waiting.clear();
    for (const one of left) one.gone(why);
  }

  /** Returns a function that sends further messages about the same order. */
  function begin(first: OrderOf, one: Waiting): (next: OrderOf) => void {
    const opened = (starter ??= open());
    const id = ++calls;
    // Errors are ignored: `giveUp` handles the end of the process.
    const send = (order: OrderOf) => void opened.send({ id, ...order }, () => undefined);
    waiting.set(id, one);
    setHold(opened, true);
    send(first);
    return send;
  }

  /** For orders with a single answer. */
  function ask<T>(order: OrderOf, read: (answer: StarterAnswer) => T) {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const send = begin(order, {
      answer(answer) {
        if ("failed" in answer) reject(toError(answer.failed));
        else resolve(read(answer));
        return true;
      },
      gone: reject,
    });
    return { promise, send };
  }

  return {
    async git(args, { signal, ...call }) {
      const { promise, send } = ask({ args, call }, (answer) => ("printed" in answer ? answer.printed : ""));
      const stop = () => send({ stop: true });
      if (signal?.aborted) stop();
      else signal?.addEventListener("abort", stop, { once: true });
      try {
        return await promise;
      } finally {
        signal?.removeEventListener("abort", stop);
      }
    },

    startWatched(spec, onLines) {
      const { promise: ended, resolve, reject } = Promise.withResolvers<WatchedEnd>();
      let pid: number | undefined;
      const send = begin(
        { start: spec },
        {
          answer(answer) {
            if ("pid" in answer) pid = answer.pid;
            else if ("lines" in answer) onLines(answer.lines);
            else if ("ended" in answer) resolve(answer.ended);
            else if ("failed" in answer) reject(toError(answer.failed));
            return "ended" in answer || "failed" in answer;
          },
          // The watchdog notices by itself, but not at a known time, so the group is killed here.
          gone(why) {
            if (pid === undefined) return void setTimeout(() => reject(why), unknownMs);
            killGroup(pid, "SIGKILL");
            const killed: WatchedEnd = { code: null, signal: "SIGKILL", stdout: "", stderr: "" };
            void groupGone(pid, dyingMs).then(() => resolve(killed));
          },
        },
      );
      return {
        get pid() {
          return pid;
        },
        ended,
        beat: (at) => send({ beat: at }),
        kill: (signal) => send({ kill: signal }),
      };
    },

    // Without the process, this one removes it: the directory may hold logins.
    removeDirectory: (path) => ask({ remove: path }, () => undefined).promise.catch(() => removeDirectory(path)),

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

/** The process keeps the event loop alive only while calls wait for it. */
function setHold(starter: ChildProcess, hold: boolean): void {
  starter[hold ? "ref" : "unref"]();
  starter.channel?.[hold ? "ref" : "unref"]();
}
