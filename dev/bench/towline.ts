/** The real `towline serve` as a separate process, and what can be observed of it from outside. */
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
  /** Used for its directory, its keys in Redis and its log. */
  readonly name: string;
  readonly stateDir: string;
  readonly kubeconfig: string;
  readonly redisUrl: string;
  readonly kluctl: string;
  /** The only namespace that it watches. */
  readonly namespace: string;
  /** The server's own default if absent. */
  readonly concurrency?: number | undefined;
  /** Makes Flux fetch what is pushed. */
  readonly fluxTrigger?: boolean | undefined;
  /** Path of the program compiled as in the image; the sources if absent. */
  readonly program?: string | undefined;
  /** Previews pull requests as the account of their namespace; without it nothing is reported to the git host. */
  readonly forge?: ForgeLogin | undefined;
  /** Isolation of previews; `required` if absent. */
  readonly isolation?: Isolation | undefined;
  /** Token of the page; without it there is no page. */
  readonly pageToken?: string | undefined;
  /** Prefix of its keys in Redis: servers with the same prefix share their work. `name` if absent. */
  readonly prefix?: string | undefined;
  /** Interval of sweeps. Usually no event is lost, so sweeps would only blur the figures: `1h` if absent. */
  readonly sweep?: string | undefined;
  /** `0s`: no reconciliation is skipped. */
  readonly fullInterval?: string | undefined;
  /** Audits one in so many skips by running the skipped check; no audits if absent. */
  readonly auditSkips?: number | undefined;
  /** Directory for a CPU profile written when it stops, if any. */
  readonly profile?: string | undefined;
  /** Address of a webhook that is notified. */
  readonly notified?: string | undefined;
  /** Keeps kluctl's renderers warm. */
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

/** A process that the server ran. */
export interface Ran {
  readonly from: number;
  readonly to: number;
  readonly args: readonly string[];
}

export interface Towline {
  readonly pid: number;
  /** URL of its page, if it has one. */
  readonly pageUrl: string;
  readonly webhook: { readonly url: string; readonly secret: string };
  metrics(): Promise<Metrics>;
  /** Duration and size of one scrape. */
  scrape(): Promise<{ readonly ms: number; readonly bytes: number }>;
  /** All log lines so far. */
  lines(): Promise<LogLine[]>;
  processes(): Promise<Ran[]>;
  stop(): Promise<void>;
}

/** Sample (`name{labels}`) → value, as Prometheus reads it. */
export type Metrics = ReadonlyMap<string, number>;

/** Sufficient on a busy machine, beside three other servers. */
const startWithinMs = 180_000;
const root = join(import.meta.dirname, "../..");
/**
 * Types are stripped here: Node's support for TypeScript takes tens of megabytes, which would count as the server's
 * memory.
 */
const recorder = stripTypeScriptTypes(readFileSync(new URL("./record-processes.ts", import.meta.url), "utf8"));

/** Resolves when the server reports that it is ready. */
export async function startTowline(options: TowlineOptions): Promise<Towline> {
  const { name, stateDir, kubeconfig, redisUrl, kluctl, namespace, concurrency, forge, pageToken } = options;
  const program = options.program ?? join(root, "src/cli.ts");
  const [port, adminPort, pagePort] = [await freePort(), await freePort(), await freePort()];
  const secret = randomBytes(24).toString("hex");
  const config = {
    forges: [{ id: "gitea", kind: "gitea", webhookSecrets: [secret], ...forge }],
    webhooks: { host: "127.0.0.1", port },
    admin: { host: "127.0.0.1", port: adminPort },
    ...(pageToken && { page: { host: "127.0.0.1", port: pagePort, token: pageToken } }),
    log: { format: "json" },
    preview: {
      enabled: forge !== undefined,
      isolation: options.isolation ?? "required",
      serviceAccountName: previewAccount,
    },
    dataDir: join(stateDir, name),
    redis: { url: redisUrl, prefix: options.prefix ?? name },
    kubernetes: { kubeconfig, namespaces: [namespace] },
    ...(options.fluxTrigger && { flux: { trigger: true } }),
    kluctl: { path: kluctl, cacheDir: join(cacheDir(), "kluctl"), warm: options.warm ?? "on" },
    concurrency,
    ...(options.notified && {
      controllerNamespace: namespace,
      notifications: { targets: [{ id: name, kind: "webhook", url: options.notified }] },
    }),
    sweep: {
      interval: options.sweep ?? "1h",
      adaptive: false,
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

/** The sample that counts skipped reconciliations. */
export const leftOutLoops = 'towline_interval_checks_total{result="skipped",reason=""}';

/** Forces a new connection: the server may just have closed a kept-alive one, and the bench does not retry. */
export const closeConnection = { connection: "close" };

/** By how much a sample grew; a missing sample counts as 0. */
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

/** The last line may be incomplete, and Node may have printed warnings. */
function parseLines<T>(text: string): T[] {
  return text.split("\n").flatMap((line) => {
    try {
      return [JSON.parse(line) as T];
    } catch {
      return [];
    }
  });
}
