/**
 * The only network access of a preview's kluctl: a proxy on loopback that connects only to the hosts allowed for that
 * run. Each run has a login of its own, which expires with it.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { type Lookup, systemLookup } from "../kit/address.ts";
import { parseTarget, type Target } from "../kit/host-rule.ts";
import type { Logger } from "../log.ts";
import { openRequest, openTunnel } from "./dial.ts";
import { createGuard, RefusedAddressError } from "./guard.ts";
import { createEgressRun, type EgressLimits, type EgressRun, RefusedError } from "./run.ts";
import type { ProxyEnvironment } from "./upstream.ts";

export interface EgressProxyDeps {
  /** The hosts that every preview may reach, from `preview.hosts`. */
  readonly hosts: () => readonly string[];
  readonly apiServers: () => readonly Target[];
  /** The server's environment, which may name a proxy that the server itself has to use. */
  readonly env: ProxyEnvironment;
  readonly log: Logger;
  readonly lookup?: Lookup | undefined;
  readonly ownAddresses?: (() => readonly string[]) | undefined;
  readonly limits?: Partial<EgressLimits> | undefined;
}

export interface EgressAccess {
  /** Variables that make kluctl use the proxy. */
  readonly env: Readonly<Record<string, string>>;
  readonly port: number;
  /** Whether it was connected or something was transferred in the last seconds. */
  isServing(): boolean;
  /** The requests refused so far, each with advice. */
  refusals(): readonly string[];
  close(): Promise<void>;
}

export interface EgressProxy {
  /** The hosts have the format of `preview.hosts`. */
  open(allowed: readonly string[]): Promise<EgressAccess>;
  stop(): Promise<void>;
}

const defaultLimits: EgressLimits = { connections: 32, bytes: 1024 ** 3, idleMs: 60_000, connectMs: 20_000 };
/** All runs together. */
const mostConnections = 512;
const hopByHop = /^(?:connection|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade)$/;

