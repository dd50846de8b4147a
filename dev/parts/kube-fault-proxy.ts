/** A proxy between a client and the API server that injects faults. Speaks plain HTTP to the client. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Agent, request } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { KubeConfig } from "@kubernetes/client-node";
import { stringify } from "yaml";

export interface FakeAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface FaultProxy {
  /** The text of a kubeconfig that uses the proxy. */
  readonly kubeconfig: string;
  /** URL of the proxy. */
  readonly server: string;
  /** `METHOD /path?query` of all requests so far. */
  readonly requests: string[];
  /** Answers matching requests itself, at most `times` times; returns a function that stops this earlier. */
  answer(match: (request: string) => boolean, answer: FakeAnswer, times?: number): () => void;
  /** Passes matching requests on, but cuts the connection instead of answering. */
  swallow(match: (request: string) => boolean, times?: number): void;
  /**
   * Holds matching requests until they are released, at most `times` of them; one whose client gives up is never passed
   * on.
   */
  hold(match: (request: string) => boolean, times?: number): Hold;
  /** Resets all connections. */
  cut(): void;
  /** Writes a line to every open watch, as if the API server had sent it. */
  inject(line: object | string): void;
  /** Ends every open watch like a server whose watch timeout has expired. */
  endWatches(): void;
  /** Drops all data in both directions without closing connections. They are reset when this ends, because that data is lost. */
  blackHole(on: boolean): void;
  /** Refuses connections until `open` is called. */
  close(): Promise<void>;
  open(): Promise<void>;
  /** Stops the proxy permanently. */
  stop(): void;
}

export interface Hold {
  /** Resolves when a matching request has arrived. */
  readonly arrived: Promise<void>;
  release(): void;
}

interface Gate {
  readonly arrive: () => void;
  readonly opened: Promise<void>;
}

interface Rule {
  readonly match: (request: string) => boolean;
  readonly act: FakeAnswer | Gate | "swallow";
  left: number;
}

export async function startFaultProxy(kubeconfig: string): Promise<FaultProxy> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  if (!cluster || !user) throw new Error("The kubeconfig has no current context.");
  const read = (file?: string, data?: string) => (file ? readFileSync(file) : Buffer.from(data ?? "", "base64"));
  const agent = new Agent({
    keepAlive: true,
    ca: read(cluster.caFile, cluster.caData),
    cert: read(user.certFile, user.certData),
    key: read(user.keyFile, user.keyData),
  });

  const rules: Rule[] = [];
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  const watches = new Set<ServerResponse>();
  let hole = false;

  const handle = async (req: IncomingMessage, res: ServerResponse) => {
    const name = `${req.method} ${req.url}`;
    requests.push(name);
    if (hole) return;
    const rule = rules.find(({ left, match }) => left > 0 && match(name));
    if (rule) rule.left--;
    const isHeld = typeof rule?.act === "object" && "opened" in rule.act;
    if (isHeld) {
      rule.act.arrive();
      await rule.act.opened;
      if (res.closed) return;
    } else if (rule && rule.act !== "swallow") {
      const { status, headers = {}, body = "" } = rule.act;
      res.writeHead(status, headers).end(body);
      return;
    }
    const headers = { ...req.headers, host: new URL(cluster.server).host };
    const upstream = request(`${cluster.server}${req.url}`, { method: req.method, headers, agent }, (answer) => {
      if (rule?.act === "swallow") {
        answer.resume().once("end", () => req.socket.resetAndDestroy());
        return;
      }
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      res.flushHeaders();
      if (req.url?.includes("watch=true")) watches.add(res);
      answer.on("data", (chunk: Buffer) => hole || res.write(chunk));
      answer.on("end", () => hole || res.end());
      answer.on("error", () => res.destroy());
    });
    upstream.on("error", () => req.socket.destroy());
    res.on("close", () => {
      watches.delete(res);
      upstream.destroy();
    });
    req.pipe(upstream);
  };

  const server = createServer((req, res) => void handle(req, res));
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
  });
  const listen = async (port: number) => {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const cut = () => {
    for (const socket of sockets) socket.resetAndDestroy();
  };
  const own = `http://127.0.0.1:${port}`;

  return {
    server: own,
    kubeconfig: stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "proxy",
      contexts: [{ name: "proxy", context: { cluster: "proxy", user: "proxy" } }],
      clusters: [{ name: "proxy", cluster: { server: own, "insecure-skip-tls-verify": true } }],
      users: [{ name: "proxy", user: {} }],
    }),
    requests,
    answer(match, act, times = Infinity) {
      const rule = { match, act, left: times };
      rules.push(rule);
      return () => {
        rule.left = 0;
      };
    },
    swallow(match, times = 1) {
      rules.push({ match, act: "swallow", left: times });
    },
    hold(match, times = 1) {
      const [came, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      rules.push({ match, act: { arrive: came.resolve, opened: gate.promise }, left: times });
      return { arrived: came.promise, release: gate.resolve };
    },
    cut,
    inject(line) {
      for (const watch of watches) watch.write(`${typeof line === "string" ? line : JSON.stringify(line)}\n`);
    },
    endWatches() {
      for (const watch of watches) watch.end();
    },
    blackHole(on) {
      if (hole && !on) cut();
      hole = on;
    },
    async close() {
      server.close();
      cut();
      if (server.listening) await once(server, "close");
    },
    open: () => listen(port),
    stop() {
      cut();
      server.close();
      agent.destroy();
    },
  };
}
