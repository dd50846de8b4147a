/** Connects to a host that a preview may reach: directly, or through the proxy that the server itself has to use. */
import http from "node:http";
import https from "node:https";
import net from "node:net";
import type { Duplex } from "node:stream";
import { toNodeLookup } from "../kit/address.ts";
import type { HostRule, Target } from "../kit/host-rule.ts";
import type { Guard } from "./guard.ts";
import { findUpstream, type ProxyEnvironment } from "./upstream.ts";

export interface DialDeps {
  readonly guard: Guard;
  /** The server's environment, which may name a proxy. */
  readonly env: ProxyEnvironment;
  readonly connectMs: number;
}

export interface Dialing {
  readonly target: Target;
  readonly operators: readonly HostRule[];
  readonly signal: AbortSignal;
}

/** Throws the guard's errors and network errors. */
export async function openTunnel({ target, operators, signal }: Dialing, deps: DialDeps): Promise<Duplex> {
  const upstream = findUpstream(deps.env, "https", target);
  if (upstream === undefined) return connect({ target, operators, signal }, deps);
  await judgeAddress(target, operators, deps);
  const path = `${target.host}:${target.port}`;
  const { promise, resolve, reject } = Promise.withResolvers<Duplex>();
  const { request } = upstream.protocol === "https:" ? https : http;
  const { headers: login, ...place } = placeOf(upstream);
  const headers = { ...login, host: path };
  const asked = request({ ...place, method: "CONNECT", path, headers, agent: false, signal });
  asked.setTimeout(deps.connectMs, () => asked.destroy(new Error("the server's proxy does not respond in time")));
  asked.once("connect", ({ statusCode = 0 }, socket, head) => {
    if (statusCode < 200 || statusCode >= 300) {
      socket.destroy();
      return reject(new Error(`the server's proxy responded with status ${statusCode}`));
    }
    socket.setTimeout(0);
    if (head.length > 0) socket.unshift(head);
    resolve(socket);
  });
  asked.once("response", ({ statusCode }) => {
    asked.destroy();
    reject(new Error(`the server's proxy responded with status ${statusCode}`));
  });
  asked.once("error", reject);
  asked.end();
  return promise;
}

async function connect({ target, operators, signal }: Dialing, { guard, connectMs }: DialDeps): Promise<net.Socket> {
  const addresses = await guard(target, operators);
  signal.throwIfAborted();
  const lookup = toNodeLookup(() => Promise.resolve(addresses));
  const { promise, resolve, reject } = Promise.withResolvers<net.Socket>();
  // Any host name: the lookup always returns the checked addresses.
  const socket = net.connect({ host: "judged", port: target.port, lookup, autoSelectFamily: true, signal });
  socket.setTimeout(connectMs, () => socket.destroy(new Error("it does not respond in time")));
  socket.once("connect", () => {
    socket.setTimeout(0);
    resolve(socket);
  });
  socket.once("error", reject);
  socket.once("close", () => reject(new Error("the connection was closed")));
  return promise;
}

export interface PlainRequest extends Dialing {
  readonly url: URL;
  readonly method: string;
  readonly headers: http.OutgoingHttpHeaders;
}

/** Starts a request without TLS; the caller sends the body. */
export async function openRequest(plain: PlainRequest, deps: DialDeps): Promise<http.ClientRequest> {
  const { target, operators, url, method, headers, signal } = plain;
  const upstream = findUpstream(deps.env, "http", target);
  const options = { method, headers, signal };
  if (upstream !== undefined) {
    await judgeAddress(target, operators, deps);
    const { request } = upstream.protocol === "https:" ? https : http;
    const { headers: login, ...place } = placeOf(upstream);
    return request({ ...options, ...place, agent: false, headers: { ...headers, ...login }, path: url.href });
  }
  const socket = await connect({ target, operators, signal }, deps);
  // Without an agent: any agent, even the default one, would open a connection of its own, to port 80 of this machine.
  return http.request({ ...options, createConnection: () => socket, path: `${url.pathname}${url.search}` });
}

/** Checks an address. Names are resolved by the proxy, so they cannot be checked here. */
async function judgeAddress(target: Target, operators: readonly HostRule[], { guard }: DialDeps): Promise<void> {
  if (/^\[|^\d+(\.\d+){3}$/.test(target.host)) await guard(target, operators);
}

function placeOf(proxy: URL) {
  const { protocol, hostname, port, username, password } = proxy;
  const login = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString("base64");
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: port === "" ? (protocol === "https:" ? 443 : 80) : Number(port),
    headers: username === "" ? {} : { "proxy-authorization": `Basic ${login}` },
  };
}
