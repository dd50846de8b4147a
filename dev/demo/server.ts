/** The real `towline serve` as a separate process, and its log. */
import { open, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
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
  /** The URL and the signing secret of the git host's webhook. */
  readonly webhook: { readonly url: string; readonly secret: string };
  /** URL of the port with health and metrics. */
  readonly adminUrl: string;
  /** URL of the page, and the token that it asks for. */
  readonly page: { readonly url: string; readonly token: string };
  /** Lets the command line find the server's cluster, Redis and forge. */
  readonly configFile: string;
  readonly logFile: string;
  /** Resolves with the reason when the server has exited. */
  readonly exited: Promise<string>;
  /** Calls back for each further line of the log; returns a function that stops this. */
  onLine(listener: (line: LogLine) => void): () => void;
  stop(): Promise<void>;
}

export interface ServerOptions {
  readonly stateDir: string;
  /** Distinguishes its log from that of an earlier server. */
  readonly name?: string | undefined;
  readonly kubeconfig: string;
  readonly redis: Addresses["redis"];
  /** The git host; with the token of the server's own account if it has comments and statuses. */
  readonly forge: { readonly url: string; readonly token?: string | undefined };
  readonly kluctl: string;
  /** The only namespace whose KluctlDeployments it reconciles. */
  readonly namespace: string;
  /** Otherwise the server learns of everything by asking the git host. */
  readonly webhooks: boolean;
}

/** The `towline` command: compiled if this file is. */
export const cli = join(import.meta.dirname, `../../src/cli${extname(import.meta.filename)}`);

/** Resolves when the server reports that it is ready. */
export async function startServer(options: ServerOptions): Promise<DemoServer> {
  const { stateDir, name = "towline", kubeconfig, redis, forge, kluctl, namespace, webhooks } = options;
  const [port, adminPort, pagePort] = [await freePort(), await freePort(), await freePort()];
  const secret = randomBytes(24).toString("hex");
  const token = randomBytes(18).toString("base64url");
  const config = {
    forges: [
      {
        ...{ id: "gitea", kind: "gitea", apiUrl: `${forge.url}/api/v1`, token: forge.token },
        ...(webhooks ? { webhookSecrets: [secret] } : { webhooks }),
      },
    ],
    ...(webhooks && {
      webhooks: { host: "127.0.0.1", port },
      // The demo shows what webhooks do: on a busy machine, the sweep may find a push before Gitea has reported it.
      sweep: { interval: "10m", adaptive: false },
    }),
    admin: { host: "127.0.0.1", port: adminPort },
    // Allows the page's buttons to be tried: only the server has a login to this cluster.
    page: { host: "127.0.0.1", port: pagePort, token, tokenRole: "operator", actAs: "server" },
    log: { format: "json" },
    // Only the user of the demo can push to its Gitea: previews are isolated as far as this machine's kernel supports
    // it, and no account for them has to be created in the user's cluster.
    preview: { enabled: forge.token !== undefined, isolation: "auto" },
    clusterName: "demo",
    dataDir: join(stateDir, "server"),
    redis: { url: redis.url },
    kubernetes: { kubeconfig, namespaces: [namespace] },
    kluctl: { path: kluctl, cacheDir: join(cacheDir(), "kluctl") }, // shared by all runs, so that it is filled only once
  };
  const file = join(stateDir, "towline.yaml");
  await writeFile(file, JSON.stringify(config, undefined, 2), { mode: 0o600 });

  const logFile = join(stateDir, "logs", `${name}.log`);
  const args = [cli, "serve", "--config", file];
  const env = { PATH: process.env["PATH"], HOME: process.env["HOME"] };
  const server = await startProcess({ name, command: process.execPath, args, logFile, env, cwd: stateDir });
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

/**
 * Follows what is appended to the file. Polling is sufficient, because each line contains the time at which it was
 * written.
 */
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
    return undefined; // not a line of ours, but for example a warning of Node
  }
}
