/** An HTTP server that stops gracefully. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { within } from "../kit/deadline.ts";
import { boundConnections, type ConnectionLimits } from "./connections.ts";

export interface Listener {
  /** The actual port if 0 was requested. */
  readonly port: number;
  /**
   * Accepts no new connections, waits up to `graceMs` for requests to finish, then closes the remaining connections.
   */
  stop(graceMs: number): Promise<void>;
}

/** Limits for senders. */
export interface ListenerLimits {
  /** Timeouts for receiving the headers and the whole request. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** How often Node checks for connections over these timeouts; its own default is every 30 s. */
  readonly lookEveryMs: number;
  /** How long an idle connection is kept open. */
  readonly keepAliveMs: number;
  /** Absent: unlimited. */
  readonly connections?: ConnectionLimits | undefined;
}

const usualLimits: ListenerLimits = { headersMs: 10_000, requestMs: 60_000, lookEveryMs: 5_000, keepAliveMs: 5_000 };

/**
 * Connections that the kernel queues until they are accepted: during a burst, a sender must not have to connect again.
 */
const backlog = 4_096;

export interface Address {
  /** Absent: all addresses of this machine. */
  readonly host?: string | undefined;
  readonly port: number;
  /** What the port is for, for messages. */
  readonly purpose: string;
  /** The prefix of the variables that set this address, or the corresponding option of kluctl's controller. */
  readonly variable: string;
}

/** Throws if the address is in use or unavailable. */
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
      await within(graceMs, closed, () => server.closeAllConnections());
      await closed;
    },
  };
}

/** Why an address is unavailable, and how to fix it. */
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
