/** Receives the progress events of the model kluctl and runs the listeners that inject faults. */
import { createServer, type Socket } from "node:net";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Run } from "./history.ts";

/** A progress event of a run. */
export interface JournalEvent {
  readonly event: "start" | "rendered" | "patched" | "writing" | "end";
  /** For `patched`: how many objects the run has written so far. */
  readonly number: number;
  readonly run: Run;
}

export interface Journal {
  readonly socket: string;
  /** All runs in the order in which they started. */
  runs(): readonly Run[];
  /** Number of events so far. */
  words(): number;
  /** Called for each event before the run continues. */
  onEvent(listener: (event: JournalEvent) => void | Promise<void>): void;
  stop(): Promise<void>;
}

interface Words {
  readonly event: JournalEvent["event"];
  readonly [field: string]: unknown;
}

export interface JournalOptions {
  /** Path of the Unix socket; short enough for its length limit. */
  readonly socket: string;
  /** Returns the replica whose proxy to the API server has this address. */
  readonly replicaOf: (server: string) => string;
  /** Returns the deployment with this discriminator, because the command line of a delete names no project. */
  readonly deploymentOf: (discriminator: string) => string;
  /** Reads the present holder of a deployment's Lease, by a way that no fault reaches. */
  readonly holderOf: (deployment: string) => Promise<string>;
}

type Growing = { -readonly [Field in keyof Run]: Run[Field] };

export async function startJournal(options: JournalOptions): Promise<Journal> {
  const { socket: path, replicaOf, deploymentOf, holderOf } = options;
  const runs: Growing[] = [];
  const listeners: ((event: JournalEvent) => void | Promise<void>)[] = [];
  const sockets = new Set<Socket>();
  let words = 0;

  function begin(said: Words): Growing {
    const text = (field: string) => String(said[field] ?? "");
    const run: Growing = {
      id: text("id"),
      pid: Number(said["pid"]),
      replica: replicaOf(text("server")),
      command: text("command"),
      deployment: said["discriminator"]
        ? deploymentOf(text("discriminator"))
        : (text("deployment").split("/")[1] ?? ""),
      commit: text("commit"),
      mutating: said["mutating"] === true,
      startedAt: Date.now(),
      wrote: 0,
    };
    runs.push(run);
    return run;
  }

  const server = createServer((socket) => {
    sockets.add(socket);
    let run: Growing | undefined;
    const hear = async (line: string) => {
      const said = JSON.parse(line) as Words;
      run ??= begin(said);
      if (said.event === "start") run.holder = await holderOf(run.deployment);
      if (said.event === "rendered") run.hash = String(said["hash"]);
      if (said.event === "patched") run.wrote++;
      if (said.event === "end") run.exitCode = Number(said["exitCode"]);
      words++;
      const event = { event: said.event, number: Number(said["number"] ?? 0), run };
      for (const listener of listeners) await listener(event);
      if (!socket.destroyed) socket.write("on\n");
    };
    /** A listener that fails is the caller's to report; the run must not wait for the answer for ever. */
    const hearOrHangUp = (line: string) =>
      hear(line).catch((error: unknown) => {
        socket.destroy();
        throw error;
      });
    createInterface(socket)
      .on("line", (line) => void hearOrHangUp(line))
      .on("error", () => undefined); // the process was killed: `close` follows
    socket.on("error", () => undefined);
    socket.on("close", () => {
      sockets.delete(socket);
      if (run) run.endedAt = Date.now();
    });
  });
  server.listen(path);
  await once(server, "listening");
  return {
    socket: path,
    runs: () => runs,
    words: () => words,
    onEvent: (listener) => void listeners.push(listener),
    async stop() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
