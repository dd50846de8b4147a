/** A proxy between a forge and its host: injects faults that no host produces on demand, and records requests. */
import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** Answers a request in place of the host. */
export type Fault = (req: IncomingMessage, res: ServerResponse) => void;

export interface ForgeProxy {
  /** Base URL of the API through this proxy. */
  readonly apiUrl: string;
  /** `METHOD /path?query` of all requests since `clear`. */
  readonly requests: string[];
  /** Answers all further requests with this fault, or only those whose `METHOD /path?query` matches. */
  fail(fault: Fault, only?: RegExp): void;
  /** Limits further lists to this page size, whatever size is requested. */
  shrinkPages(size: number): void;
  /** Removes all faults and recorded requests. */
  clear(): void;
}

export async function useForgeProxy(apiUrl: string): Promise<ForgeProxy> {
  const behind = new URL(apiUrl);
  const requests: string[] = [];
  let fault: { readonly answer: Fault; readonly only: RegExp } | undefined;
  let pageSize: number | undefined;

  function shrink(path: string): string {
    const url = new URL(path, behind);
    for (const name of ["limit", "per_page"]) {
      if (pageSize !== undefined && url.searchParams.has(name)) url.searchParams.set(name, String(pageSize));
    }
    return url.pathname + url.search;
  }

  const server = createServer((req, res) => {
    const request = `${req.method} ${req.url}`;
    requests.push(request);
    if (fault?.only.test(request)) return fault.answer(req, res);
    const { hostname, port, host } = behind;
    const headers = { ...req.headers, host };
    const path = pageSize === undefined ? req.url : shrink(req.url ?? "/");
    const onward = httpRequest({ hostname, port, path, method: req.method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    onward.on("error", () => res.destroy());
    req.pipe(onward);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    server.close();
    server.closeAllConnections();
    await once(server, "close");
  });
  const { port } = server.address() as AddressInfo;
  return {
    apiUrl: `http://127.0.0.1:${port}${behind.pathname}`,
    requests,
    fail: (answer, only = /^/) => void (fault = { answer, only }),
    shrinkPages: (size) => void (pageSize = size),
    clear() {
      fault = undefined;
      requests.length = 0;
    },
  };
}
