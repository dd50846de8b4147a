/** The process of starter.ts. It exits when its connection to the server closes, for whatever reason. */
import { rmSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";
import process from "node:process";
import { startWatched, type Watched } from "../kluctl/watched.ts";
import { createGit, type Git } from "../source/git.ts";
import { removeDirectory } from "../kit/work-directories.ts";
import { type StarterAnswer, type Order, toFailed } from "./orders.ts";

/** How long it waits for its calls to end before it exits. */
const endWithinMs = 3_000;
/**
 * How long lines are collected: kluctl prints a dozen at once, and a message costs both sides more than the lines in
 * it.
 */
const gatherMs = 50;

const calls = new Map<number, AbortController>();
const processes = new Map<number, Watched>();
let git: Git | undefined;

// Applies to everything that it starts too: the server has webhooks to answer and leases to renew. Of a server that has a lower one,
// as under `nice`, only root could raise it.
if (getPriority() < constants.priority.PRIORITY_BELOW_NORMAL) setPriority(constants.priority.PRIORITY_BELOW_NORMAL);

process.on("message", (order: Order) => {
  if ("home" in order) git = createGit(order);
  else if ("args" in order) void run(order);
  else if ("stop" in order) calls.get(order.id)?.abort(new Error("no longer needed"));
  else if ("start" in order) void start(order);
  else if ("remove" in order) void remove(order);
  else if ("beat" in order) processes.get(order.id)?.beat(order.beat);
  else processes.get(order.id)?.kill(order.kill);
});
// A terminal signals all of its processes. The server handles these signals: it lets running work finish.
process.on("SIGINT", () => undefined).on("SIGTERM", () => undefined);
process.once("disconnect", () => {
  for (const controller of calls.values()) controller.abort(new Error("the server has ended"));
  for (const { kill } of processes.values()) kill("SIGKILL");
  endIfAlone();
  setTimeout(() => process.exit(), endWithinMs);
});

function endIfAlone(): void {
  if (!process.connected && calls.size === 0 && processes.size === 0) process.exit();
}

function send(answer: StarterAnswer): void {
  if (process.connected) process.send?.(answer, () => undefined);
}

async function run({ id, args, call }: Extract<Order, { args: unknown }>): Promise<void> {
  const controller = new AbortController();
  calls.set(id, controller);
  send(
    await git!(args, { ...call, signal: controller.signal }).then(
      (printed) => ({ id, printed }),
      (error: unknown) => ({ id, failed: toFailed(error) }),
    ),
  );
  calls.delete(id);
  endIfAlone();
}

async function start({ id, start: spec }: Extract<Order, { start: unknown }>): Promise<void> {
  let said: string[] = [];
  let timer: NodeJS.Timeout | undefined;
  const flush = (): void => {
    clearTimeout(timer);
    timer = undefined;
    if (said.length > 0) send({ id, lines: said });
    said = [];
  };
  const watched = startWatched(spec, (lines) => {
    said = said.concat(lines);
    timer ??= setTimeout(flush, gatherMs);
  });
  processes.set(id, watched);
  send({ id, pid: watched.pid });
  const end = await watched.ended.then(
    (ended) => ({ id, ended }),
    (error: unknown) => ({ id, failed: toFailed(error) }),
  );
  flush();
  send(end);
  processes.delete(id);
  endIfAlone();
}

/** Synchronous, because new files are in the kernel's cache and the thread pool would cost more than the removal. */
async function remove({ id, remove: path }: Extract<Order, { remove: unknown }>): Promise<void> {
  try {
    rmSync(path, { recursive: true, force: true });
    send({ id, removed: true });
  } catch {
    // A process may still be writing into it; `removeDirectory` waits for that.
    send(
      await removeDirectory(path).then(
        () => ({ id, removed: true }) as const,
        (error: unknown) => ({ id, failed: toFailed(error) }),
      ),
    );
  }
}
