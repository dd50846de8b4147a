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

/** Throws if the address is in use, or cannot be had. */
export async function startListener(app: RequestListener, address: { host: string; port: number }): Promise<Listener> {
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
    server.once("error", reject);
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
