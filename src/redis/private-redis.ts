/**
 * Runs a private Redis if none is configured: started and stopped with the server, with data kept for the next start.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { constants } from "node:fs";
import { access, chmod, lstat, mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { ConfigError } from "../errors.ts";
import { within } from "../kit/deadline.ts";
import type { Logger } from "../log.ts";

export interface PrivateRedisOptions {
  readonly dataDir: string;
  /** Absent: found on PATH. */
  readonly binary?: string | undefined;
  readonly log: Logger;
}

/** The socket of the private Redis for a data directory, whether or not it is running. */
export async function privateSocket(dataDir: string): Promise<string> {
  return socketFor(resolve(dataDir, "redis"));
}

export interface PrivateRedis {
  readonly socket: string;
  stop(): Promise<void>;
}

/** The kernel's limit for the path of a unix socket (sun_path, without its final NUL). */
const longestSocketPath = 107;

const inUse = 73;

/**
 * Redis stops when the server's end of bash's standard input closes: on `stop`, and also if the server is killed. Redis
 * itself inherits the lock, so the directory counts as in use while anything writes to it; a predecessor that is
 * stopping gets a few seconds. (Without flock, as on macOS, there is no lock.)
 */
const watchdog = `
  exec 3<&0 9>>"$1/lock"
  if command -v flock >/dev/null; then flock -w 5 9 || exit ${inUse}; fi
  rm -f "$2"
  echo starting
  shift 2
  "$@" </dev/null 3<&- & server=$!
  ( while read -r _ <&3; do :; done; kill -TERM $server ) 9>&- & watch=$!
  wait $server; code=$?
  kill $watch 2>/dev/null
  exit $code
`;

export async function startPrivateRedis({ dataDir, binary, log }: PrivateRedisOptions): Promise<PrivateRedis> {
  const executable = binary ?? (await findOnPath(["redis-server", "valkey-server"]));
  if (executable === undefined) {
    throw new ConfigError(
      "No Redis found: install redis-server (or valkey-server) for a private one, or set TOWLINE_REDIS_URL.",
    );
  }
  const dir = resolve(dataDir, "redis");
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await chmod(dir, 0o700);
  const socket = await socketFor(dir);

  let ended = false;
  let running = await launch(executable, dir, socket);
  const supervised = supervise();
  log.info({ dir }, "private Redis started; several replicas need a shared one (TOWLINE_REDIS_URL)");

  async function supervise(): Promise<void> {
    for (;;) {
      const end = await running.exited;
      if (ended) return;
      log.error({ end, output: running.output() }, "private Redis exited; restarting it");
      await sleep(1_000);
      if (ended) return;
      try {
        running = await launch(executable!, dir, socket);
        if (ended) running.child.stdin?.end();
      } catch (error) {
        log.error({ error: (error as Error).message }, "could not start the private Redis");
      }
    }
  }

  return {
    socket,
    async stop() {
      ended = true;
      running.child.stdin?.end();
      await within(5_000, supervised, () => kill(running.child));
      await supervised;
    },
  };
}

interface Running {
  readonly child: ChildProcess;
  /** How it ended, for display. */
  readonly exited: Promise<string>;
  /** Its last output. */
  output(): string;
}

async function launch(executable: string, dir: string, socket: string): Promise<Running> {
  const redis = [
    [executable, "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--dir", dir],
    ["--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"],
    ["--daemonize", "no", "--loglevel", "warning"],
  ].flat();
  // Bash takes its standard input for a network connection and would run the user's .bashrc.
  const child = spawn("bash", ["--norc", "-c", watchdog, "private-redis", dir, socket, ...redis], {
    detached: true, // Ctrl-C in a terminal is for the server, which still needs Redis to hand back its jobs
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] },
  });
  let said = "";
  const listen = (chunk: Buffer) => (said = (said + chunk.toString()).slice(-2_000));
  child.stdout.on("data", listen);
  child.stderr.on("data", listen);
  child.stdin.on("error", () => undefined); // it exited by itself, which `exited` reports
  let code: number | null | undefined;
  const exited = new Promise<string>((resolve) => {
    child.once("error", (error) => {
      code = null;
      resolve(error.message);
    });
    child.once("close", (exitCode, signal) => {
      code = exitCode;
      resolve(signal ? `signal ${signal}` : `exit code ${exitCode}`);
    });
  });
  const running: Running = { child, exited, output: () => said.trim() };
  // Not before the lock is acquired: until then the previous Redis may still answer on this socket.
  await Promise.race([once(child.stdout, "data"), exited]);
  const outcome = await answers(socket, exited);
  if (outcome === true) return running;
  if (code === inUse) {
    throw new ConfigError(`Another process uses the data directory ${dir}: give each server its own directory.`);
  }
  kill(child);
  const how = outcome === false ? "it did not respond in time" : outcome;
  throw new Error(`The private Redis (${executable}) did not start: ${how}. ${running.output()}`.trim());
}

/** Whether Redis responds on the socket in time, or how it exited; it may have to load its data first. */
async function answers(socket: string, exited: Promise<string>): Promise<boolean | string> {
  const redis = new Redis({ path: socket, retryStrategy: () => 20, maxRetriesPerRequest: null });
  redis.on("error", () => undefined);
  const ready = new Promise<true>((resolve) => redis.once("ready", () => resolve(true)));
  try {
    return await within(30_000, Promise.race([ready, exited]), () => false);
  } finally {
    redis.disconnect();
  }
}

function kill(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // already gone
  }
}

/** In the data directory if the path is short enough for the kernel, otherwise in a directory below /tmp. */
async function socketFor(dir: string): Promise<string> {
  const socket = join(dir, "redis.sock");
  if (Buffer.byteLength(socket) <= longestSocketPath) return socket;
  const short = join(tmpdir(), `towline-${createHash("sha256").update(dir).digest("hex").slice(0, 16)}`);
  await mkdir(short, { recursive: true, mode: 0o700 });
  const { mode, uid } = await lstat(short);
  // Another user could have created it to intercept the connection.
  if (uid !== process.getuid?.() || (mode & 0o170077) !== constants.S_IFDIR) {
    throw new ConfigError(
      `${short} is not a directory that only this server can access: remove it, or choose a shorter data directory.`,
    );
  }
  return join(short, "redis.sock");
}

async function findOnPath(names: readonly string[]): Promise<string | undefined> {
  for (const name of names) {
    for (const dir of (process.env["PATH"] ?? "").split(delimiter).filter(Boolean)) {
      const file = join(dir, name);
      if (
        await access(file, constants.X_OK).then(
          () => true,
          () => false,
        )
      )
        return file;
    }
  }
  return undefined;
}