export function createEgressProxy({ hosts, env, log, lookup = systemLookup, ...deps }: EgressProxyDeps): EgressProxy {
  const limits = { ...defaultLimits, ...deps.limits };
  const guard = createGuard({ ...deps, lookup });
  const dialing = { guard, env, connectMs: limits.connectMs };
  const runs = new Map<string, EgressRun>();

  const server = http.createServer({ headersTimeout: 10_000, keepAliveTimeout: 5_000 });
  server.maxConnections = mostConnections;
  server.on("connect", (request: http.IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    void tunnel(request, socket, head);
  });
  server.on(
    "request",
    (request: http.IncomingMessage, response: http.ServerResponse) => void forward(request, response),
  );
  server.on("clientError", (_error, socket) => socket.destroy());

  function runOf({ headers }: http.IncomingMessage): EgressRun | undefined {
    const [, encoded = ""] = /^Basic ([\w+/=-]+)$/i.exec(headers["proxy-authorization"] ?? "") ?? [];
    const [login = ""] = Buffer.from(encoded, "base64").toString("latin1").split(":");
    return runs.get(login);
  }

  /** Returns status and reason phrase; kluctl shows only the first line of a response. */
  function explain(error: unknown, run: EgressRun, target: Target | undefined): { status: number; words: string } {
    if (error instanceof RefusedError || error instanceof RefusedAddressError) {
      run.refused(error.message);
      return { status: 403, words: error.message };
    }
    const { code, message } = error as NodeJS.ErrnoException;
    return { status: 502, words: `cannot connect to ${target?.host ?? "it"}: ${code ?? message}` };
  }

  async function tunnel(request: http.IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const run = runOf(request);
    if (run === undefined) return answer(socket, 407, "this run is over");
    let target: Target | undefined;
    try {
      run.enter(socket);
      socket.pause(); // until the target is connected
      target = parseTarget(request.url ?? "");
      if (target === undefined) throw new RefusedError("previews can only connect to a host and a port");
      run.allow(target, 443);
      const out = await openTunnel({ target, operators: run.operators, signal: run.signal }, dialing);
      join(run, socket, out, head);
    } catch (error) {
      const { status, words } = explain(error, run, target);
      answer(socket, status, words);
    }
  }

  function join(run: EgressRun, socket: Duplex, out: Duplex, head: Buffer): void {
    const end = (): void => void [socket, out].map((one) => one.destroy());
    for (const one of [socket, out]) {
      one.on("error", end);
      one.on("close", end);
      (one as Partial<{ setTimeout(ms: number, then: () => void): void }>).setTimeout?.(limits.idleMs, end);
    }
    if (socket.destroyed) return end();
    run.hold(out);
    socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
    if (head.length > 0) out.write(head);
    out.pipe(socket);
    socket.pipe(out);
  }

  /** Forwards requests without TLS, and only those that read from Helm repositories, registries and git. */
  async function forward(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const run = runOf(request);
    if (run === undefined) return end(response, 407, "this run is over");
    const { method = "", url: text = "" } = request;
    let target: Target | undefined;
    try {
      run.enter(request);
      request.pause();
      const url = /^http:\/\//i.test(text) ? URL.parse(text) : undefined;
      target = url ? parseTarget(`${url.hostname}:${url.port || 80}`) : undefined;
      if (!url || target === undefined) throw new RefusedError("this is a proxy; only proxy requests are supported");
      run.allow(target, 80);
      const reads = ["GET", "HEAD"].includes(method) || (method === "POST" && /\/git-upload-pack$/.test(url.pathname));
      if (!reads) throw new RefusedError(`previews can only read from ${target.host}; ${method} is not allowed`);
      const kept = ([name]: [string, unknown]) =>
        !hopByHop.test(name) && (method === "POST" || name !== "content-length");
      const headers = Object.fromEntries(Object.entries(request.headers).filter(kept));
      const asked = { url, target, method, headers: { ...headers, host: url.host } };
      const sent = await openRequest({ ...asked, operators: run.operators, signal: run.signal }, dialing);
      pass(run, target, request, response, sent);
    } catch (error) {
      const { status, words } = explain(error, run, target);
      end(response, status, words);
    }
  }

  function pass(
    run: EgressRun,
    target: Target,
    request: http.IncomingMessage,
    response: http.ServerResponse,
    sent: http.ClientRequest,
  ): void {
    sent.setTimeout(limits.idleMs, () => sent.destroy(new Error("it does not respond in time")));
    sent.once("error", (error) => {
      const { status, words } = explain(error, run, target);
      if (response.headersSent) response.destroy();
      else end(response, status, words);
    });
    response.once("close", () => sent.destroy());
    sent.once("response", (incoming) => {
      const headers = Object.entries(incoming.headers).filter(([name]) => !hopByHop.test(name));
      response.writeHead(incoming.statusCode ?? 502, Object.fromEntries(headers));
      run.hold(incoming);
      incoming.pipe(response);
    });
    // Read requests have no body: on the upstream connection it would be parsed as another request.
    if (request.method === "POST") request.pipe(sent);
    else {
      request.resume();
      sent.end();
    }
  }

  let listening: Promise<unknown> | undefined;
  async function listen(): Promise<number> {
    if (listening === undefined) {
      server.listen(0, "127.0.0.1");
      server.unref();
      listening = once(server, "listening");
      listening.catch(() => (listening = undefined));
    }
    await listening;
    return (server.address() as AddressInfo).port;
  }

  return {
    async open(allowed) {
      const port = await listen();
      const login = randomBytes(24).toString("hex");
      const run = createEgressRun(allowed, hosts(), limits);
      runs.set(login, run);
      const url = `http://${login}:x@127.0.0.1:${port}`;
      return {
        // git and curl read only the lower-case names.
        env: { HTTPS_PROXY: url, HTTP_PROXY: url, https_proxy: url, http_proxy: url, NO_PROXY: "", no_proxy: "" },
        port,
        isServing: () => run.isServing(),
        refusals: () => run.refusals(),
        close() {
          if (runs.delete(login) && run.refusals().length > 0) {
            log.info({ refusals: run.refusals() }, "preview tried to reach hosts that are not allowed");
          }
          run.close();
          return Promise.resolve();
        },
      };
    },

    async stop() {
      for (const run of runs.values()) run.close();
      runs.clear();
      if (listening === undefined) return;
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

function answer(socket: Duplex, status: number, words: string): void {
  socket.end(`HTTP/1.1 ${status} ${toReason(words)}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
}

function end(response: http.ServerResponse, status: number, words: string): void {
  response.writeHead(status, toReason(words), { connection: "close", "content-type": "text/plain" }).end(`${words}\n`);
}

/** Replaces unsafe characters, because the text contains untrusted input. */
function toReason(words: string): string {
  return words.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 400);
}
