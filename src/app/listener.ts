/** An HTTP server that can be stopped without cutting anybody off. */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";

export interface Listener {
  /** The real one, when 0 was asked for. */
  readonly port: number;
  /** Takes no new connections, lets requests finish for at most `graceMs`, then closes what is left. */
  stop(graceMs: number): Promise<void>;
}

/** A sender gets this long for its headers, and for the whole request: slow ones do not hold connections for ever. */
const headersMs = 10_000;
const requestMs = 60_000;
/** How often Node looks for those whose time is up; by itself only twice a minute. */
const lookEveryMs = 5_000;

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
export async function startListener(app: RequestListener, address: Address): Promise<Listener> {
  const server = createServer(
    {
      headersTimeout: headersMs,
      requestTimeout: requestMs,
      connectionsCheckingInterval: lookEveryMs,
      keepAliveTimeout: 5_000,
    },
    app,
  );
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(new Error(explainAddress(error, address), { cause: error })));
    server.listen(address.port, address.host, resolve);
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
    EACCES: `the server may not use this port; choose one above 1023 with ${portOf}`,
    EADDRNOTAVAIL: `this machine has no such address; choose another with ${hostOf}`,
    ENOTFOUND: `this host name is not known; choose another with ${hostOf}`,
  };
  return `Cannot listen for ${purpose} on ${host}:${port}: ${whys[error.code ?? ""] ?? error.message}.`;
}
