/**
 * The runner's side: listens for servers, gets a task from each and executes it. It keeps nothing of a run and makes no
 * connections: kluctl's connections are tunneled through the server's.
 */
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import http2 from "node:http2";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import tls from "node:tls";
import { KilledError, KluctlUnavailableError, PrepareError, PreviewRefusedError } from "../errors.ts";
import { within } from "../kit/deadline.ts";
import { createLimit } from "../kit/limit.ts";
import type { Logger } from "../log.ts";
import { ArchiveError } from "../kit/untar.ts";
import type { WorkDirectories } from "../kit/work-directories.ts";
import { slotLimits, unpack } from "./archive.ts";
import { bounded, identity, sessionOptions, tlsOptions, toKey, watchSilence } from "./link.ts";
import { writeRepository } from "./repository.ts";
import { accessOf, type TaskOutcome, type RunnerReport, type Task, type TaskAccess, taskSchema } from "./task.ts";

export interface RunnerPlace {
  /** Contains the clone and nothing else. */
  readonly slot: string;
  readonly projectDir: string;
  /** Access through ports of the runner's own machine. `undefined`: this run has no network access. */
  readonly access: TaskAccess | undefined;
  /** Whether something went through these ports in the last seconds. */
  readonly isServing: () => boolean;
}

export interface RunnerDeps {
  readonly token: string;
  /** Without a host: all addresses. */
  readonly bind: { readonly host?: string | undefined; readonly port: number } | { readonly path: string };
  readonly report: () => RunnerReport;
  readonly concurrency: number;
  readonly work: Pick<WorkDirectories, "create">;
  readonly removeDirectory: (path: string) => Promise<void>;
  /** Runs kluctl and calls `send` with the path of the result file while it exists. */
  readonly render: (
    task: Task,
    place: RunnerPlace,
    send: (file: string) => Promise<void>,
    signal: AbortSignal,
  ) => Promise<void>;
  readonly log: Logger;
}

export interface Runner {
  /** Where it listens: a port, or the path of a socket. */
  readonly at: number | string;
  running(): number;
  /** Accepts no more tasks; running ones may continue for up to `drainMs`. */
  stop(drainMs: number): Promise<void>;
}

/** A task contains what Kubernetes resources may contain, which is some megabytes at most. */
const longestAnswer = 16 * 1024 ** 2;

/** kluctl reads the API in parallel; a hostile project could open any number of connections. */
const mostConnectionsOfRun = 128;

/** Servers open one per run and one for the report; any host in the network can open more. */
const mostServerConnections = 256;

const refusalsEveryMs = 60_000;
/** The longest that a run waits for a response before its waiting counts as its own. */
const servedForMs = 30_000;

export async function startRunner({ token, bind, report, concurrency, log, ...deps }: RunnerDeps): Promise<Runner> {
  const psk = toKey(token);
  const limit = createLimit(concurrency);
  const running = new Map<tls.TLSSocket, Promise<void>>();
  const warn = atMostEvery(refusalsEveryMs, (code: string) => log.warn({ code }, "connection rejected: wrong token"));
  let isStopping = false;

  const server = tls.createServer({
    ...tlsOptions,
    pskCallback: (_socket, name) => (name === identity ? psk : null),
    handshakeTimeout: 10_000,
  });
  server.maxConnections = mostServerConnections;
  server.on("secureConnection", (socket) => {
    if (isStopping) return void socket.destroy();
    const serving = serve(socket).finally(() => running.delete(socket));
    running.set(socket, serving);
    return undefined;
  });
  server.on("tlsClientError", (error: NodeJS.ErrnoException, socket) => {
    socket.destroy();
    // TCP probes connect without sending anything, so only TLS errors are logged.
    if (error.code?.startsWith("ERR_SSL")) warn(error.code);
  });
  // A socket left by a previous runner would prevent listening.
  if ("path" in bind) await rm(bind.path, { force: true });
  server.listen({ ...bind });
  await once(server, "listening");

  async function serve(socket: tls.TLSSocket): Promise<void> {
    const over = new AbortController();
    const end = () => over.abort(new Error("the server no longer needs it"));
    socket.on("error", end).once("close", end);
    const session = http2.connect("http://server", { ...sessionOptions, createConnection: () => socket });
    session.on("error", end).once("close", end);
    watchSilence(session, () => socket.destroy());
    const ask = asking(session);
    try {
      // Most connections only read the report, and end then.
      const answer = await ask("/task", JSON.stringify(report())).catch(() => "");
      if (answer === "") return;
      const task = taskSchema.parse(JSON.parse(answer));
      const { namespace, name } = task.run.deployment;
      const options = { of: [namespace, name], signal: over.signal };
      await limit.run(() => work(task, session, ask, over.signal), options);
    } catch (error) {
      if (!over.signal.aborted) log.warn({ err: error }, "task failed");
    } finally {
      session.destroy();
      socket.destroy();
    }
  }

  async function work(task: Task, session: http2.ClientHttp2Session, ask: Ask, signal: AbortSignal): Promise<void> {
    const startedAt = performance.now();
    const dir = await deps.work.create();
    const doors: net.Server[] = [];
    try {
      const outcome = await attempt(async () => {
        const slot = join(dir, "slot");
        await mkdir(slot, { mode: 0o700 });
        const archive = session.request({ ":path": "/slot", ":method": "GET" });
        const [root = "."] = task.projectDir.split("/");
        await unpack(archive, slot, slotLimits, signal);
        await writeRepository(join(slot, root));
        const wanted = accessOf(task.call);
        let servedAt = -Infinity;
        const onData = () => void (servedAt = performance.now());
        const access = wanted && (await openDoors(session, wanted, doors, onData));
        const isServing = () => performance.now() - servedAt < servedForMs;
        const place = { slot, projectDir: join(slot, task.projectDir), access, isServing };
        const send = async (file: string) => {
          const stream = session.request({ ":path": "/result", ":method": "POST" });
          await pipeline(createReadStream(file), stream);
          await text(bounded(stream, longestAnswer));
        };
        await deps.render(task, place, send, signal);
      });
      const { deployment, reconcileId } = task.run;
      const { command } = task.call;
      const ms = Math.round(performance.now() - startedAt);
      log.info({ ...deployment, reconcileID: reconcileId, command, ms, ...("failed" in outcome && { failed: outcome.failed }) }, "preview rendered for a server"); // prettier-ignore
      signal.throwIfAborted();
      await ask("/outcome", JSON.stringify(outcome));
    } finally {
      for (const door of doors) door.close();
      await deps.removeDirectory(dir).catch((err: unknown) => log.warn({ err }, "could not remove a directory"));
    }
  }

  return {
    at: "path" in bind ? bind.path : (server.address() as AddressInfo).port,
    running: () => running.size,
    async stop(drainMs) {
      isStopping = true;
      server.close();
      const ended = Promise.allSettled(running.values());
      await within(drainMs, ended, () => running.forEach((_, socket) => socket.destroy()));
      await ended;
    },
  };
}

