/**
 * Sends changes to browsers as server-sent events. The first change is sent immediately, further ones are batched, so that
 * each client gets at most about two events a second, however many deployments change. A client that reads too slowly is
 * disconnected; it reconnects and reads everything again.
 */
import type { Response } from "express";
import { type Key, keyText } from "../model.ts";
import type { PageDelta, PageDeployment } from "./facts.ts";
import { seesAll, type Sees } from "./sight.ts";

export interface PageEventsDeps {
  /** The current state, from memory; without deleted deployments. */
  readonly describe: (keys: readonly Key[]) => readonly PageDeployment[];
  readonly gatherMs?: number | undefined;
  /** Changes within this time after the first one are sent together with it. */
  readonly atOnceMs?: number | undefined;
  readonly aliveMs?: number | undefined;
  readonly mostClients?: number | undefined;
  /** The most unsent bytes for one client. */
  readonly mostWaitingBytes?: number | undefined;
}

export interface PageEvents {
  changed(key: Key): void;
  /** False if there are too many clients. `until`: when the stream ends, epoch milliseconds. */
  open(res: Response, until: number, sees?: Sees): boolean;
  /** Ends all streams. */
  stop(): void;
}

export function createPageEvents({
  describe,
  gatherMs = 500,
  atOnceMs = 20,
  aliveMs = 15_000,
  mostClients = 200,
  mostWaitingBytes = 4 * 1024 * 1024,
}: PageEventsDeps): PageEvents {
  const clients = new Map<Response, { readonly until: number; readonly sees: Sees }>();
  const changed = new Map<string, Key>();
  let gathering: NodeJS.Timeout | undefined;
  let sentAt = -Infinity;
  let stopped = false;

  function send(textFor: (sees: Sees) => string | undefined): void {
    for (const [res, { until, sees }] of clients) {
      if (res.writableLength > mostWaitingBytes || Date.now() >= until) {
        close(res);
        continue;
      }
      const text = textFor(sees);
      if (text !== undefined) res.write(text);
    }
  }

  function close(res: Response): void {
    clients.delete(res);
    if (res.writableLength > mostWaitingBytes) res.destroy();
    else res.end();
  }

  function sendChanges(): void {
    gathering = undefined;
    sentAt = performance.now();
    const keys = [...changed.values()];
    changed.clear();
    if (clients.size === 0 || keys.length === 0) return;
    const there = describe(keys);
    const found = new Set(there.map(keyText));
    const removed = keys.filter((key) => !found.has(keyText(key)));
    const toText = (delta: PageDelta) => `event: deployments\ndata: ${JSON.stringify(delta)}\n\n`;
    const whole = toText({ changed: there, removed }); // most clients see all deployments
    send((sees) => {
      if (sees === seesAll) return whole;
      const isSeen = ({ namespace }: Key) => sees(namespace);
      const delta = { changed: there.filter(isSeen), removed: removed.filter(isSeen) };
      return delta.changed.length + delta.removed.length === 0 ? undefined : toText(delta);
    });
  }

  const alive = setInterval(() => send(() => ": alive\n\n"), aliveMs);
  alive.unref();

  return {
    changed(key) {
      if (clients.size === 0) return; // a new client reads everything first
      changed.set(keyText(key), { namespace: key.namespace, name: key.name });
      gathering ??= setTimeout(sendChanges, Math.max(atOnceMs, sentAt + gatherMs - performance.now()));
    },
    open(res, until, sees = seesAll) {
      if (stopped || clients.size >= mostClients) return false;
      res.writeHead(200, { "Content-Type": "text/event-stream", "X-Accel-Buffering": "no" });
      // After this event the client misses no change.
      res.write("retry: 2000\nevent: open\ndata: {}\n\n");
      clients.set(res, { until, sees });
      res.on("close", () => clients.delete(res));
      return true;
    },
    stop() {
      stopped = true;
      clearTimeout(gathering);
      clearInterval(alive);
      for (const res of clients.keys()) close(res);
    },
  };
}
