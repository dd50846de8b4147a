/**
 * Flux's own controllers, beside an API server, with the options of Flux's own manifests. Different are only addresses,
 * ports and directories, and what needs a pod or the notification-controller: leader election and the events for it.
 */
import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ApiError } from "../../src/errors.ts";
import { createKubeClient, type KubeClient } from "../../src/kube/client.ts";
import type { ToolPaths } from "../tools.ts";
import { installDefinitions, readDefinitions } from "./definitions.ts";
import { freePort } from "./port.ts";
import { type RunningProcess, startProcess } from "./process.ts";

/** What is needed to deploy from git. */
export const fluxTools = ["source-controller", "kustomize-controller"] as const;

export type FluxController = (typeof fluxTools)[number] | "helm-controller";

export interface FluxPlace {
  readonly kubeconfig: string;
  readonly stateDir: string;
}

export interface Flux {
  /** The process groups of the controllers: their CPU time is that of Flux. */
  readonly pids: readonly number[];
  stop(): Promise<void>;
}

/** The namespace that the controllers belong to, as Flux's manifests name it. */
export const fluxNamespace = "flux-system";

/** The memory limit of the pods, which the manifests pass to Go as well. */
const memoryLimit = "1GiB";
/** Nothing that they store is needed afterwards. */
const graceMs = 500;

/** Starts the controllers that fetch from git and apply, and resolves when both are ready. */
export async function startFlux({
  tools,
  ...place
}: FluxPlace & { readonly tools: ToolPaths<(typeof fluxTools)[number]> }): Promise<Flux> {
  const running: RunningProcess[] = [];
  const stop = async () => void (await Promise.all(running.map((one) => one.stop(graceMs))));
  try {
    for (const name of fluxTools) running.push(await startFluxController(name, tools[name], place));
  } catch (error) {
    await stop();
    throw error;
  }
  return { pids: running.map(({ pid }) => pid), stop };
}

/** Installs the definitions that belong to the controller, starts it, and resolves when it is ready. */
export async function startFluxController(
  name: FluxController,
  program: string,
  { kubeconfig, stateDir }: FluxPlace,
): Promise<RunningProcess> {
  await prepareCluster(kubeconfig, join(dirname(program), "config/crd/bases"));
  const dir = join(stateDir, name);
  await mkdir(join(dir, "tmp"), { recursive: true });
  const health = `127.0.0.1:${await freePort()}`;
  const storage = name === "source-controller" ? await storageIn(join(dir, "data")) : undefined;
  const controller = await startProcess({
    name,
    command: program,
    args: [
      ...["--watch-all-namespaces=true", "--log-level=info", "--log-encoding=json"],
      ...["--enable-leader-election=false", "--events-addr="],
      ...[`--metrics-addr=127.0.0.1:${await freePort()}`, `--health-addr=${health}`],
      ...(storage?.args ?? []),
    ],
    logFile: join(stateDir, "logs", `${name}.log`),
    env: {
      ...{ PATH: process.env["PATH"], HOME: dir, TMPDIR: join(dir, "tmp"), TUF_ROOT: join(dir, "tmp", ".sigstore") },
      ...{ KUBECONFIG: kubeconfig, RUNTIME_NAMESPACE: fluxNamespace, GOMEMLIMIT: memoryLimit },
    },
    cwd: dir,
  });
  try {
    const addresses = [`http://${health}/readyz`, ...(storage ? [storage.url] : [])];
    await controller.ready(async () => (await Promise.all(addresses.map(answers))).every(Boolean));
  } catch (error) {
    await controller.stop(graceMs);
    throw error;
  }
  return controller;
}

/** Where the source-controller keeps what it has fetched, and where the other controllers get it. */
async function storageIn(path: string) {
  await mkdir(path, { recursive: true });
  const address = `127.0.0.1:${await freePort()}`;
  const args = [`--storage-path=${path}`, `--storage-addr=${address}`, `--storage-adv-addr=${address}`];
  return { args, url: `http://${address}/` };
}

async function answers(url: string): Promise<boolean> {
  return (await fetch(url, { signal: AbortSignal.timeout(2_000) })).ok;
}

async function prepareCluster(kubeconfig: string, definitions: string): Promise<void> {
  const client = createKubeClient({ kubeconfig });
  try {
    await createNamespace(client);
    await installDefinitions(client, await readDefinitions(definitions));
  } finally {
    client.close();
  }
}

async function createNamespace(client: KubeClient): Promise<void> {
  const body = { apiVersion: "v1", kind: "Namespace", metadata: { name: fluxNamespace } };
  await client.request({ method: "POST", path: "/api/v1/namespaces", body }).catch((error: unknown) => {
    if (!(error instanceof ApiError && error.status === 409)) throw error; // another controller has created it
  });
}