function atMostEvery<T>(ms: number, call: (value: T) => void): (value: T) => void {
  let nextAt = 0;
  return (value) => {
    if (performance.now() < nextAt) return;
    nextAt = performance.now() + ms;
    call(value);
  };
}

type Ask = (path: string, body: string) => Promise<string>;

function asking(session: http2.ClientHttp2Session): Ask {
  return async (path, body) => {
    const stream = session.request({ ":path": path, ":method": "POST" });
    stream.end(body);
    return text(bounded(stream, longestAnswer));
  };
}

/** Opens local ports for the access, and rewrites it to use them. */
async function openDoors(
  session: http2.ClientHttp2Session,
  access: TaskAccess,
  doors: net.Server[],
  onData: () => void,
): Promise<TaskAccess> {
  const ports = new Map<number, number>();
  for (const port of access.ports) {
    const door = await openDoor(session, port, onData);
    doors.push(door);
    ports.set(port, (door.address() as AddressInfo).port);
  }
  const here = (words: string) => moved(words, ports);
  const env = Object.fromEntries(Object.entries(access.env).map(([name, value]) => [name, here(value)]));
  return { kubeconfig: here(access.kubeconfig), env, ports: [...ports.values()] };
}

/** Opens a loopback port whose connections are tunneled to a port of the server. */
async function openDoor(session: http2.ClientHttp2Session, port: number, onData: () => void): Promise<net.Server> {
  const door = net.createServer({ allowHalfOpen: true }, (socket) => {
    if (session.destroyed || session.closed) return void socket.destroy();
    const stream = session.request({ ":path": `/ports/${port}`, ":method": "POST" });
    const end = (): void => {
      socket.destroy();
      stream.close();
    };
    socket.on("error", end).on("close", end);
    stream.on("error", end).on("close", end);
    socket.on("data", onData);
    stream.on("data", onData);
    socket.pipe(stream).pipe(socket);
    return undefined;
  });
  door.maxConnections = mostConnectionsOfRun;
  door.listen(0, "127.0.0.1");
  await once(door, "listening");
  return door;
}

function moved(words: string, ports: ReadonlyMap<number, number>): string {
  return words.replaceAll(/(?<=127\.0\.0\.1:)\d+\b/g, (port) => String(ports.get(Number(port)) ?? port));
}

async function attempt(render: () => Promise<void>): Promise<TaskOutcome> {
  try {
    await render();
    return { done: true };
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof PrepareError) return { failed: "prepare", message };
    if (error instanceof ArchiveError)
      return { failed: "prepare", message: `the merge cannot be unpacked: ${message}` };
    if (error instanceof KluctlUnavailableError || error instanceof PreviewRefusedError)
      return { failed: "unavailable", message };
    if (error instanceof KilledError) {
      return { failed: error.why === "lease-lost" ? "stopped" : error.why, message };
    }
    return { failed: "other", message };
  }
}
