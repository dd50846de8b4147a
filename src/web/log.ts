/**
 * Sends kluctl's output for a deployment to browsers as server-sent events, from the stored lines. Without clients nothing
 * is read; any number of clients share one read.
 */
import type { Response } from "express";
import type { Key } from "../model.ts";
import type { PageLogLine } from "./facts.ts";

export interface PageLogDeps {
  /** Reads, for each deployment, the lines after `last` and the new position; `"0"` is the beginning. */
  readonly read: (
    wanted: readonly { readonly key: Key; readonly last: string }[],
  ) => Promise<readonly { readonly lines: readonly PageLogLine[]; readonly last: string }[]>;
  readonly everyMs?: number | undefined;
  readonly aliveMs?: number | undefined;
  readonly mostClients?: number | undefined;
  /** The most unsent bytes for one client. */
  readonly mostWaitingBytes?: number | undefined;
}

export interface PageLog {
  /** False if there are too many clients. `until`: when the stream ends, epoch milliseconds. */
  open(res: Response, key: Key, until: number): boolean;
  /** Ends all streams. */
  stop(): void;
}

interface Client {
  readonly res: Response;
  readonly key: Key;
  readonly until: number;
  last: string;
  begun: boolean;
}

export function createPageLog({
  read,
  everyMs = 300,
  aliveMs = 15_000,
  mostClients = 100,
  mostWaitingBytes = 1024 * 1024,
}: PageLogDeps): PageLog {
  const clients = new Set<Client>();
  let timer: NodeJS.Timeout | undefined;
  let looking = false;
  let stopped = false;

  async function look(): Promise<void> {
    if (looking) return; // a read is already in progress
    looking = true;
    const asked = [...clients];
    try {
      const answers = await read(asked);
      asked.forEach((client, index) => {
        const { lines = [], last = client.last } = answers[index] ?? {};
        client.last = last;
        if (lines.length > 0 || !client.begun) send(client, `event: lines\ndata: ${JSON.stringify(lines)}\n\n`);
        client.begun = true;
      });
    } catch {
      // Redis does not respond: its connection logs that, and the lines follow once it is back.
    }
    looking = false;
    if (clients.size > 0) timer = setTimeout(() => void look(), everyMs);
  }

  function send(client: Client, text: string): void {
    const { res, until } = client;
    if (!clients.has(client)) return;
    if (res.writableLength > mostWaitingBytes || Date.now() >= until) close(client);
    else res.write(text);
  }

  function close(client: Client): void {
    clients.delete(client);
    if (client.res.writableLength > mostWaitingBytes) client.res.destroy();
    else client.res.end();
  }

  const alive = setInterval(() => {
    for (const client of clients) send(client, ": alive\n\n");
  }, aliveMs);
  alive.unref();

  return {
    open(res, key, until) {
      if (stopped || clients.size >= mostClients) return false;
      res.writeHead(200, { "Content-Type": "text/event-stream", "X-Accel-Buffering": "no" });
      // On this event the client discards earlier lines: all stored lines follow.
      res.write("retry: 2000\nevent: open\ndata: {}\n\n");
      const client: Client = { res, key, until, last: "0", begun: false };
      clients.add(client);
      res.on("close", () => clients.delete(client));
      clearTimeout(timer);
      void look();
      return true;
    },
    stop() {
      stopped = true;
      clearTimeout(timer);
      clearInterval(alive);
      for (const client of clients) close(client);
    },
  };
}
