/** The real `towline serve`, as a process of its own, and what it says in its log. */
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { randomBytes } from "node:crypto";
import { cacheDir } from "../cache.ts";
import { freePort } from "../parts/port.ts";
import { startProcess } from "../parts/process.ts";
import type { Addresses } from "../world.ts";

export interface LogLine {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

export interface DemoServer {
  /** Where the git host sends its deliveries, and the secret it signs them with. */
  readonly webhook: { readonly url: string; readonly secret: string };
  /** Port of health and metrics. */
  readonly adminUrl: string;
  /** Where a browser gets the page, and what it asks for there. */
  readonly page: { readonly url: string; readonly token: string };
  /** With it, the command line knows the server's cluster, Redis and forge. */
  readonly configFile: string;
  readonly logFile: string;
  /** Resolves with the reason when the server is gone. */
  readonly exited: Promise<string>;
  /** Calls back for each line of the log from now on; returns how to stop. */
  onLine(listener: (line: LogLine) => void): () => void;
  stop(): Promise<void>;
}

export interface ServerOptions {
  readonly stateDir: string;
  readonly kubeconfig: string;
  readonly redis: Addresses["redis"];
  /** The login is the server's own, for comments and statuses. */
  readonly gitea: Addresses["gitea"];
  readonly kluctl: string;
  /** The only one whose KluctlDeployments it looks at. */
  readonly namespace: string;
}

const root = join(import.meta.dirname, "../..");

/** Resolves when the server says that it is ready. */
export async function startServer(options: ServerOptions): Promise<DemoServer> {
  const { stateDir, kubeconfig, redis, gitea, kluctl, namespace } = options;
  const [port, adminPort, pagePort] = [await freePort(), await freePort(), await freePort()];
  const secret = randomBytes(24).toString("hex");
  const token = randomBytes(18).toString("base64url");
  const config = {
    forges: [
      { id: "gitea", kind: "gitea", apiUrl: `${gitea.url}/api/v1`, webhookSecrets: [secret], token: gitea.token },
    ],
    webhooks: { host: "127.0.0.1", port },
    admin: { host: "127.0.0.1", port: adminPort },
    // Whoever looks may also try the buttons: nobody but the server has a login to this cluster.
    ui: { host: "127.0.0.1", port: pagePort, token, tokenRole: "operator", actAs: "server" },
    log: { format: "json" },
    // Nobody but whoever runs the demo can push to its Gitea: previews are confined as far as this machine's kernel can,
    // and no account has to be made for them in a cluster that is somebody's.
    preview: { enabled: true, isolation: "auto" },
    clusterName: "demo",
    dataDir: join(stateDir, "server"),
    redis: { url: redis.url },
    kubernetes: { kubeconfig, namespaces: [namespace] },
    kluctl: { path: kluctl, cacheDir: join(cacheDir(), "kluctl") }, // filled once, not once for each run
  };
  const file = join(stateDir, "towline.yaml");
  await writeFile(file, JSON.stringify(config, undefined, 2), { mode: 0o600 });

  const logFile = join(stateDir, "logs", "towline.log");
  const args = [join(root, "src/cli.ts"), "serve", "--config", file];
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"] };
  const server = await startProcess({ name: "towline", command: process.execPath, args, logFile, env, cwd: root });
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const tail = await followLog(logFile);
  const stop = async () => {
    await server.stop(30_000);
    await tail.stop();
  };
  try {
    await server.ready(async () => (await fetch(`${adminUrl}/readyz`, { signal: AbortSignal.timeout(2_000) })).ok);
  } catch (error) {
    await stop();
    throw error;
  }
  const page = { url: `http://127.0.0.1:${pagePort}`, token };
  const webhook = { url: `http://127.0.0.1:${port}/webhooks/gitea`, secret };
  const exited = server.exited.then(({ reason }) => reason);
  return { webhook, adminUrl, page, configFile: file, logFile, exited, onLine: tail.onLine, stop };
}

/** Reads what is appended to the file. Asking often is enough: each line says itself when it was written. */
async function followLog(path: string) {
  const listeners = new Set<(line: LogLine) => void>();
  const file = await open(path, "r");
  const chunk = Buffer.alloc(64 * 1024);
  let rest = "";
  let reading = Promise.resolve();

  async function readOn(): Promise<void> {
    for (;;) {
      const { bytesRead } = await file.read(chunk, 0, chunk.length);
      if (bytesRead === 0) return;
      const lines = (rest + chunk.toString("utf8", 0, bytesRead)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines.map(parseLine)) if (line) for (const listener of listeners) listener(line);
    }
  }

  const timer = setInterval(() => {
    reading = reading.then(readOn);
  }, 30);
  return {
    onLine(listener: (line: LogLine) => void) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    async stop() {
      clearInterval(timer);
      await reading;
      await file.close();
    },
  };
}

function parseLine(text: string): LogLine | undefined {
  try {
    const line = JSON.parse(text) as { time: string; msg: string };
    return { ...line, at: Date.parse(line.time) };
  } catch {
    return undefined; // not ours: a warning of Node's, say
  }
}
