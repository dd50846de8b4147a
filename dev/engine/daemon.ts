/**
 * A container engine: the one that is running, or a private one. The private one ends with this process, keeps what it
 * has built in the cache, and leaves this machine's network alone: it adds no firewall rules, and it has a bridge of
 * its own, because an engine without one removes the bridge of another engine. Its containers use the host's network,
 * or one that compose creates.
 */
import { execFile } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { cacheDir } from "../cache.ts";
import { startProcess } from "../parts/process.ts";
import { installPackage } from "../tools.ts";

const run = promisify(execFile);
const bridge = "towline0";
const bridgeAddress = "198.51.100.129/26"; // from a range reserved for documentation, which is not in use

export interface Engine {
  /** Environment with which every Docker client uses this engine. */
  readonly env: NodeJS.ProcessEnv;
  /** The engine has no images of other users. */
  readonly isPrivate: boolean;
  /** Runs `docker` and returns its output. */
  docker(...args: readonly string[]): Promise<string>;
  stop(): Promise<void>;
}

export interface EngineOptions {
  readonly say: (line: string) => void;
  /** Starts a private engine even if another one is running. */
  readonly isPrivate: boolean;
}

export async function startEngine({ say, isPrivate }: EngineOptions): Promise<Engine> {
  if (!isPrivate) {
    const answering = createEngine(process.env, false, async () => undefined);
    const version = await answering.docker("version", "--format", "{{.Server.Version}}").catch(() => undefined);
    if (version !== undefined) {
      say(`using the running engine: Docker ${version.trim()}`);
      return answering;
    }
  }
  return startPrivate(say);
}

function createEngine(env: NodeJS.ProcessEnv, isPrivate: boolean, stop: Engine["stop"]): Engine {
  return {
    env,
    isPrivate,
    async docker(...args) {
      const { stdout } = await run("docker", [...args], { env, maxBuffer: 1e8 });
      return stdout;
    },
    stop,
  };
}

async function startPrivate(say: EngineOptions["say"]): Promise<Engine> {
  if (process.platform !== "linux" || process.getuid?.() !== 0)
    throw new Error("No Docker engine is running, and starting one needs Linux and root: install or start Docker.");
  await install(say);
  const dir = join(cacheDir(), "engine");
  // Shared by all runs; leftovers of a run that was killed are removed below.
  const [data, exec, socket] = [join(dir, "data"), join(dir, "exec"), join(dir, "socket")];
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await removeBridge(); // left by a run that was killed
  await run("ip", ["link", "add", bridge, "type", "bridge"]);
  await run("ip", ["address", "add", bridgeAddress, "dev", bridge]);
  const daemon = await startProcess({
    name: "dockerd",
    command: "dockerd",
    args: [
      ...["--data-root", data, "--exec-root", exec, "--pidfile", join(dir, "pid"), "--host", `unix://${socket}`],
      ...[`--bridge=${bridge}`, "--iptables=false", "--ip6tables=false", "--storage-driver=overlay2"],
    ],
    logFile: join(dir, "dockerd.log"),
  });
  const env = { ...process.env, DOCKER_HOST: `unix://${socket}`, DOCKER_CONFIG: join(dir, "config") };
  const engine = createEngine(env, true, async () => {
    await daemon.stop(60_000);
    await removeBridge();
  });
  try {
    await daemon.ready(async () => (await engine.docker("version")) !== "");
    // Left by a run that was killed.
    const left = (await engine.docker("ps", "--all", "--quiet")).split("\n").filter(Boolean);
    if (left.length > 0) await engine.docker("rm", "--force", "--volumes", ...left);
    await engine.docker("volume", "prune", "--force");
    await engine.docker("network", "prune", "--force");
  } catch (error) {
    await engine.stop();
    throw error;
  }
  say(`started a private engine: Docker ${(await engine.docker("version", "--format", "{{.Server.Version}}")).trim()}`);
  return engine;
}

async function removeBridge(): Promise<void> {
  const { stdout } = await run("ip", ["-brief", "link", "show", "type", "bridge"]);
  if (stdout.split("\n").some((line) => line.startsWith(`${bridge} `))) await run("ip", ["link", "delete", bridge]);
}

async function install(say: EngineOptions["say"]): Promise<void> {
  const hint = "Install Docker: its engine and its client.";
  for (const [command, name] of [
    ["dockerd", "docker.io"],
    ["ip", "iproute2"],
    ["docker", "docker-cli"], // a separate package since Debian 13
  ] as const) {
    const found = await run(command, [command === "ip" ? "-V" : "--version"]).catch(() => undefined);
    if (found === undefined) await installPackage(name, hint, say);
  }
}
