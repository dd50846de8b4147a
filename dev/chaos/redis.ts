/** A Redis of one episode that can be killed, frozen, filled and emptied. */
import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { Redis } from "ioredis";
import { findCommand } from "../bench/usage.ts";
import { type RunningProcess, startProcess } from "../parts/process.ts";

export interface EpisodeRedis {
  /** The server's own socket, without a proxy. */
  readonly socket: string;
  start(): Promise<void>;
  /** Kills Redis like a power failure. Data written to disk is there again after the start, unless `loses` is set. */
  kill(options?: { readonly loses?: boolean }): Promise<void>;
  freeze(): void;
  thaw(): void;
  flush(): Promise<void>;
  /** With `true`, refuses writes until it is called with `false`. */
  fill(on: boolean): Promise<void>;
  /** Saves the present data; the returned function restores it, like a failover to a lagging replica. */
  remember(): Promise<() => Promise<void>>;
  /** Makes it a replica of an unreachable master, as during a failover: it refuses writes. */
  demote(on: boolean): Promise<void>;
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

  function signal(name: NodeJS.Signals): void {
    if (running) process.kill(findCommand(running.pid, program), name);
  }

  async function launch(): Promise<void> {
    const args = ["--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "yes"];
    args.push("--appendfsync", "always", "--maxmemory-policy", "noeviction", "--loglevel", "warning");
    args.push("--set-proc-title", "no"); // the process is found by its command line
    running = await startProcess({ name: "redis", command: program, args, logFile });
    await running.ready(async () => (await ask((client) => client.ping())) === "PONG");
  }

  async function start(): Promise<void> {
    if (!running) await (starting ??= launch().finally(() => (starting = undefined)));
  }

  async function kill({ loses = false } = {}): Promise<void> {
    const killed = running;
    if (!killed) return;
    signal("SIGKILL");
    running = undefined;
    await killed.exited;
    await killed.stop();
    if (loses) await rm(written, { recursive: true, force: true });
  }

  return {
    socket,
    ask,
    start,
    kill,
    async remember() {
      const memory = join(dir, `redis-as-it-was-${++memories}`);
      await cp(written, memory, { recursive: true });
      return async () => {
        const wasRunning = running !== undefined;
        await kill({ loses: true });
        await cp(memory, written, { recursive: true });
        if (wasRunning) await start();
      };
    },
    demote: async (on) =>
      void (await ask((client) => (on ? client.replicaof("127.0.0.1", 1) : client.replicaof("NO", "ONE")))),
    freeze: () => signal("SIGSTOP"),
    thaw: () => signal("SIGCONT"),
    flush: async () => void (await ask((client) => client.flushall())),
    fill: async (on) => void (await ask((client) => client.config("SET", "maxmemory", on ? "1mb" : "0"))),
    async stop() {
      if (!running) return;
      signal("SIGCONT");
      await running.stop(500);
      running = undefined;
    },
  };
}
