/** The local world: the parts around the server, each started when it is first requested. */
import { tmpdir } from "node:os";
import { installCustomResource } from "./custom-resource.ts";
import { createStateDir } from "./parts/state-dir.ts";
import { controlPlaneTools, startControlPlane } from "./parts/control-plane.ts";
import { type GiteaLogin, startGitea } from "./parts/gitea.ts";
import { startRedis } from "./parts/redis.ts";
import type { ToolName } from "./tool-table.ts";
import { findTools, requireGit } from "./tools.ts";

/** Addresses of the parts; plain data that can be passed to another process. */
export interface Addresses {
  /** Has the KluctlDeployment CRD. */
  readonly controlPlane: { readonly kubeconfig: string; readonly server: string };
  readonly redis: { readonly url: string };
  readonly gitea: GiteaLogin;
}

export type PartName = keyof Addresses;
export const partNames: readonly PartName[] = ["controlPlane", "redis", "gitea"];

export const partTools = {
  controlPlane: controlPlaneTools,
  redis: ["redis-server"],
  gitea: ["gitea"],
} as const satisfies Record<PartName, readonly ToolName[]>;

export interface World {
  readonly stateDir: string;
  /** Starts the part unless it is running, and resolves when it is ready. */
  part<Name extends PartName>(name: Name): Promise<Addresses[Name]>;
  /** Stops everything that was started and removes the state directory. Safe to call twice. */
  stop(): Promise<void>;
}

export interface WorldOptions {
  readonly say: (line: string) => void;
  /** Directory in which the state directory is created. */
  readonly stateParent?: string | undefined;
}

interface Started<Name extends PartName> {
  readonly addresses: Addresses[Name];
  stop(): Promise<void>;
}

const titles: Record<PartName, string> = { controlPlane: "Kubernetes control plane", redis: "Redis", gitea: "Gitea" };

export async function createWorld({ say, stateParent = tmpdir() }: WorldOptions): Promise<World> {
  await requireGit();
  const state = await createStateDir(stateParent);
  const stateDir = state.path;
  const starters: { [Name in PartName]: () => Promise<Started<Name>> } = {
    async controlPlane() {
      const tools = await findTools(partTools.controlPlane, { say });
      const { stop, ...addresses } = await startControlPlane({ tools, stateDir });
      await installCustomResource(addresses.kubeconfig);
      return { addresses, stop };
    },
    async redis() {
      const { stop, ...addresses } = await startRedis({ tools: await findTools(partTools.redis, { say }), stateDir });
      return { addresses, stop };
    },
    async gitea() {
      const { stop, ...addresses } = await startGitea({ tools: await findTools(partTools.gitea, { say }), stateDir });
      return { addresses, stop };
    },
  };

  const running: { [Name in PartName]?: Promise<Started<Name>> } = {};
  const start = async <Name extends PartName>(name: Name): Promise<Started<Name>> => {
    const from = Date.now();
    const started = await starters[name]();
    say(`${titles[name]} is up (${((Date.now() - from) / 1000).toFixed(1)} s)`);
    return started;
  };
  let stopping: Promise<void> | undefined;

  return {
    stateDir,
    async part(name) {
      if (stopping) throw new Error("The local world is stopping.");
      running[name] ??= start(name) as (typeof running)[typeof name];
      const started = (await running[name]) as Started<typeof name>;
      return started.addresses;
    },
    stop() {
      stopping ??= (async () => {
        const stops = await Promise.allSettled(Object.values(running).map(async (part) => (await part).stop()));
        await state.remove();
        const failed = stops.find((one) => one.status === "rejected");
        if (failed) say(`Cannot stop a part cleanly: ${String(failed.reason)}`);
      })();
      return stopping;
    },
  };
}

/** Starts a world with these parts. If one of them fails, all are stopped. */
export async function startWorld(
  parts: readonly PartName[],
  options: WorldOptions,
): Promise<World & { addresses: Partial<Addresses> }> {
  const world = await createWorld(options);
  try {
    const entries = await Promise.all(parts.map(async (name) => [name, await world.part(name)] as const));
    return { ...world, addresses: Object.fromEntries(entries) as Partial<Addresses> };
  } catch (error) {
    await world.stop();
    throw error;
  }
}
