import { mkdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import type { ToolPaths } from "../tools.ts";
import { freePort } from "./port.ts";
import { startProcess } from "./process.ts";

export interface RedisOptions {
  readonly tools: ToolPaths<"redis-server">;
  readonly stateDir: string;
}

export interface Redis {
  readonly url: string;
  stop(): Promise<void>;
}

/** Starts a Redis configured as a queue needs it: with an append-only file and without eviction. */
export async function startRedis({ tools, stateDir }: RedisOptions): Promise<Redis> {
  const dir = join(stateDir, "redis");
  await mkdir(dir, { recursive: true });
  const port = await freePort();
  const args = ["--bind", "127.0.0.1", "--port", String(port), "--dir", dir, "--save", ""];
  args.push("--appendonly", "yes", "--maxmemory-policy", "noeviction", "--daemonize", "no");
  const logFile = join(stateDir, "logs", "redis.log");
  const redis = await startProcess({ name: "redis", command: tools["redis-server"], args, logFile });
  try {
    await redis.ready(() => answersPing(port), 15_000);
  } catch (error) {
    await redis.stop();
    throw error;
  }
  return { url: `redis://127.0.0.1:${port}`, stop: () => redis.stop() };
}

function answersPing(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
    socket.setTimeout(1_000, () => socket.destroy());
    socket.once("data", (answer) => {
      resolve(answer.toString().startsWith("+PONG"));
      socket.destroy();
    });
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false));
  });
}
