/** A Redis of one episode that can be killed, frozen, filled and emptied. */
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { createLimit } from "../../src/kit/limit.ts";
import { findCommand } from "../bench/usage.ts";
import { type RunningProcess, startProcess } from "../parts/process.ts";

export interface EpisodeRedis {
  /** The server's own socket, without a proxy. */
  readonly socket: string;
  start(): Promise<void>;
  /**
   * Kills Redis like a power failure. Data written to disk is there again after the start, unless `loses` is set. Like
   * the other faults, returns whether there was a Redis that it could strike.
   */
  kill(options?: { readonly loses?: boolean }): Promise<boolean>;
  freeze(): boolean;
  thaw(): void;
  flush(): Promise<boolean>;
  /** With `true`, refuses writes until it is called with `false`. Counts only if a write was refused. */
  fill(on: boolean): Promise<boolean>;
  /**
   * Saves the present data; the returned function restores it, like a failover to a lagging replica. `undefined` while
   * Redis is dead.
   */
  remember(): Promise<(() => Promise<void>) | undefined>;
  /** Makes it a replica of an unreachable master, as during a failover: it refuses writes. */
  demote(on: boolean): Promise<boolean>;
  /** Runs a question on a connection of its own; `undefined` if Redis does not answer. */
  ask<T>(question: (client: Redis) => Promise<T>): Promise<T | undefined>;
  stop(): Promise<void>;
}

export interface EpisodeRedisOptions {
  readonly program: string;
  readonly dir: string;
  readonly logFile: string;
}

export function createEpisodeRedis({ program, dir, logFile }: EpisodeRedisOptions): EpisodeRedis {
  const socket = join(dir, "redis.sock");
  const written = join(dir, "appendonlydir");
  let running: RunningProcess | undefined;
  let starting: Promise<void> | undefined;
  let memories = 0;
  // Two faults may strike at one moment: neither may find the files of the other one half copied, or half removed.
  const turn = createLimit(1);
  const alone = <T>(work: () => Promise<T>): Promise<T> => turn.run(work);

  async function ask<T>(question: (client: Redis) => Promise<T>): Promise<T | undefined> {
    const client = new Redis({
      path: socket,
      commandTimeout: 3_000,
      maxRetriesPerRequest: 1,
      retryStrategy: () => 100,
    });
    client.on("error", () => undefined);
    try {
      return await question(client);
    } catch {
      return undefined;
    } finally {
      client.disconnect();
    }
  }

  function signal(name: NodeJS.Signals): boolean {
    try {
      return running !== undefined && process.kill(findCommand(running.pid, program), name);
    } catch {
      return false; // it has just ended, or is only about to begin
    }
  }

  async function launch(): Promise<RunningProcess> {
    const args = ["--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes"];
    args.push("--appendfsync", "always", "--maxmemory-policy", "noeviction", "--loglevel", "warning");
    args.push("--set-proc-title", "no"); // the process is found by its command line
    return startProcess({ name: "redis", command: program, args, logFile });
  }

  async function awaitReady(started: RunningProcess): Promise<void> {
    try {
      await started.ready(async () => (await ask((client) => client.ping())) === "PONG");
    } catch (error) {
      if (running === started) throw error; // otherwise another fault killed it while it started
    }
  }

  /** Only the launch is alone, not the wait until Redis is ready: a fault may kill it while it starts. */
  async function start(): Promise<void> {
    await alone(async () => {
      if (running) return;
      running = await launch();
      starting = awaitReady(running).finally(() => (starting = undefined));
    });
    await starting;
  }

  async function killAlone({ loses = false } = {}): Promise<boolean> {
    const killed = running;
    if (!killed) return false;
    const isStruck = signal("SIGKILL");
    running = undefined;
    if (isStruck) await killed.exited;
    await killed.stop(0);
    await starting;
    if (loses) await rm(written, { recursive: true, force: true });
    return true;
  }

  return {
    socket,
    ask,
    start,
    kill: (options) => alone(() => killAlone(options)),
    async remember() {
      const memory = join(dir, `redis-as-it-was-${++memories}`);
      const isSaved = await alone(async () => {
        if (!running) return false;
        await cp(written, memory, { recursive: true });
        return true;
      });
      if (!isSaved) return undefined;
      return async () => {
        const wasRunning = await alone(async () => {
          const isStruck = await killAlone({ loses: true });
          await rm(written, { recursive: true, force: true });
          await cp(memory, written, { recursive: true });
          return isStruck;
        });
        if (wasRunning) await start();
      };
    },
    demote: async (on) =>
      isDone(await ask((client) => (on ? client.replicaof("127.0.0.1", 1) : client.replicaof("NO", "ONE")))),
    freeze: () => signal("SIGSTOP"),
    thaw: () => void signal("SIGCONT"),
    flush: async () => isDone(await ask((client) => client.flushall())),
    fill: async (on) => (await ask((client) => (on ? fill(client) : empty(client)))) === true,
    async stop() {
      if (!running) return;
      signal("SIGCONT");
      await running.stop(500);
      running = undefined;
    },
  };
}

/** Lowers the limit below what Redis uses, and tries whether that makes it refuse a write. */
async function fill(client: Redis): Promise<boolean> {
  const used = Number(/^used_memory:(\d+)/m.exec(await client.info("memory"))?.[1]);
  await client.config("SET", "maxmemory", Math.floor(used / 2));
  const isRefused = await client.set("probe", "1").then(
    () => false,
    (error: Error) => error.message.startsWith("OOM"),
  );
  if (!isRefused) await empty(client);
  return isRefused;
}

async function empty(client: Redis): Promise<boolean> {
  const answer = await client.config("SET", "maxmemory", "0");
  await client.del("probe");
  return isDone(answer);
}

/** Whether Redis answered that it carried out the command. */
function isDone(answer: unknown): boolean {
  return typeof answer === "string" && answer.startsWith("OK");
}
