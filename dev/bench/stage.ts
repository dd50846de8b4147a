/** The environment of a measurement: the real components, and servers that end with the measurement. */
import { join } from "node:path";
import { type Flux, fluxTools, startFlux } from "../parts/flux.ts";
import { startGitHttp, type GitHttp } from "../parts/git-http.ts";
import { createGiteaClient, type GiteaClient, type GiteaRepository } from "../parts/gitea-client.ts";
import { createWorkCopy, type FileChanges, type WorkCopy } from "../parts/work-copy.ts";
import { findTools } from "../tools.ts";
import type { World } from "../world.ts";
import type { Cluster } from "./cluster.ts";
import { type ForgeProxy, startForgeProxy } from "./forge-proxy.ts";
import { type Peer, startPeer } from "./peer.ts";
import { project } from "./project.ts";
import { type ForgeLogin, type Isolation, startTowline, type Towline } from "./towline.ts";

/** Lives as long as the whole run. */
export interface StageDeps {
  readonly world: World;
  readonly cluster: Cluster;
  readonly kluctl: string;
  readonly quick: boolean;
  /** Directory for the servers' CPU profiles, if they are to be written. */
  readonly profile?: string | undefined;
  /** Number of deployments for the measurements that let it be chosen. */
  readonly deployments?: number | undefined;
  readonly say: (line: string) => void;
}

export interface ServerOptions {
  readonly name: string;
  readonly namespace: string;
  readonly concurrency: number;
}

export interface TowlineServerOptions extends Omit<ServerOptions, "concurrency"> {
  /** The server's own default if absent. */
  readonly concurrency?: number;
  /** With a forge login, the server previews pull requests. */
  readonly forge?: ForgeLogin;
  readonly isolation?: Isolation;
  /** Token of the page; without it there is no page. */
  readonly pageToken?: string;
  readonly program?: string;
  readonly prefix?: string;
  readonly sweep?: string;
  readonly fullInterval?: string;
  readonly auditSkips?: number;
  readonly notified?: string;
  /** Makes Flux fetch what is pushed. */
  readonly fluxTrigger?: boolean;
  readonly warm?: "on" | "off";
  /** Replaces the real kluctl. */
  readonly kluctl?: string;
  /** Replaces the cluster's own kubeconfig. */
  readonly kubeconfig?: string;
}

export interface Repository {
  readonly url: string;
  readonly copy: WorkCopy;
  /** The repository's first commit. */
  readonly first: string;
}

export interface Stage extends Omit<StageDeps, "world"> {
  readonly stateDir: string;
  redisUrl(): Promise<string>;
  startTowline(options: TowlineServerOptions): Promise<Towline>;
  startPeer(options: ServerOptions): Promise<Peer>;
  /** Starts Flux's source-controller and kustomize-controller. */
  startFlux(): Promise<Flux>;
  /** Creates a repository on Gitea, with the project unless other files are given. */
  giteaRepository(
    name: string,
    files?: FileChanges,
  ): Promise<Repository & { readonly client: GiteaClient; readonly remote: GiteaRepository }>;
  /** Creates a repository on a git host that counts its requests, with the project unless other files are given. */
  countedRepository(name: string, files?: FileChanges): Promise<Repository & { readonly host: GitHttp }>;
  /** Starts a recording proxy in front of a git host's API. */
  forgeProxy(apiUrl: string): Promise<ForgeProxy>;
  /** Registers a function to call when the measurement is over, in reverse order. */
  defer(stop: () => unknown): void;
}

/** Runs `use` on a stage, and tears the stage down afterwards in any case. */
export async function onStage<T>({ world, ...deps }: StageDeps, use: (stage: Stage) => Promise<T>): Promise<T> {
  const stops: (() => unknown)[] = [];
  const { cluster, kluctl } = deps;
  const { stateDir } = world;
  const defer = (stop: () => unknown) => void stops.push(stop);
  const starting = <T extends Omit<ServerOptions, "concurrency">>(options: T) => ({
    kubeconfig: cluster.kubeconfig,
    kluctl,
    ...options,
    stateDir,
    profile: deps.profile,
  });

  try {
    return await use({
      ...deps,
      stateDir,
      defer,
      redisUrl: async () => (await world.part("redis")).url,
      async startTowline(options) {
        const { url } = await world.part("redis");
        const server = await startTowline({ ...starting(options), redisUrl: url });
        defer(() => server.stop());
        return server;
      },
      async startPeer(options) {
        const peer = await startPeer(starting(options));
        defer(() => peer.stop());
        return peer;
      },
      async startFlux() {
        const tools = await findTools(fluxTools, { say: deps.say });
        const flux = await startFlux({ tools, kubeconfig: cluster.kubeconfig, stateDir });
        defer(() => flux.stop());
        return flux;
      },
      async giteaRepository(name, files = project) {
        const login = await world.part("gitea");
        const client = createGiteaClient(login);
        const remote = await client.createRepository(login.user, name);
        const copy = await createWorkCopy(join(stateDir, "work", name), remote.pushUrl);
        return { url: remote.cloneUrl, copy, first: await copy.push(files), client, remote };
      },
      async countedRepository(name, files = project) {
        const host = await startGitHttp({ root: join(stateDir, "bare", name) });
        defer(() => host.stop());
        const url = await host.createRepository(name);
        const copy = await createWorkCopy(join(stateDir, "work", name), url);
        return { url, copy, first: await copy.push(files), host };
      },
      async forgeProxy(apiUrl) {
        const proxy = await startForgeProxy(apiUrl);
        defer(() => proxy.stop());
        return proxy;
      },
    });
  } finally {
    for (const stop of stops.toReversed()) {
      await Promise.resolve(stop()).catch((error: unknown) =>
        deps.say(`Something did not end cleanly: ${String(error)}`),
      );
    }
  }
}
