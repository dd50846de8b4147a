/** The real `towline serve`, as a process of its own, and what can be learned about it from outside. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import { join, resolve } from "node:path";
import { cacheDir } from "../cache.ts";
import { freePort } from "../parts/port.ts";
import { previewAccount } from "../parts/preview-account.ts";
import { startProcess } from "../parts/process.ts";
import { findCommand } from "./usage.ts";

export interface TowlineOptions {
  /** Names its directory, its keys in Redis and its log. */
  readonly name: string;
  readonly stateDir: string;
  readonly kubeconfig: string;
  readonly redisUrl: string;
  readonly kluctl: string;
  /** The only one whose KluctlDeployments it looks at. */
  readonly namespace: string;
  readonly concurrency: number;
  /** As the image runs it, compiled; the sources when absent. */
  readonly program?: string | undefined;
  /** Without it the git host is told nothing. With it pull requests are previewed, as the account of their namespace. */
  readonly forge?: ForgeLogin | undefined;
  /** Of previews; `required` when absent. */
  readonly isolation?: Isolation | undefined;
  /** Without it there is no page. */
  readonly pageToken?: string | undefined;
  /** What its keys in Redis begin with: servers that share it share their work. `name` when absent. */
  readonly prefix?: string | undefined;
  /** How often it asks git by itself. Nothing is lost mostly, so that it would only blur the figures: `1h` when absent. */
  readonly sweep?: string | undefined;
  /** `0s`: no loop is left out. */
  readonly fullInterval?: string | undefined;
  /** The check behind one in so many skips is run all the same; none, if left out. */
  readonly auditSkips?: number | undefined;
  /** Where it writes a CPU profile when it ends, if anywhere. */
  readonly profile?: string | undefined;
  /** Whether kluctl's renderers are kept warm. */
  readonly warm?: "on" | "off" | undefined;
}

export type Isolation = "off" | "required";

export interface ForgeLogin {
  readonly apiUrl: string;
  readonly token: string;
}

export interface LogLine {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** One process that the server ran. */
export interface Ran {
  readonly from: number;
  readonly to: number;
  readonly args: readonly string[];
}

export interface Towline {
  readonly pid: number;
  /** Where its page is, if it has one. */
  readonly pageUrl: string;
  readonly webhook: { readonly url: string; readonly secret: string };
  metrics(): Promise<Metrics>;
  /** How long it takes to answer, and how much it is. */
  scrape(): Promise<{ readonly ms: number; readonly bytes: number }>;
  /** All that it logged so far. */
  lines(): Promise<LogLine[]>;
  processes(): Promise<Ran[]>;
  stop(): Promise<void>;
}

/** Sample (`name{labels}`) → value, as Prometheus would read it. */
export type Metrics = ReadonlyMap<string, number>;

/** On a busy machine, beside three others. */
const startWithinMs = 180_000;
const root = join(import.meta.dirname, "../..");
/** What Node needs to run TypeScript is tens of megabytes, which would be counted with the server. */
const recorder = stripTypeScriptTypes(readFileSync(new URL("./record-processes.ts", import.meta.url), "utf8"));

/** Resolves when the server says that it is ready. */
export async function startTowline(options: TowlineOptions): Promise<Towline> {
  const { name, stateDir, kubeconfig, redisUrl, kluctl, namespace, concurrency, forge, pageToken } = options;
  const program = options.program ?? join(root, "src/cli.ts");
  const [port, adminPort, pagePort] = [await freePort(), await freePort(), await freePort()];
  const secret = randomBytes(24).toString("hex");
  const config = {
    forges: [{ id: "gitea", kind: "gitea", webhookSecrets: [secret], ...forge }],
    webhooks: { host: "127.0.0.1", port },
    admin: { host: "127.0.0.1", port: adminPort },
    ...(pageToken && { ui: { host: "127.0.0.1", port: pagePort, token: pageToken } }),
    log: { format: "json" },
    preview: {
      enabled: forge !== undefined,
      isolation: options.isolation ?? "required",
      serviceAccountName: previewAccount,
    },
    dataDir: join(stateDir, name),
    redis: { url: redisUrl, prefix: options.prefix ?? name },
    kubernetes: { kubeconfig, namespaces: [namespace] },
    kluctl: { path: kluctl, cacheDir: join(cacheDir(), "kluctl"), warm: options.warm ?? "on" },
    concurrency,
    sweep: {
      interval: options.sweep ?? "1h",
      fullInterval: options.fullInterval ?? "1h",
      auditSkips: options.auditSkips ?? 0,
    },
  };
  const file = join(stateDir, `${name}.json`);
  await writeFile(file, JSON.stringify(config), { mode: 0o600 });

  const profiling = options.profile ? ["--cpu-prof", `--cpu-prof-dir=${resolve(options.profile)}`] : [];
  const logFile = join(stateDir, "logs", `${name}.log`);
  const processLog = join(stateDir, "logs", `${name}-processes.log`);
  await writeFile(processLog, "");
  const recorderFile = join(stateDir, "record-processes.mjs");
  await writeFile(recorderFile, recorder);
  const server = await startProcess({
    name,
    command: process.execPath,
    args: [...profiling, "--import", recorderFile, program, "serve", "--config", file],
    logFile,
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], BENCH_PROCESS_LOG: processLog },
    cwd: root,
  });
  const admin = `http://127.0.0.1:${adminPort}`;
  const read = async (path: string) => {
    try {
      return await (await fetch(`${admin}${path}`, { headers: closeConnection })).text();
    } catch (error) {
      throw new Error(`${name} did not answer ${path}`, { cause: error });
    }
  };
  const stop = () => server.stop(30_000);
  try {
    const isReady = async () => (await fetch(`${admin}/readyz`, { signal: AbortSignal.timeout(2_000) })).ok;
    await server.ready(isReady, startWithinMs);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    pid: findCommand(server.pid, process.execPath),
    pageUrl: `http://127.0.0.1:${pagePort}`,
    webhook: { url: `http://127.0.0.1:${port}/webhooks/gitea`, secret },
    async scrape() {
      const from = performance.now();
      const text = await read("/metrics");
      return { ms: performance.now() - from, bytes: Buffer.byteLength(text) };
    },
    metrics: async () => parseMetrics(await read("/metrics")),
    lines: async () => parseLines<{ time: string; msg: string }>(await readFile(logFile, "utf8")).map(toLogLine),
    processes: async () => parseLines<Ran>(await readFile(processLog, "utf8")),
    stop,
  };
}

/** The sample that counts loops in which nothing was done, because nothing can have changed. */
export const leftOutLoops = 'towline_interval_loops_total{done="skipped",doubt=""}';

/** On a connection of its own: one that was kept may just have been closed by the server, which nobody here would try again. */
export const closeConnection = { connection: "close" };

/** By how much a sample grew; one that is not there yet is 0. */
export function growth(before: Metrics, after: Metrics, sample: string): number {
  return (after.get(sample) ?? 0) - (before.get(sample) ?? 0);
}

function parseMetrics(text: string): Metrics {
  const samples = text.split("\n").flatMap((line): [string, number][] => {
    const [, sample, value] = /^([^#\s]\S*) (\S+)$/.exec(line) ?? [];
    return sample === undefined ? [] : [[sample, Number(value)]];
  });
  return new Map(samples);
}

function toLogLine(line: { time: string; msg: string }): LogLine {
  return { ...line, at: Date.parse(line.time) };
}

/** The last line may be half written, and Node may have warned. */
function parseLines<T>(text: string): T[] {
  return text.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line) as T];
    } catch {
      return [];
    }
  });
}
