/** A proxy in front of a git host's API that records the requests, their times, and how long the host took. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request as ask, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { now } from "./clock.ts";

export interface Asked {
  readonly method: string;
  /** Without the query string. */
  readonly path: string;
  readonly body: string;
  readonly status: number;
  /** When the request had arrived, and when the answer was complete. */
  readonly from: number;
  readonly to: number;
}

export interface ForgeProxy {
  /** URL of the API through this proxy. */
  readonly apiUrl: string;
  /** All answered requests, in the order of the answers. */
  readonly asked: readonly Asked[];
  /** Resolves with the first answered request from number `since` on for which `is` returns true. */
  until(what: string, is: (asked: Asked) => boolean, since: number): Promise<Asked>;
  stop(): Promise<void>;
}

/** Two hundred comparisons without warm renderers take minutes on a slow machine. */
const patienceMs = 600_000;

export async function startForgeProxy(apiUrl: string): Promise<ForgeProxy> {
  const { hostname, port, host, pathname } = new URL(apiUrl);
  const asked: Asked[] = [];
  const listeners = new Set<() => void>();

  function passOn(req: IncomingMessage, res: ServerResponse, body: Buffer): void {
    const from = now();
    const onward = ask({ hostname, port, path: req.url, method: req.method, headers: { ...req.headers, host } });
    onward.on("error", () => res.destroy());
    onward.on("response", (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
      answer.on("end", () => {
        const [path = ""] = (req.url ?? "").split("?", 1);
        const [method, status] = [req.method ?? "", answer.statusCode ?? 502];
        asked.push({ method, path, body: body.toString("utf8"), status, from, to: now() });
        for (const listener of listeners) listener();
      });
    });
    onward.end(body);
  }

  const server = createServer((req, res) => {
    buffer(req).then(
      (body) => passOn(req, res, body),
      () => res.destroy(),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");

  return {
    apiUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`,
    asked,
    until(what, is, since) {
      const { promise, resolve, reject } = Promise.withResolvers<Asked>();
      const look = () => {
        const found = asked.slice(since).find(is);
        if (found) resolve(found);
      };
      const late = setTimeout(
        () => reject(new Error(`The git host was not asked for ${what} in ${patienceMs / 1_000} s.`)),
        patienceMs,
      );
      listeners.add(look);
      look();
      return promise.finally(() => {
        clearTimeout(late);
        listeners.delete(look);
      });
    },
    async stop() {
      server.close();
      server.closeAllConnections();
      if (server.listening) await once(server, "close");
    },
  };
}
