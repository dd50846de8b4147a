/**
 * HTTP requests to servers named in deployments: their addresses are checked, and a server that stays silent times out.
 */
import http from "node:http";
import https from "node:https";
import type { SecureContextOptions } from "node:tls";
import { getCACertificates } from "node:tls";
import { type Lookup, toNodeLookup } from "../kit/address.ts";
import { SourceError } from "../errors.ts";
import { resolveHost } from "./address.ts";

export interface HttpRequest {
  readonly url: URL;
  readonly method: "GET" | "HEAD" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

/** The connections of one conversation; closed when it is over. */
export interface Connections {
  /** Resolves once the response's headers are received; the body must still be read. Throws Node's own errors. */
  send(request: HttpRequest): Promise<http.IncomingMessage>;
  close(): void;
}

export interface ConnectionOptions {
  readonly lookup: Lookup;
  /** The environment that proxies are read from. */
  readonly env: NodeJS.ProcessEnv;
  /** Time without data after which a request is aborted. */
  readonly silenceMs: number;
  /** PEM, trusted in addition to the default authorities. */
  readonly ca?: string | undefined;
  /** Client certificate (PEM), presented only to this `host[:port]`. */
  readonly client?: { readonly host: string; readonly cert: string; readonly key: string } | undefined;
  readonly rejectUnauthorized: boolean;
}

const proxyNames = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"];

/** The server sent nothing for too long, or the conversation took too long. */
export class SilenceError extends Error {
  override name = "SilenceError";

  constructor() {
    super("the server does not respond in time");
  }
}

export function createConnections(options: ConnectionOptions): Connections {
  const proxyEnv = Object.fromEntries(proxyNames.map((name) => [name, options.env[name]]));
  const shared = { keepAlive: true, proxyEnv, lookup: toNodeLookup((host) => resolveHost(host, options.lookup)) };
  const tls: SecureContextOptions & { rejectUnauthorized: boolean } = {
    rejectUnauthorized: options.rejectUnauthorized,
    ...(options.ca && { ca: [...getCACertificates("default"), ...getCACertificates("system"), options.ca] }),
  };
  const { client } = options;
  const plain = new http.Agent(shared);
  const secure = new https.Agent({ ...shared, ...tls });
  const known = client ? new https.Agent({ ...shared, ...tls, cert: client.cert, key: client.key }) : secure;

  return {
    async send({ url, method, headers, body, signal }) {
      // Host names are checked when the agent resolves them. Addresses are not resolved, so they are checked here.
      await resolveHost(url.hostname, () => Promise.resolve([]));
      const { request } = url.protocol === "https:" ? https : http;
      const agent = url.protocol === "http:" ? plain : url.host === client?.host ? known : secure;
      return new Promise((resolve, reject) => {
        const sent = request(url, { method, headers: { ...headers }, agent, signal });
        sent.setTimeout(options.silenceMs, () => sent.destroy(new SilenceError()));
        sent.once("response", resolve);
        sent.once("error", reject);
        sent.end(body);
      });
    },
    close() {
      for (const agent of new Set<http.Agent>([plain, secure, known])) agent.destroy();
    },
  };
}

/** Reads the whole body; throws if it is longer than `maxBytes`. */
export async function readBody(answer: http.IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) {
      answer.destroy();
      throw new SourceError("refused", `the server's response is larger than ${maxBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
