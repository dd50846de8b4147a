/** A proxy in front of the page, whose address is known before the server has one. */
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

export interface Front {
  readonly url: string;
  /** URL that it forwards to. */
  to: string;
}

export async function useFront(): Promise<Front> {
  const server = createServer((req, res) => {
    const { hostname, port } = new URL(front.to);
    const headers = { ...req.headers, "x-forwarded-for": "192.0.2.7" };
    const behind = request({ hostname, port, path: req.url, method: req.method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    behind.once("error", () => res.destroy());
    req.pipe(behind);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const front = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, to: "" };
  return front;
}
