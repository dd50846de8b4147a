/** One `towline serve` of an episode, as a process of its own, with its own way to everything it needs. */
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cacheDir } from "../cache.ts";
import { findCommand } from "../bench/usage.ts";
import { type FaultProxy, startFaultProxy } from "../parts/kube-fault-proxy.ts";
import { freePort } from "../parts/port.ts";
import { type RunningProcess, startProcess } from "../parts/process.ts";
import { findProcessesOf, type FoundProcess } from "../parts/processes.ts";
import { aShiftedClock } from "../parts/shifted-clock.ts";
import { startTcpProxy, type TcpProxy } from "../parts/tcp-proxy.ts";
import { type CommentEvent, type ForgeProxy, startForgeProxy } from "./forge-proxy.ts";
import type { EpisodeGitea } from "./git-host.ts";
import { createSmallDisk } from "./small-disk.ts";

export interface ReplicaOptions {
  readonly name: string;
  /** Of the episode. */
  readonly dir: string;
  readonly namespace: string;
  readonly kubeconfig: string;
  readonly redisSocket: string;
  readonly kluctl: string;
  readonly warm: boolean;
  readonly webhookSecret: string;
  /** The one whose server is run; with a second one, what it can be replaced by. */
  readonly versions: readonly Version[];
  /** Index of the one that it begins with. */
  readonly version: number;
  /** Between two looks at git. */
  readonly sweepMs: number;
  /** By how much its clock is ahead, milliseconds. */
  readonly clockMs: number;
  /** Where it is told of pull requests, and previews them. */
  readonly gitea?: EpisodeGitea | undefined;
  readonly onComment: (event: CommentEvent) => Promise<void>;
}

/** A checkout. */
export interface Version {
  readonly dir: string;
  /** It knows the setting. */
  readonly auditsSkips: boolean;
  /** It can confine previews, which the model of kluctl has no part in. */
  readonly confines: boolean;
}

export interface Replica {
  readonly name: string;
  readonly webhooksUrl: string;
  /** Its data, by which its processes are found. */
  readonly dataDir: string;
  readonly api: FaultProxy;
  readonly redis: TcpProxy;
  /** Where there are pull requests. */
  readonly forge?: ForgeProxy | undefined;
  isAlive(): boolean;
  /** Process ids that its Leases are held with, of all its lives. */
  readonly pids: readonly number[];
  start(): Promise<void>;
  /** Ends it as a rolling update does, and starts the next of its versions, or the same if there is one only. */
  roll(): Promise<void>;
  /** Index of the one that runs, or is started next. */
  version(): number;
  isReady(): Promise<boolean>;
  kill(signal: NodeJS.Signals): void;
  /** The small process that starts git and kluctl. */
  signalStarter(signal: NodeJS.Signals): void;
  setClock(ms: number): Promise<void>;
  /** Gives it the token that is good now. */
  writeToken(): Promise<void>;
  /** The disk that its data is on; nothing happens where it has none of its own. */
  fillDisk(on: boolean): Promise<void>;
  /** All network faults end. */
  heal(): Promise<void>;
  /** What it has started and is there still. */
  processes(): readonly FoundProcess[];
  /** Files and sockets that the server holds; `undefined` while it is dead. */
  descriptors(): number | undefined;
  logs(): readonly LogLine[];
  stop(): Promise<void>;
}

export interface LogLine {
  readonly msg: string;
  readonly level: number;
  readonly time: string;
  readonly [field: string]: unknown;
}

/** With it, what a webhook did not tell is found soon; without it, not before an episode is over. */
export const sweeps = { soon: 5_000, never: 24 * 3_600_000 };
/** For what a server that is told to end may take. */
const endsWithinMs = 20_000;
/** Long enough to be renewed on a machine that is busy with others. */
export const leaseMs = 12_000;

