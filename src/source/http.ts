/** One HTTP request to a server that a deployment names: where it may lead is judged, and it cannot be silent for ever. */
import http from "node:http";
import https from "node:https";
import type { SecureContextOptions } from "node:tls";
import { getCACertificates } from "node:tls";
import { type Lookup, toNodeLookup } from "../address.ts";
import { SourceError } from "../errors.ts";
import { resolveHost } from "./address.ts";

export interface HttpRequest {
  readonly url: URL;
  readonly method: "GET" | "HEAD" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  readonly signal: AbortSignal;
}

/** What a connection is made with. Belongs to one conversation, and is closed when that is over. */
export interface Connections {
  /** Resolves once the answer's headers are there; the body is still to be read. Throws node's own errors. */
  send(request: HttpRequest): Promise<http.IncomingMessage>;
  close(): void;
}

export interface ConnectionOptions {
  readonly lookup: Lookup;
  /** Where proxies are taken from. */
  readonly env: NodeJS.ProcessEnv;
  /** A server that says nothing for so long is given up. */
  readonly silenceMs: number;
  /** PEM, besides what is trusted anyway. */
  readonly ca?: string | undefined;
  /** PEM: shown to this `host[:port]` and to no other. */
  readonly client?: { readonly host: string; readonly cert: string; readonly key: string } | undefined;
  readonly rejectUnauthorized: boolean;
}

const proxyNames = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY"];

/** The server said nothing for so long, or went on for too long. */
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
      // A name is judged when it is resolved, whoever asks for it; an address is not resolved.
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

/** The whole body, if it is no longer than that. */
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
