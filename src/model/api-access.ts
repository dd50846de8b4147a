/** Access to the API server of a cluster. */
import type { IncomingMessage } from "node:http";

/** A request to an API server. */
export interface ApiExchange {
  readonly method: string;
  /** Path and query, starting at the server's root. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: Buffer | undefined;
  readonly signal: AbortSignal;
}

/** Access to an API server as one account. Requests carry the login; callers never see it. */
export interface ApiAccess {
  /** Equal for the same API server. */
  readonly cluster: string;
  /** Equal for the same login to the same API server. */
  readonly account: string;
  /** Resolves once the response headers have arrived; the body has yet to be read. */
  send(exchange: ApiExchange): Promise<IncomingMessage>;
  /** Call this if the login was rejected: the next request uses a new one. */
  renewLogin(): void;
  /** Call this when it is no longer needed. */
  release(): void;
}
