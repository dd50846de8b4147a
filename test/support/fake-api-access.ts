/** An API server whose answers the test defines, and the access to it. */
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import type { ApiAccess } from "../../src/model.ts";

export interface FakeApi {
  readonly access: ApiAccess;
  /** `METHOD /path?query` of all requests so far. */
  readonly requests: string[];
  /** Access of another account. */
  as(account: string): ApiAccess;
  /** How often a new login was requested. */
  renewed(): number;
}

export async function useFakeApi(handle: (req: IncomingMessage, res: ServerResponse) => void): Promise<FakeApi> {
  const requests: string[] = [];
  let renewed = 0;
  const server = createServer((req, res) => {
    requests.push(`${req.method} ${req.url}`);
    handle(req, res);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const as = (account: string): ApiAccess => ({
    cluster: "fake",
    account,
    send: ({ method, path, headers, body, signal }) =>
      new Promise((resolve, reject) => {
        const sent = request({ host: "127.0.0.1", port, method, path, headers, signal, agent: false }, resolve);
        sent.on("error", reject);
        sent.end(body);
      }),
    renewLogin: () => void renewed++,
    release: () => undefined,
  });
  return { access: as("shop/preview"), requests, as, renewed: () => renewed };
}

export function answerJson(
  res: ServerResponse,
  status: number,
  document: object,
  headers: Record<string, string> = {},
): void {
  const body = JSON.stringify(document);
  res.writeHead(status, { "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body), ...headers });
  res.end(body);
}
