/** The peer: `kluctl controller run` of the same binary. */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "../parts/port.ts";
import { startProcess } from "../parts/process.ts";
import { findCommand } from "./usage.ts";

export interface PeerOptions {
  readonly name: string;
  readonly stateDir: string;
  readonly kubeconfig: string;
  readonly kluctl: string;
  /** The only namespace whose KluctlDeployments it reconciles. */
  readonly namespace: string;
  readonly concurrency: number;
}

export interface Peer {
  readonly pid: number;
  /** Milliseconds of each reconciliation it has finished, from its log. */
  loops(): Promise<number[]>;
  stop(): Promise<void>;
}

/**
 * Resolves when it reports that it is ready. Its first reconciliation unpacks Python, so let it run one before
 * measuring.
 */
export async function startPeer(options: PeerOptions): Promise<Peer> {
  const { name, stateDir, kubeconfig, kluctl, namespace, concurrency } = options;
  const [health, metrics] = [await freePort(), await freePort()];
  const logFile = join(stateDir, "logs", `${name}.log`);
  // Shared by all peers of a run, so that Python is unpacked only once, as in an image.
  const temporary = join(stateDir, "peer");
  await mkdir(temporary, { recursive: true });
  const controller = await startProcess({
    name,
    command: kluctl,
    args: [
      ...["controller", "run", "--no-update-check", "--namespace", namespace, "--concurrency", String(concurrency)],
      ...["--health-probe-bind-address", `127.0.0.1:${health}`, "--metrics-bind-address", `127.0.0.1:${metrics}`],
      ...["--source-override-bind-address", "0"],
    ],
    logFile,
    env: {
      PATH: process.env["PATH"],
      HOME: temporary,
      TMPDIR: temporary,
      KLUCTL_BASE_TMP_DIR: join(temporary, "base"),
      KUBECONFIG: kubeconfig,
    },
  });
  try {
    const answers = async () => (await fetch(`http://127.0.0.1:${health}/readyz`)).ok;
    await controller.ready(answers);
  } catch (error) {
    await controller.stop();
    throw error;
  }
  return {
    pid: findCommand(controller.pid, kluctl),
    loops: async () => parseLoops(await readFile(logFile, "utf8")),
    stop: () => controller.stop(5_000),
  };
}

/** `Reconciliation finished in 1.23s, next run in 10s` */
function parseLoops(log: string): number[] {
  return [...log.matchAll(/Reconciliation finished in (?:(\d+)m)?([\d.]+)(ms|s)/g)].map(
    ([, minutes = "0", value, unit]) => Number(minutes) * 60_000 + Number(value) * (unit === "s" ? 1_000 : 1),
  );
}
