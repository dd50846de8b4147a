/**
 * A separate process that runs `kluctl diff` of one project repeatedly, warm and cold in turn, as the server does: its
 * resource usage and that of its children is kluctl's.
 */
import { readFileSync } from "node:fs";
import { createKluctl } from "../../src/kluctl/kluctl.ts";
import { createKubeClient } from "../../src/kube/client.ts";
import { createLogger } from "../../src/log.ts";
import { cpuSeconds } from "./usage.ts";

export interface DiffOrder {
  readonly kluctl: string;
  readonly kubeconfig: string;
  readonly cacheDir: string;
  readonly workDir: string;
  readonly projectDir: string;
  readonly args: Readonly<Record<string, string>>;
  /** Number of runs of each kind. */
  readonly times: number;
  /** Also measures runs with warm renderers. */
  readonly warm: boolean;
}

export interface Spawn {
  readonly warm: boolean;
  readonly wallMs: number;
  readonly cpuMs: number;
  /** The rendered objects and their differences. */
  readonly found: string;
}

process.stdout.write(
  `${JSON.stringify(await runAll(JSON.parse(readFileSync(process.argv[2] ?? "", "utf8")) as DiffOrder))}\n`,
);

async function runAll(order: DiffOrder): Promise<Spawn[]> {
  const { kluctl: binary, kubeconfig, cacheDir, workDir, projectDir, args, times } = order;
  const client = createKubeClient({ kubeconfig });
  const log = createLogger({ level: "silent", format: "json" });
  const kluctl = createKluctl({
    ...{ binary, cacheDir, workDir, log, env: process.env, warm: order.warm },
    kubeconfigFor: (impersonate) => client.kubeconfig(impersonate),
  });
  const run = {
    deployment: { namespace: "bench", name: "spawn" },
    ...{ reconcileId: "bench", projectDir, args, timeoutMs: 60_000 },
    ...{ images: [], includeTags: [], excludeTags: [], includeDeploymentDirs: [], excludeDeploymentDirs: [] },
    credentials: { git: [], oci: [], helm: [] },
  };
  const options = { forceApply: false, replaceOnError: false, forceReplaceOnError: false };
  const one = async (warm: boolean): Promise<Spawn> => {
    const [from, cpuFrom] = [performance.now(), cpuSeconds(process.pid)];
    const { objectsHash, objects } = await kluctl.diff({ ...run, cold: !warm }, options, AbortSignal.timeout(60_000));
    const wallMs = performance.now() - from;
    const changed = objects.filter((object) => object.new || object.changes.length > 0).length;
    return { warm, wallMs, cpuMs: (cpuSeconds(process.pid) - cpuFrom) * 1_000, found: `${objectsHash} ${changed}` };
  };
  const kinds = order.warm ? [false, true] : [false];
  // The first run unpacks Python and starts the fork server; the second of each kind runs under the final conditions.
  for (let i = 0; i < 2; i++) for (const warm of kinds) await one(warm);
  const spawns: Spawn[] = [];
  for (let i = 0; i < times; i++) for (const warm of kinds) spawns.push(await one(warm));
  await kluctl.stop();
  client.close();
  return spawns;
}
