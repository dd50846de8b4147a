/** One `towline serve` of an episode, as a separate process with its own proxies to everything it needs. */
import { readdirSync, readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { cacheDir } from "../cache.ts";
import { findCommand } from "../bench/usage.ts";
import { type FaultProxy, startFaultProxy } from "../parts/kube-fault-proxy.ts";
import { freePort } from "../parts/port.ts";
import { type RunningProcess, startProcess } from "../parts/process.ts";
import { findProcessesOf, type FoundProcess, startedBefore } from "../parts/processes.ts";
import { aShiftedClock } from "../parts/shifted-clock.ts";
import { startTcpProxy, type TcpProxy } from "../parts/tcp-proxy.ts";
import { type CommentEvent, type ForgeProxy, startForgeProxy } from "./forge-proxy.ts";
import type { EpisodeGitea } from "./git-host.ts";
import { createSmallDisk } from "./small-disk.ts";

export interface ReplicaOptions {
  readonly name: string;
  /** Directory of the episode. */
  readonly dir: string;
  readonly namespace: string;
  readonly kubeconfig: string;
  readonly redisSocket: string;
  readonly kluctl: string;
  readonly warm: boolean;
  readonly webhookSecret: string;
  /** The first one is the version under test; a second one is the version it can be replaced with. */
  readonly versions: readonly Version[];
  /** Index of the version that it starts with. */
  readonly version: number;
  /** Time between two sweeps. */
  readonly sweepMs: number;
  /** How far its clock is ahead, in milliseconds. */
  readonly clockMs: number;
  /** Set if it receives pull request events and previews them. */
  readonly gitea?: EpisodeGitea | undefined;
  readonly onComment: (event: CommentEvent) => Promise<void>;
}

/** A checkout of one version of the server. */
export interface Version {
  readonly dir: string;
  /** This version has the setting that audits skips. */
  readonly auditsSkips: boolean;
  /** This version adapts the interval of sweeps, which an episode without sweeps must not have. */
  readonly adapts: boolean;
  /** This version can isolate previews, which the model kluctl does not support. */
  readonly confines: boolean;
}

export interface Replica {
  readonly name: string;
  readonly webhooksUrl: string;
  /** Its data directory, by which its processes are found. */
  readonly dataDir: string;
  readonly api: FaultProxy;
  readonly redis: TcpProxy;
  /** Set for episodes with pull requests. */
  readonly forge?: ForgeProxy | undefined;
  isAlive(): boolean;
  /** Resolves when the process that runs now has ended. */
  ended(): Promise<unknown>;
  /** Process ids of all its starts; its Leases are held under them. */
  readonly pids: readonly number[];
  start(): Promise<void>;
  /** Stops it as a rolling update does and starts the next of its versions, or the same one if there is only one. */
  roll(): Promise<void>;
  /** Index of the version that runs or is started next. */
  version(): number;
  isReady(): Promise<boolean>;
  /** Returns whether it was alive. */
  kill(signal: NodeJS.Signals): boolean;
  /** Whether it ever had no time to finish what it had begun. */
  wasKilled(): boolean;
  /** Signals the small process that starts git and kluctl. Returns whether there is one. */
  signalStarter(signal: NodeJS.Signals): boolean;
  /** Returns whether its clock was set differently. */
  setClock(ms: number): Promise<boolean>;
  /** Writes the currently valid token to its token file. */
  writeToken(): Promise<void>;
  /** Fills the disk of its data directory, or frees it. Returns whether that is a disk of its own. */
  fillDisk(on: boolean): Promise<boolean>;
  /** Ends all network faults. */
  heal(): Promise<void>;
  /** The processes it has started that are still alive. */
  processes(): readonly FoundProcess[];
  /** The processes of its previous lives that are still alive; if it is dead, of all. */
  orphans(): readonly FoundProcess[];
  /** Number of open files and sockets of the server; `undefined` while it is dead. */
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

/** Sweep intervals: with `soon`, a lost webhook is made up for soon; with `never`, not within an episode. */
export const sweeps = { soon: 5_000, never: 24 * 3_600_000 };
/** How long a server may take to stop. */
const endsWithinMs = 20_000;
/** Long enough for it to be renewed on a busy machine. */
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
  let killed = false;
  await writeFile(kubeconfigFile, api.kubeconfig);
  const { gitea, onComment } = options;
  const forge = gitea && (await startForgeProxy({ host: new URL(gitea.url), onComment }));
  const tokenFile = join(dir, `${name}.token`);
  const writeToken = async () => {
    if (gitea) await writeFile(tokenFile, gitea.token(), { mode: 0o600 });
  };
  await writeToken();
  const forgeLogin = forge && { apiUrl: `http://127.0.0.1:${forge.port}/api/v1`, tokenFile };
  const toConfig = ({ auditsSkips, adapts, confines }: Version) => ({
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
    sweep: {
      interval: `${options.sweepMs}ms`,
      ...(adapts && { adaptive: false }),
      ...(auditsSkips && { auditSkips: 1 }),
    },
  });
  const pids: number[] = [];
  const lives: RunningProcess[] = [];
  /** They were told to end, perhaps before they had started. */
  const struck = new Set<RunningProcess>();
  let running: RunningProcess | undefined;
  let starting: Promise<void> | undefined;
  let apiIsOpen = true;
  let { clockMs } = options;
  let version = options.version;

  const node = () => {
    try {
      return running && findCommand(running.pid, process.execPath);
    } catch {
      return undefined; // the process has just ended
    }
  };

  async function launch(): Promise<void> {
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
        CHAOS_REPLICA: dataDir, // inherited by every process it starts, which are found by it
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
    try {
      await started.ready(async () => node() !== undefined);
    } catch (error) {
      if (struck.has(started)) return;
      throw error;
    }
    pids.push(node() ?? 0);
  }

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
    ended: async () => running?.exited,
    start: () => (starting ??= launch().finally(() => (starting = undefined))),
    version: () => version,
    async roll() {
      const before = running;
      replica.kill("SIGTERM");
      const inTime = await Promise.race([before?.exited, sleep(endsWithinMs, "late", { ref: false })]);
      if (inTime === "late") replica.kill("SIGKILL"); // it is frozen, or waits for something unreachable
      if (running === before) running = undefined;
      version = (version + 1) % versions.length;
      await replica.start();
    },
    async isReady() {
      const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`, { signal: AbortSignal.timeout(3_000) });
      return response.ok;
    },
    wasKilled: () => killed,
    kill(signal) {
      killed ||= signal === "SIGKILL";
      const pid = node();
      const isStruck = pid !== undefined && signalIfThere(pid, signal);
      if (running && isStruck && signal !== "SIGSTOP" && signal !== "SIGCONT") struck.add(running);
      if (isStruck && signal === "SIGKILL") running = undefined; // otherwise it has not started yet, or has ended
      return isStruck;
    },
    signalStarter(signal) {
      const pid = node();
      const starter = findProcessesOf(dataDir, [pid]).find(({ command }) => command.includes("starter-process"));
      return starter !== undefined && signalIfThere(starter.pid, signal);
    },
    async setClock(ms) {
      const differs = ms !== clockMs;
      clockMs = ms;
      if (differs) await clock.set(ms);
      return differs;
    },
    writeToken,
    async fillDisk(on) {
      await disk?.fill(on);
      return disk !== undefined;
    },
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
    orphans() {
      const [all, pid] = [replica.processes(), node()];
      return running === undefined ? all : all.filter((one) => pid !== undefined && startedBefore(one.pid, pid));
    },
    descriptors() {
      const pid = node();
      return pid === undefined ? undefined : countDescriptors(pid);
    },
    logs: () => readLines(logFile),
    async stop() {
      replica.kill("SIGCONT");
      await Promise.all(lives.map((life) => life.stop(10_000)));
      for (const { pid } of findProcessesOf(dataDir)) signalIfThere(pid, "SIGKILL");
      api.stop();
      await forge?.stop();
      await redis.stop();
      await disk?.stop();
    },
  };
  return replica;
}

/** Returns whether the process was there. */
function signalIfThere(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false; // it has just ended
  }
}

function countDescriptors(pid: number): number | undefined {
  try {
    return readdirSync(`/proc/${pid}/fd`).length;
  } catch {
    return undefined; // the process has just ended
  }
}

function readLines(file: string): LogLine[] {
  return readFileSync(file, "utf8")
    .split("\n")
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as LogLine];
      } catch {
        return []; // an incomplete line, or a warning of Node
      }
    });
}
