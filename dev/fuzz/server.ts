/** The real `towline serve` as the target of mutated deliveries, with deployments that some of them affect. */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createKubeClient } from "../../src/kube/client.ts";
import { cacheDir } from "../cache.ts";
import { findCommand, ownBytes } from "../bench/usage.ts";
import { freePort } from "../parts/port.ts";
import { startProcess } from "../parts/process.ts";
import { type ForgeKind, secrets } from "./corpus.ts";

export interface ServerOptions {
  readonly dir: string;
  readonly kubeconfig: string;
  readonly redisUrl: string;
  readonly kluctl: string;
  /** Created for the run and removed at the end. Also the prefix of the server's keys in Redis. */
  readonly namespace: string;
  /** Repositories that a suspended deployment uses. */
  readonly repositories: readonly string[];
}

export interface FuzzedServer {
  readonly port: number;
  /** Resident memory of the server without its children. */
  bytes(): number;
  /** Why the server is not the process that was started, or does not report that it is ready. */
  findTrouble(): Promise<string | undefined>;
  /** Lines of its log that report a fault of the server itself. */
  faults(): readonly string[];
  stop(): Promise<void>;
}

const kinds: readonly ForgeKind[] = ["github", "gitlab", "gitea"];
const root = join(import.meta.dirname, "../..");
const startWithinMs = 180_000;
const errorLevel = 50; // pino's level
/** Longer than any run: only deliveries must trigger work. */
const never = "24h";

export async function startServer(options: ServerOptions): Promise<FuzzedServer> {
  const { dir, kubeconfig, redisUrl, kluctl, namespace, repositories } = options;
  const removeNamespace = await createDeployments(kubeconfig, namespace, repositories);
  const [port, adminPort] = [await freePort(), await freePort()];
  const config = {
    forges: kinds.map((kind) => ({ id: kind, kind, webhookSecrets: [secrets[kind]] })),
    webhooks: { host: "127.0.0.1", port },
    admin: { host: "127.0.0.1", port: adminPort },
    log: { format: "json" },
    dataDir: join(dir, "data"),
    redis: { url: redisUrl, prefix: namespace },
    kubernetes: { kubeconfig, namespaces: [namespace] },
    kluctl: { path: kluctl, cacheDir: join(cacheDir(), "kluctl") },
    sweep: { interval: never, adaptive: false },
  };
  const [file, logFile] = [join(dir, "config.json"), join(dir, "server.log")];
  await writeFile(file, JSON.stringify(config), { mode: 0o600 });
  const server = await startProcess({
    name: "towline",
    command: process.execPath,
    args: [join(root, "src/cli.ts"), "serve", "--config", file],
    logFile,
    env: { PATH: process.env["PATH"], HOME: dir, NODE_COMPILE_CACHE: join(cacheDir(), "compiled") },
    cwd: root,
  });
  const stop = async () => {
    await server.stop(30_000);
    await removeNamespace();
  };
  const readyz = `http://127.0.0.1:${adminPort}/readyz`;
  const isReady = async () => (await fetch(readyz, { signal: AbortSignal.timeout(10_000) })).ok;
  try {
    await server.ready(isReady, startWithinMs);
  } catch (error) {
    await stop();
    throw error;
  }
  const pid = findCommand(server.pid, process.execPath);
  let ended: string | undefined;
  void server.exited.then(({ reason }) => (ended = reason));
  return {
    port,
    bytes: () => ownBytes(pid),
    async findTrouble() {
      if (ended !== undefined) return `the server ended: ${ended}`;
      return (await isReady().catch(() => false)) ? undefined : "the server is not ready";
    },
    faults: () =>
      readFileSync(logFile, "utf8")
        .split("\n")
        .filter((line) => line !== "" && isFault(line)),
    stop,
  };
}

/** Lines that are not JSON are written by Node itself when it ends or warns. */
function isFault(line: string): boolean {
  try {
    return (JSON.parse(line) as { level: number }).level >= errorLevel;
  } catch {
    return !/ExperimentalWarning|--trace-warnings/.test(line);
  }
}

async function createDeployments(kubeconfig: string, namespace: string, repositories: readonly string[]) {
  const client = createKubeClient({ kubeconfig });
  const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } };
  await client.request({ method: "POST", path: "/api/v1/namespaces", body });
  for (const [i, url] of repositories.entries()) {
    await client.request({
      method: "POST",
      path: `/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`,
      body: {
        apiVersion: "gitops.kluctl.io/v1beta1",
        kind: "KluctlDeployment",
        metadata: { name: `shop-${i}`, namespace },
        spec: { interval: never, suspend: true, context: "default", source: { git: { url, path: "." } } },
      },
    });
  }
  return async () => {
    await client.request({ method: "DELETE", path: `/api/v1/namespaces/${namespace}` });
    client.close();
  };
}
