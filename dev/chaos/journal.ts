/** Where the model kluctl says how far it is, and what is done about that. */
import { createServer, type Socket } from "node:net";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Run } from "./history.ts";

/** A word of a run, as it is said. */
export interface JournalEvent {
  readonly event: "start" | "rendered" | "patched" | "writing" | "end";
  /** Of `patched`: how many objects the run has written. */
  readonly number: number;
  readonly run: Run;
}

export interface Journal {
  readonly socket: string;
  /** In the order in which they began. */
  runs(): readonly Run[];
  /** How many words were said so far. */
  words(): number;
  /** Called for each word, before the run goes on. */
  onEvent(listener: (event: JournalEvent) => void | Promise<void>): void;
  stop(): Promise<void>;
}

interface Words {
  readonly event: JournalEvent["event"];
  readonly [field: string]: unknown;
}

export interface JournalOptions {
  /** A path that is short enough for a socket. */
  readonly socket: string;
  /** The replica that speaks to the API server by this address. */
  readonly replicaOf: (server: string) => string;
  /** The deployment that deploys with this discriminator: what is deleted has no project that says so. */
  readonly deploymentOf: (discriminator: string) => string;
}

type Growing = { -readonly [Field in keyof Run]: Run[Field] };

export async function startJournal({ socket: path, replicaOf, deploymentOf }: JournalOptions): Promise<Journal> {
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
      holder: said["holder"] as string | undefined,
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
      if (said.event === "rendered") run.hash = String(said["hash"]);
      if (said.event === "patched") run.wrote++;
      if (said.event === "end") run.exitCode = Number(said["exitCode"]);
      words++;
      const event = { event: said.event, number: Number(said["number"] ?? 0), run };
      for (const listener of listeners) await listener(event);
      if (!socket.destroyed) socket.write("on\n");
    };
    createInterface(socket)
      .on("line", (line) => void hear(line))
      .on("error", () => undefined); // it was killed: `close` follows
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
