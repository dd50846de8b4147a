/** An HTTP server that can be stopped without cutting anybody off. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { boundConnections, type ConnectionLimits } from "./connections.ts";

export interface Listener {
  /** The real one, when 0 was asked for. */
  readonly port: number;
  /** Takes no new connections, lets requests finish for at most `graceMs`, then closes what is left. */
  stop(graceMs: number): Promise<void>;
}

/** What a sender gets, and how many may send. */
export interface ListenerLimits {
  /** A sender gets this long for its headers, and for the whole request. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** How often Node looks for senders whose time is up; by itself only twice a minute. */
  readonly lookEveryMs: number;
  /** A connection is kept this long for another request. */
  readonly keepAliveMs: number;
  /** As many as come unless set. */
  readonly connections?: ConnectionLimits | undefined;
}

const usualLimits: ListenerLimits = { headersMs: 10_000, requestMs: 60_000, lookEveryMs: 5_000, keepAliveMs: 5_000 };

/** Connections that the kernel keeps until they are accepted: a burst of others must not make one wait for a second try. */
const backlog = 4_096;

export interface Address {
  /** Absent: all of this machine's. */
  readonly host?: string | undefined;
  readonly port: number;
  /** What is listened for, for people. */
  readonly purpose: string;
  /** What the variables that set this address begin with; or the option of kluctl's controller that does. */
  readonly variable: string;
}

/** Throws if the address is in use, or cannot be had. */
export async function startListener(
  app: RequestListener,
  address: Address,
  { headersMs, requestMs, lookEveryMs, keepAliveMs, connections }: ListenerLimits = usualLimits,
): Promise<Listener> {
  const server = createServer({
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: lookEveryMs,
    keepAliveTimeout: keepAliveMs,
  });
  if (connections) boundConnections(server, connections);
  server.on("request", app);
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(new Error(explainAddress(error, address), { cause: error })));
    server.listen({ port: address.port, host: address.host, backlog }, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    async stop(graceMs) {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const cut = setTimeout(() => server.closeAllConnections(), graceMs);
      await closed;
      clearTimeout(cut);
    },
  };
}

/** Why an address cannot be had, and what to do. */
export function explainAddress(error: NodeJS.ErrnoException, { host = "", port, purpose, variable }: Address): string {
  const [portOf, hostOf] = variable.startsWith("--") ? [variable, variable] : [`${variable}_PORT`, `${variable}_HOST`];
  const whys: Readonly<Record<string, string>> = {
    EADDRINUSE: `another process listens there; choose another port with ${portOf}`,
    EACCES: `the server is not allowed to use this port; choose one above 1023 with ${portOf}`,
    EADDRNOTAVAIL: `this machine does not have this address; choose another with ${hostOf}`,
    ENOTFOUND: `this host name cannot be resolved; choose another with ${hostOf}`,
  };
  return `Cannot listen for ${purpose} on ${host}:${port}: ${whys[error.code ?? ""] ?? error.message}.`;
}
