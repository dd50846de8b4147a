/** One HTTP exchange with the API server, over kept-alive connections and with rotating logins. */
import { createHash } from "node:crypto";
import http from "node:http";
import https from "node:https";
import type { ClusterAccess } from "./cluster-access.ts";

export interface Exchange {
  readonly method: string;
  /** Absolute, including the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The user to impersonate. */
  readonly as?: string | undefined;
  /** That user's groups. */
  readonly asGroups?: readonly string[] | undefined;
  readonly body?: string | Buffer | undefined;
  readonly signal: AbortSignal;
}

export interface Transport {
  /** Resolves once the response headers have arrived; the caller reads the body. */
  send(exchange: Exchange): Promise<http.IncomingMessage>;
  /** Makes the next exchange read certificates and tokens again. */
  renewLogin(): void;
  close(): void;
}

interface Login {
  readonly headers: http.OutgoingHttpHeaders;
  readonly agent: http.Agent;
  readonly readAt: number;
}

/** client-go reads rotating tokens once a minute; twice as often costs nothing. */
const loginMaxAgeMs = 30_000;

export function createTransport({ cluster, applyTo }: ClusterAccess, lookup?: http.AgentOptions["lookup"]): Transport {
  const base = cluster.server.replace(/\/+$/, "");
  const { request } = base.startsWith("https:") ? https : http;
  let login: Promise<Login> | undefined;
  let agent: http.Agent | undefined;
  let agentMaterial = "";

  async function readLogin(): Promise<Login> {
    const options: https.RequestOptions = {};
    await applyTo(options);
    const headers: http.OutgoingHttpHeaders = { ...(options.headers as http.OutgoingHttpHeaders | undefined) };
    if (options.auth) headers["Authorization"] = `Basic ${Buffer.from(options.auth).toString("base64")}`;
    const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername } = options;
    const tls = { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername };
    const material = createHash("sha256").update(JSON.stringify(tls)).digest("hex");
    if (agent === undefined || material !== agentMaterial) {
      agentMaterial = material;
      if (cluster.proxyUrl)
        agent = options.agent as http.Agent; // client-node supports all kinds of proxies
      else
        agent = base.startsWith("https:")
          ? new https.Agent({ ...defined({ ...tls, lookup }), keepAlive: true })
          : new http.Agent({ ...defined({ lookup }), keepAlive: true });
    }
    return { headers, agent, readAt: performance.now() };
  }

  async function currentLogin(): Promise<Login> {
    const known = await login;
    if (known === undefined || performance.now() - known.readAt > loginMaxAgeMs) {
      login = readLogin();
      login.catch(() => (login = undefined));
    }
    return await (login as Promise<Login>);
  }

  return {
    async send({ method, path, headers, as, asGroups = [], body, signal }) {
      // An empty name would disable impersonation: the request would be made with all rights of the server.
      if (as?.trim() === "" || (as === undefined && asGroups.length > 0))
        throw new Error("The user to impersonate has no name.");
      const impersonating = {
        ...(as && { "Impersonate-User": as }),
        ...(asGroups.length > 0 && { "Impersonate-Group": [...asGroups] }),
      };
      const { headers: auth, agent: connections } = await currentLogin();
      return await new Promise((resolve, reject) => {
        const sent = request(`${base}${path}`, {
          method,
          // The API server uses it to name the client in its audit log, and in managed fields without a manager.
          headers: { "User-Agent": "towline", ...headers, ...auth, ...impersonating },
          agent: connections,
          signal,
        });
        sent.once("response", resolve);
        sent.once("error", reject);
        sent.end(body);
      });
    },
    renewLogin() {
      login = undefined;
    },
    close() {
      agent?.destroy();
    },
  };
}

function defined<T extends object>(object: T): Partial<T> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined)) as Partial<T>;
}
