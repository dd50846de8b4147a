/** A real redis-server for one test, which can be stopped, frozen and filled. */
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { onTestFinished } from "vitest";
import { connectProducer, connectWorker, type RedisAddress } from "../../src/redis/connection.ts";
import { silentLog } from "./fakes.ts";

export interface RedisServer {
  readonly address: RedisAddress;
  readonly socket: string;
  start(): Promise<void>;
  /** Kills it like a power failure, unless the signal asks for a regular shutdown. */
  stop(signal?: NodeJS.Signals): Promise<void>;
  freeze(): void;
  thaw(): void;
  /** A client with which the test reads and manipulates data. */
  client(): Redis;
  producer(): Redis;
  worker(): Redis;
}

/** With `appendOnly: false`, all data is lost when it stops. */
export function useRedisServer({ appendOnly = true, args = [] as string[], password = "" } = {}): RedisServer {
  const dir = mkdtempSync(join(tmpdir(), "redis-"));
  const socket = join(dir, "s");
  let child: ChildProcess | undefined;
  const clients: Redis[] = [];

  function own(redis: Redis): Redis {
    clients.push(redis);
    return redis;
  }

  const server: RedisServer = {
    address: { socket },
    socket,
    async start() {
      const persistence = appendOnly ? ["--appendonly", "yes", "--appendfsync", "always"] : ["--appendonly", "no"];
      const login = password ? ["--requirepass", password] : [];
      const options = ["--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--loglevel", "warning"];
      child = spawn("redis-server", [...options, ...persistence, ...login, ...args], { stdio: "ignore" });
      const probe = new Redis({ path: socket, password, retryStrategy: () => 20, maxRetriesPerRequest: null });
      probe.on("error", () => undefined);
      await probe.ping();
      probe.disconnect();
    },
    async stop(signal = "SIGKILL") {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.kill(signal);
      child.kill("SIGCONT");
      await exited;
    },
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
    client: () => own(new Redis({ path: socket, password })),
    producer: () => own(connectProducer({ socket }, silentLog)),
    worker: () => own(connectWorker({ socket }, silentLog)),
  };

  onTestFinished(async () => {
    for (const client of clients) client.disconnect();
    await server.stop();
    rmSync(dir, { recursive: true, force: true });
  });
  return server;
}

export function uniquePrefix(): string {
  return `test-${randomUUID().slice(0, 8)}`;
}
