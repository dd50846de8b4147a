/**
 * git and kluctl, started by a small process of its own. To start a process, the kernel copies what it knows of the
 * starter's memory; meanwhile, and for each page that is written to until the program runs, all threads of the starter
 * wait. In a busy server of a few hundred megabytes that is tens of milliseconds in which it could answer no webhook, and
 * in a small one it takes more CPU than anything else that the server does for a run of kluctl.
 */
import { type ChildProcess, fork } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { groupGone, killGroup, type StartWatched, type WatchedEnd } from "../kluctl/watched.ts";
import type { Git } from "../source/git.ts";
import { type Answer, type Order, type OrderOf, type StarterSettings, toError } from "./orders.ts";

export interface Starter {
  readonly git: Git;
  /** In a process group of its own, that is killed with the starter. */
  readonly startWatched: StartWatched;
  /** Removes a small directory with all that is in it, if it is there. */
  removeDirectory(path: string): Promise<void>;
  /** Ends the process; what still runs is given up. */
  stop(): Promise<void>;
}

/** Who waits for what the process says of one order. */
interface Waiting {
  /** Returns whether that was the last of it. */
  answer(answer: Answer): boolean;
  gone(why: Error): void;
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

const file = join(import.meta.dirname, `starter-process${import.meta.filename.endsWith(".ts") ? ".ts" : ".js"}`);
/** A killed group is waited for so long: the processor may be busy with others. */
const dyingMs = 10_000;
/** So long one may take to be gone whose number nobody knows. */
const unknownMs = 1_000;

/** The process begins with the first call. */
export function startStarter(settings: StarterSettings): Starter {
  const waiting = new Map<number, Waiting>();
  let starter: ChildProcess | undefined;
  let calls = 0;

  function open(): ChildProcess {
    const opened = fork(file, [], { execArgv, stdio: ["ignore", "inherit", "inherit", "ipc"] });
    opened.send(settings satisfies Order);
    opened.on("message", (answer: Answer) => {
      if (waiting.get(answer.id)?.answer(answer) === true) waiting.delete(answer.id);
      if (waiting.size === 0) setHold(opened, false);
    });
    // Another one is opened for the next call.
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

  /** Returns what sends more about the same. */
  function begin(first: OrderOf, one: Waiting): (next: OrderOf) => void {
    const opened = (starter ??= open());
    const id = ++calls;
    // That it has ended is told by itself.
    const send = (order: OrderOf) => void opened.send({ id, ...order }, () => undefined);
    waiting.set(id, one);
    setHold(opened, true);
    send(first);
    return send;
  }

  /** For what has one answer. */
  function ask<T>(order: OrderOf, read: (answer: Answer) => T) {
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
          // The watchdog finds out by itself, but nobody could say when.
          gone(why) {
            if (pid === undefined) return void setTimeout(() => reject(why), unknownMs);
            killGroup(pid, "SIGKILL");
            const killed: WatchedEnd = { code: null, signal: "SIGKILL", stdout: "", stderr: "" };
            void groupGone(pid, dyingMs).then(() => resolve(killed));
          },
        },
      );
      return { ended, beat: (at) => send({ beat: at }), kill: (signal) => send({ kill: signal }) };
    },

    removeDirectory: (path) => ask({ remove: path }, () => undefined).promise,

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

/** While nobody waits for it, it keeps no process from ending. */
function setHold(starter: ChildProcess, hold: boolean): void {
  starter[hold ? "ref" : "unref"]();
  starter.channel?.[hold ? "ref" : "unref"]();
}
