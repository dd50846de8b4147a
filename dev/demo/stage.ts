/** The cluster, Redis and the server of the demo; the git host comes later. */
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type PartName, partTools, type World } from "../world.ts";
import {
  createDeployments,
  deleteDeployments,
  deleteNamespaces,
  type DemoCluster,
  namespace,
  prepareCluster,
  readiness,
  targets,
  watchCluster,
} from "./cluster.ts";
import type { Programs } from "./programs.ts";
import type { PushedShop } from "./repository.ts";
import { type DemoServer, type ServerOptions, startServer } from "./server.ts";

export interface StageOptions {
  readonly world: World;
  readonly programs: Programs;
  /** The user's own cluster. */
  readonly kubeconfig?: string | undefined;
  readonly webhooks: boolean;
  readonly prepare?: (() => Promise<void>) | undefined;
  readonly say: (line: string) => void;
  /** Called before anything is created that does not end with this process. */
  readonly onLasting: () => void;
  /** Gets a function that stops each part, in the order in which the parts were started. */
  readonly stops: (() => Promise<void>)[];
}

export interface Stage {
  readonly kubeconfig: string;
  readonly cluster: DemoCluster;
  /** False if the shop's fictitious images cannot be pulled. */
  readonly podsRun: boolean;
  /** Starts the server for this git host. */
  serve(options: Pick<ServerOptions, "forge" | "name">): Promise<DemoServer>;
  /** Creates the deployments and waits for the state before the first push that the demo shows. */
  deploy(shop: PushedShop): Promise<void>;
}

export async function prepareStage(options: StageOptions): Promise<Stage> {
  const { world, programs, webhooks, prepare, say, onLasting, stops } = options;
  const own = options.kubeconfig === undefined ? undefined : resolve(options.kubeconfig);
  const [kubeconfig, redis, kluctl = ""] = await Promise.all([
    own ?? startPart("controlPlane", options).then((plane) => plane.kubeconfig),
    startPart("redis", options),
    programs.paths.kluctl,
    prepare?.(),
  ]);
  if (own !== undefined) onLasting();
  const namespaces = await prepareCluster(kubeconfig);
  if (own !== undefined) stops.push(() => deleteNamespaces(own, namespaces));
  const cluster = await watchCluster(kubeconfig);
  stops.push(() => cluster.stop());
  return {
    kubeconfig,
    cluster,
    podsRun: own === undefined,
    async serve(more) {
      const { stateDir } = world;
      const started = await startServer({ stateDir, kubeconfig, redis, kluctl, namespace, webhooks, ...more });
      let stopping: Promise<void> | undefined;
      const server = { ...started, stop: () => (stopping ??= started.stop()) };
      stops.push(server.stop);
      if (own !== undefined) stops.push(() => deleteDeployments(cluster.client));
      return server;
    },
    async deploy({ repository, firstCommit }) {
      await createDeployments(cluster.client, repository.cloneUrl);
      await firstDeploy(cluster, firstCommit, say);
    },
  };
}

/** Starts the part when its programs are there. */
export async function startPart<Name extends PartName>(name: Name, { world, programs }: StageOptions) {
  for (const tool of partTools[name]) await programs.paths[tool];
  return world.part(name);
}

async function firstDeploy(cluster: DemoCluster, commit: string, say: (line: string) => void): Promise<void> {
  const from = Date.now();
  const states = () => targets.map((target) => readiness(cluster.find("KluctlDeployment", namespace, target), commit));
  while (!states().every((state) => state === "ready")) {
    const failure = states().find((state) => state instanceof Error);
    if (failure) throw failure;
    if (Date.now() - from > 60_000) throw new Error("The first deploy did not finish within 60 s.");
    await delay(50);
  }
  const seconds = ((Date.now() - from) / 1_000).toFixed(1);
  say(`shop/staging and shop/prod are deployed for the first time (${seconds} s)`);
}