export async function createReplica(options: ReplicaOptions): Promise<Replica> {
  const { name, dir, namespace, kubeconfig, redisSocket, kluctl, warm, webhookSecret, versions } = options;
  const [api, redis] = [await startFaultProxy(kubeconfig), await startTcpProxy({ path: redisSocket })];
  const [port, adminPort] = [await freePort(), await freePort()];
  const clock = await aShiftedClock(dir, options.clockMs, `clock-${name}`);
  const dataDir = join(dir, name);
  const disk = await createSmallDisk(dataDir);
  const [kubeconfigFile, configFile] = [join(dir, `${name}.kubeconfig`), join(dir, `${name}.json`)];
  const logFile = join(dir, `${name}.log`);
  await writeFile(kubeconfigFile, api.kubeconfig);
  const { gitea, onComment } = options;
  const forge = gitea && (await startForgeProxy({ host: new URL(gitea.url), onComment }));
  const tokenFile = join(dir, `${name}.token`);
  const writeToken = async () => {
    if (gitea) await writeFile(tokenFile, gitea.token(), { mode: 0o600 });
  };
  await writeToken();
  const forgeLogin = forge && { apiUrl: `http://127.0.0.1:${forge.port}/api/v1`, tokenFile };
  const toConfig = ({ auditsSkips, confines }: Version) => ({
    forges: [{ id: "gitea", kind: "gitea", webhookSecrets: [webhookSecret], ...forgeLogin }],
    ...(forge && { preview: { enabled: true, interval: "30s", ...(confines && { isolation: "off" }) } }),
    webhooks: { host: "127.0.0.1", port },
    admin: { host: "127.0.0.1", port: adminPort },
    log: { format: "json", level: "debug" },
    dataDir,
    redis: { url: `redis://127.0.0.1:${redis.port}`, prefix: "chaos" },
    kubernetes: { kubeconfig: kubeconfigFile, namespaces: [namespace] },
    kluctl: { path: kluctl, ...(warm && { cacheDir: join(cacheDir(), "kluctl") }), warm: warm ? "on" : "off" },
    concurrency: 4,
    lease: { duration: `${leaseMs}ms` },
    git: { timeout: "10s" },
    shutdown: { drain: "5s" },
    sweep: { interval: `${options.sweepMs}ms`, ...(auditsSkips && { auditSkips: 1 }) },
  });
  const pids: number[] = [];
  const lives: RunningProcess[] = [];
  let running: RunningProcess | undefined;
  let apiIsOpen = true;
  let version = options.version;

  const node = () => {
    try {
      return running && findCommand(running.pid, process.execPath);
    } catch {
      return undefined; // it has just ended
    }
  };
  const replica: Replica = {
    name,
    webhooksUrl: `http://127.0.0.1:${port}/webhooks/gitea`,
    dataDir,
    redis,
    forge,
    api: {
      ...api,
      async close() {
        if (!apiIsOpen) return;
        apiIsOpen = false;
        await api.close();
      },
      async open() {
        if (apiIsOpen) return;
        apiIsOpen = true;
        await api.open();
      },
    },
    pids,
    isAlive: () => running !== undefined,
    async start() {
      if (running) return;
      const chosen = versions[version] as Version;
      await writeFile(configFile, JSON.stringify(toConfig(chosen)), { mode: 0o600 });
      const started = await startProcess({
        name,
        command: process.execPath,
        args: [join(chosen.dir, "src/cli.ts"), "serve", "--config", configFile],
        logFile,
        env: {
          PATH: process.env["PATH"],
          HOME: dir,
          CHAOS_REPLICA: dataDir, // by which whatever it starts is found
          NODE_COMPILE_CACHE: join(cacheDir(), "compiled"),
          ...clock.env,
        },
        cwd: chosen.dir,
        leavesChildren: true,
      });
      running = started;
      lives.push(started);
      void started.exited.then(() => {
        if (running === started) running = undefined;
      });
      await started.ready(async () => node() !== undefined);
      pids.push(node() ?? 0);
    },
    version: () => version,
    async roll() {
      const before = running;
      replica.kill("SIGTERM");
      const inTime = await Promise.race([before?.exited, sleep(endsWithinMs, "late", { ref: false })]);
      if (inTime === "late") replica.kill("SIGKILL"); // it is frozen, or waits for what is away
      if (running === before) running = undefined;
      version = (version + 1) % versions.length;
      await replica.start();
    },
    async isReady() {
      const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`, { signal: AbortSignal.timeout(3_000) });
      return response.ok;
    },
    kill(signal) {
      const pid = node();
      if (pid !== undefined) process.kill(pid, signal);
      if (signal === "SIGKILL") running = undefined;
    },
    signalStarter(signal) {
      const pid = node();
      const starter = findProcessesOf(dataDir, [pid]).find(({ command }) => command.includes("starter-process"));
      if (starter) signalIfThere(starter.pid, signal);
    },
    setClock: clock.set,
    writeToken,
    fillDisk: async (on) => disk?.fill(on),
    async heal() {
      for (const { pid } of findProcessesOf(dataDir)) signalIfThere(pid, "SIGCONT");
      await disk?.fill(false);
      forge?.heal();
      await writeToken();
      redis.heal();
      api.blackHole(false);
      await replica.api.open();
    },
    processes: () => findProcessesOf(dataDir).filter(({ command }) => !command.startsWith("/bin/sh -c")),
    descriptors() {
      const pid = node();
      return pid === undefined ? undefined : countDescriptors(pid);
    },
    logs: () => readLines(logFile),
    async stop() {
      replica.kill("SIGCONT");
      await Promise.all(lives.map((life) => life.stop(10_000)));
      for (const { pid } of findProcessesOf(dataDir)) process.kill(pid, "SIGKILL");
      api.stop();
      await forge?.stop();
      await redis.stop();
      await disk?.stop();
    },
  };
  return replica;
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has just ended.
  }
}

function countDescriptors(pid: number): number | undefined {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return undefined; // it has just ended
  }
}

function readLines(file: string): LogLine[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as LogLine];
      } catch {
        return []; // half written, or a warning of Node's
      }
    });
}
