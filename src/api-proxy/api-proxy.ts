/**
 * The API server as seen by a preview's kluctl. kluctl gets no login, only an address of this proxy that is created for
 * its run and expires with it. The proxy adds the login, turns writes into dry runs, and masks values of Secrets.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { createBoundedMap } from "../kit/bounded-map.ts";
import type { Logger } from "../log.ts";
import type { ApiAccess, Identity, Run } from "../model.ts";
import { createDiscovery } from "./discovery.ts";
import { createGuesses, type Guesses } from "./guesses.ts";
import { toStatus } from "./refusal.ts";
import { createRefusedLists } from "./refused-lists.ts";
import { createSession, defaultLimits, type Session, type SessionLimits } from "./session.ts";

export interface ApiProxyDeps {
  /** Throws PreviewRefusedError if the run has no account to access the cluster with. */
  readonly login: (run: Pick<Identity, "impersonate" | "cluster">) => Promise<ApiAccess>;
  readonly limits?: Partial<SessionLimits> | undefined;
  /** Monotonic milliseconds. */
  readonly now?: (() => number) | undefined;
  readonly log: Logger;
}

export interface OpenedApi {
  /** The address for this run, without login and TLS. */
  readonly url: string;
  /** The text of a kubeconfig whose only context is "default". */
  readonly kubeconfig: string;
  readonly port: number;
  /** Values of Secrets that the run got masks for; they must not be shown anywhere. */
  maskedValues(): string[];
  /** Whether a request waits for its response. */
  isServing(): boolean;
  close(): Promise<void>;
}

export interface ApiProxy {
  open(run: Pick<Run, "impersonate" | "cluster" | "change">): Promise<OpenedApi>;
  /** Ends the requests of all runs. */
  close(): Promise<void>;
}

const mostConnections = 2_000;
/**
 * After an hour, an attempt of the same change has new guesses. A value may differ each time for honest reasons, such
 * as moves of what the project includes, and a push gives new guesses anyway.
 */
const guessesMs = 60 * 60_000;
/** Limits of all changes together. */
const mostChanges = 1_000;
const mostTexts = 200_000;

export function createApiProxy({ login, limits, now = () => performance.now(), log }: ApiProxyDeps): ApiProxy {
  const sessions = new Map<string, Session>();
  const discovery = createDiscovery(now);
  const refused = createRefusedLists(now);
  const guessesOf = createBoundedMap<{ readonly guesses: Guesses; readonly since: number }>({ entries: mostChanges });

  function findGuesses(change: string | undefined): Guesses {
    if (change === undefined) return createGuesses();
    const known = guessesOf.get(change);
    if (known !== undefined && now() - known.since < guessesMs) return known.guesses;
    const guesses = createGuesses();
    guessesOf.set(change, { guesses, since: now() });
    const texts = guessesOf.values().reduce((sum, each) => sum + each.guesses.count(), 0);
    if (texts > mostTexts) guessesOf.clear();
    return guesses;
  }

  /**
   * The port stays the same for the lifetime of the process: kluctl caches what it knows of a cluster by host and port.
   */
  let listening: Promise<{ server: Server; port: number }> | undefined;

  async function listen() {
    const server = createServer({ requestTimeout: 120_000, headersTimeout: 10_000, keepAliveTimeout: 0 });
    server.maxConnections = mostConnections;
    server.on("request", (req, res) => {
      const [path = "", rest] = split(req.url ?? "");
      // Only the address is accepted as host, so that no DNS name that resolves to it works. The port may differ if a
      // runner forwards it.
      const isMeant = /^127\.0\.0\.1:\d+$/.test(req.headers.host ?? "");
      const session = isMeant && rest !== undefined ? sessions.get(path) : undefined;
      if (session !== undefined) {
        void session.handle(req, res, rest as string);
        return;
      }
      req.resume();
      res.writeHead(404, { "Content-Type": "application/json", Connection: "close" });
      res.end(JSON.stringify(toStatus(404, "unknown preview")));
    });
    // kluctl's comparison needs neither, and both would bypass the rules below.
    const hangUp = (_: unknown, socket: Duplex) => void socket.destroy();
    server.on("upgrade", hangUp);
    server.on("connect", hangUp);
    server.on("clientError", (_, socket: Socket) => void socket.destroy());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return { server, port: (server.address() as AddressInfo).port };
  }

  return {
    async open(run) {
      const access = await login(run);
      listening ??= listen();
      listening.catch(() => (listening = undefined));
      const { port } = await listening;
      const path = randomBytes(32).toString("base64url");
      const limited = { ...defaultLimits, ...limits };
      const session = createSession({
        access,
        discovery,
        refused,
        guesses: findGuesses(run.change),
        limits: limited,
        now,
        log,
      });
      sessions.set(path, session);
      const url = `http://127.0.0.1:${port}/${path}`;
      return {
        url,
        kubeconfig: toKubeconfig(url),
        port,
        maskedValues: () => session.maskedValues(),
        isServing: () => session.isServing(),
        async close() {
          sessions.delete(path);
          session.close();
        },
      };
    },
    async close() {
      for (const session of sessions.values()) session.close();
      sessions.clear();
      const { server } = (await listening) ?? {};
      if (server === undefined) return;
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Splits `/path/rest` into `path` and `/rest`. */
function split(url: string): [string, string] | [] {
  const end = url.indexOf("/", 1);
  return url.startsWith("/") && end !== -1 ? [url.slice(1, end), url.slice(end)] : [];
}

function toKubeconfig(server: string): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "default",
    contexts: [{ name: "default", context: { cluster: "default", user: "default" } }],
    clusters: [{ name: "default", cluster: { server } }],
    users: [{ name: "default", user: {} }],
  });
}
