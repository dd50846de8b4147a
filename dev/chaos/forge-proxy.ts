/**
 * A proxy between one replica and the git host's API: injects network failures and error answers, and signals each
 * comment.
 */
import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { startTcpProxy, type TcpProxy } from "../parts/tcp-proxy.ts";

/** `telling`: a comment is about to be written. `told`: it is written, but the server has not received the answer. */
export type CommentEvent = "telling" | "told";

export interface ForgeProxy extends TcpProxy {
  /** Answers the next `times` requests with this status without passing them to the host. */
  answer(status: number, times: number): void;
}

export interface ForgeProxyOptions {
  readonly host: URL;
  /** Awaited before the request, or its answer, is passed on. */
  readonly onComment: (event: CommentEvent) => Promise<void>;
}

export async function startForgeProxy({ host, onComment }: ForgeProxyOptions): Promise<ForgeProxy> {
  let wrong = { status: 0, left: 0 };

  async function handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (wrong.left > 0) {
      wrong.left--;
      const retry = wrong.status === 429 ? { "retry-after": "2" } : {};
      res.writeHead(wrong.status, { "content-type": "application/json", ...retry }).end("{}");
      return;
    }
    const isComment = /^(POST|PATCH)$/.test(req.method ?? "") && /\/comments(\/\d+)?$/.test(req.url ?? "");
    if (isComment) await onComment("telling");
    const { hostname, port } = host;
    const headers = { ...req.headers, host: host.host };
    const passOn = async (answer: IncomingMessage) => {
      if (isComment) await onComment("told");
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    };
    const onward = httpRequest({ hostname, port, path: req.url, method: req.method, headers });
    onward.on("response", (answer) => void orHangUp(passOn(answer), res));
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  }

  const server = createServer((req, res) => void orHangUp(handle(req, res), res));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const network = await startTcpProxy({ host: "127.0.0.1", port: (server.address() as AddressInfo).port });

  return {
    ...network,
    answer(status, times) {
      wrong = { status, left: times };
    },
    heal() {
      wrong = { status: 0, left: 0 };
      network.heal();
    },
    async stop() {
      await network.stop();
      server.close();
      server.closeAllConnections();
    },
  };
}

/** A listener that fails is the caller's to report; the server must not wait for the answer for ever. */
function orHangUp(work: Promise<void>, res: ServerResponse): Promise<void> {
  return work.catch((error: unknown) => {
    res.destroy();
    throw error;
  });
}
