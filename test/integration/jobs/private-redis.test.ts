import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { expect, onTestFinished, test, vi } from "vitest";
import { type PrivateRedis, startPrivateRedis } from "../../../src/redis/private-redis.ts";
import { ConfigError } from "../../../src/errors.ts";
import { silentLog } from "../../support/fakes.ts";
import { patience } from "../../support/patience.ts";

function useDataDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "towline-data-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function start(dataDir: string, binary?: string): Promise<PrivateRedis> {
  const redis = await startPrivateRedis({ dataDir, binary, log: silentLog });
  onTestFinished(() => redis.stop());
  return redis;
}

function client(socket: string): Redis {
  const redis = new Redis({ path: socket, retryStrategy: () => 20 });
  redis.on("error", () => undefined);
  onTestFinished(() => redis.disconnect());
  return redis;
}

async function answers(socket: string): Promise<boolean> {
  const redis = new Redis({ path: socket, lazyConnect: true, retryStrategy: () => null });
  redis.on("error", () => undefined);
  const up = await redis.connect().then(
    () => true,
    () => false,
  );
  redis.disconnect();
  return up;
}

test("a private Redis keeps its data across restarts, and no other user can connect to it", async () => {
  const dataDir = useDataDir();
  const first = await start(dataDir);
  await client(first.socket).set("remembered", "yes");
  expect((await stat(join(dataDir, "redis"))).mode & 0o777).toBe(0o700);
  expect((await client(first.socket).info("server")).match(/tcp_port:(\d+)/)?.[1]).toBe("0");
  await first.stop();
  expect(await answers(first.socket)).toBe(false);

  const second = await start(dataDir);
  expect(await client(second.socket).get("remembered")).toBe("yes");
});

test("a private Redis ends when its server is killed, and the next server takes over its data at once", async () => {
  const dataDir = useDataDir();
  const script = fileURLToPath(new URL("child-private-redis.ts", import.meta.url));
  const server = spawn(process.execPath, [script, dataDir], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void server.kill("SIGKILL"));
  const [line] = (await once(server.stdout, "data")) as [Buffer];
  const socket = line.toString().trim();
  await client(socket).set("remembered", "yes");

  server.kill("SIGKILL");
  const next = await start(dataDir);

  expect(await client(next.socket).get("remembered")).toBe("yes");
  await next.stop();
  expect(await answers(socket)).toBe(false);
});

test("a data directory that another server uses is refused, and the error names it", async () => {
  const dataDir = useDataDir();
  const first = await start(dataDir);

  await expect(start(dataDir)).rejects.toThrow(/Another process uses the data directory .*redis/);
  expect(await client(first.socket).ping()).toBe("PONG");
});

test("a private Redis that dies is restarted with its data", async () => {
  const redis = await start(useDataDir());
  const connection = client(redis.socket);
  await connection.set("remembered", "yes");
  const pid = Number((await connection.info("server")).match(/process_id:(\d+)/)?.[1]);

  process.kill(pid, "SIGKILL");

  await vi.waitFor(async () => expect(await answers(redis.socket)).toBe(true), patience);
  await vi.waitFor(async () => expect(await client(redis.socket).get("remembered")).toBe("yes"), patience);
});

test("if the data directory's path is too long for a unix socket, the socket is in a directory that only its owner can enter", async () => {
  const dataDir = join(useDataDir(), "d".repeat(100));
  const redis = await start(dataDir);
  onTestFinished(() => rmSync(join(redis.socket, ".."), { recursive: true, force: true }));

  expect(redis.socket.length).toBeLessThan(108);
  expect(await client(redis.socket).ping()).toBe("PONG");
  expect((await stat(join(redis.socket, ".."))).mode & 0o777).toBe(0o700);
});

test("if there is no Redis to start, the error says what to do", async () => {
  const path = process.env["PATH"];
  onTestFinished(() => void (process.env["PATH"] = path));
  process.env["PATH"] = "/nonexistent";

  const failure = startPrivateRedis({ dataDir: useDataDir(), log: silentLog });

  await expect(failure).rejects.toThrow(ConfigError);
  await expect(failure).rejects.toThrow(/install redis-server .* or set TOWLINE_REDIS_URL/);
});

test("a Redis that does not start is reported with its exit code", async () => {
  const dataDir = useDataDir();
  await expect(start(dataDir, "/bin/false")).rejects.toThrow(/did not start: exit code 1/);
  expect(existsSync(join(dataDir, "redis"))).toBe(true);
});
