/**
 * Tells browsers what changed: server-sent events. The first change is told at once, and what follows is gathered, so that
 * each hears at most about two a second, however many deployments change. Who reads too slowly is cut off: it comes back, and reads everything anew.
 */
import type { Response } from "express";
import { type Key, keyText } from "../src/model.ts";
import type { PageDelta, PageDeployment } from "./page-facts.ts";

export interface PageEventsDeps {
  /** As they are now, from memory; without those that are gone. */
  readonly describe: (keys: readonly Key[]) => readonly PageDeployment[];
  readonly gatherMs?: number | undefined;
  /** What changes together with the first one is told with it. */
  readonly atOnceMs?: number | undefined;
  readonly aliveMs?: number | undefined;
  readonly mostClients?: number | undefined;
  /** How much of what was sent may wait for one client. */
  readonly mostWaitingBytes?: number | undefined;
}

export interface PageEvents {
  changed(key: Key): void;
  /** False if there are too many. `until`: when it ends by itself, epoch milliseconds. */
  open(res: Response, until: number): boolean;
  /** Ends all of them. */
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
  const clients = new Map<Response, number>();
  const changed = new Map<string, Key>();
  let gathering: NodeJS.Timeout | undefined;
  let toldAt = -Infinity;
  let stopped = false;

  function send(text: string): void {
    for (const [res, until] of clients) {
      if (res.writableLength > mostWaitingBytes || Date.now() >= until) close(res);
      else res.write(text);
    }
  }

  function close(res: Response): void {
    clients.delete(res);
    if (res.writableLength > mostWaitingBytes) res.destroy();
    else res.end();
  }

  function tell(): void {
    gathering = undefined;
    toldAt = performance.now();
    const keys = [...changed.values()];
    changed.clear();
    if (clients.size === 0 || keys.length === 0) return;
    const there = describe(keys);
    const found = new Set(there.map(keyText));
    const removed = keys.filter((key) => !found.has(keyText(key)));
    const delta: PageDelta = { changed: there, removed };
    send(`event: deployments\ndata: ${JSON.stringify(delta)}\n\n`);
  }

  const alive = setInterval(() => send(": alive\n\n"), aliveMs);
  alive.unref();

  return {
    changed(key) {
      if (clients.size === 0) return; // whoever comes reads everything first
      changed.set(keyText(key), { namespace: key.namespace, name: key.name });
      gathering ??= setTimeout(tell, Math.max(atOnceMs, toldAt + gatherMs - performance.now()));
    },
    open(res, until) {
      if (stopped || clients.size >= mostClients) return false;
      res.writeHead(200, { "Content-Type": "text/event-stream", "X-Accel-Buffering": "no" });
      // Whoever hears it has missed nothing from then on.
      res.write("retry: 2000\nevent: open\ndata: {}\n\n");
      clients.set(res, until);
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
