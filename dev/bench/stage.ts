/** What a measurement stands on: the real parts, and servers that end with the measurement. */
import { join } from "node:path";
import { startGitHttp, type GitHttp } from "../parts/git-http.ts";
import { createGiteaClient, type GiteaClient, type GiteaRepository } from "../parts/gitea-client.ts";
import { createWorkCopy, type WorkCopy } from "../parts/work-copy.ts";
import type { World } from "../world.ts";
import type { Cluster } from "./cluster.ts";
import { type ForgeProxy, startForgeProxy } from "./forge-proxy.ts";
import { type Peer, startPeer } from "./peer.ts";
import { project } from "./project.ts";
import { type ForgeLogin, type Isolation, startTowline, type Towline } from "./towline.ts";

/** Lives as long as the run. */
export interface StageDeps {
  readonly world: World;
  readonly cluster: Cluster;
  readonly kluctl: string;
  readonly quick: boolean;
  /** Where servers write CPU profiles, if anywhere. */
  readonly profile?: string | undefined;
  /** How many deployments where that can be chosen. */
  readonly deployments?: number | undefined;
  readonly say: (line: string) => void;
}

export interface ServerOptions {
  readonly name: string;
  readonly namespace: string;
  readonly concurrency: number;
}

export interface TowlineServerOptions extends ServerOptions {
  /** With it, pull requests are previewed. */
  readonly forge?: ForgeLogin;
  readonly isolation?: Isolation;
  /** The page's token; without it there is no page. */
  readonly pageToken?: string;
  readonly program?: string;
  readonly prefix?: string;
  readonly sweep?: string;
  readonly fullInterval?: string;
  readonly auditSkips?: number;
  readonly warm?: "on" | "off";
  /** Instead of the real one. */
  readonly kluctl?: string;
  /** Instead of the cluster's own. */
  readonly kubeconfig?: string;
}

export interface Repository {
  readonly url: string;
  readonly copy: WorkCopy;
  /** The commit that it starts with. */
  readonly first: string;
}

export interface Stage extends Omit<StageDeps, "world"> {
  readonly stateDir: string;
  redisUrl(): Promise<string>;
  startTowline(options: TowlineServerOptions): Promise<Towline>;
  startPeer(options: ServerOptions): Promise<Peer>;
  /** A repository with the project, on Gitea. */
  giteaRepository(
    name: string,
  ): Promise<Repository & { readonly client: GiteaClient; readonly remote: GiteaRepository }>;
  /** A repository with the project, on a git host that counts what it is asked for. */
  countedRepository(name: string): Promise<Repository & { readonly host: GitHttp }>;
  /** In front of a git host's API. */
  forgeProxy(apiUrl: string): Promise<ForgeProxy>;
  /** Is called when the measurement is over, the latest first. */
  defer(stop: () => unknown): void;
}

/** Runs `use` on a stage, and clears the stage whatever comes of it. */
export async function onStage<T>({ world, ...deps }: StageDeps, use: (stage: Stage) => Promise<T>): Promise<T> {
  const stops: (() => unknown)[] = [];
  const { cluster, kluctl } = deps;
  const { stateDir } = world;
  const defer = (stop: () => unknown) => void stops.push(stop);
  const starting = <T extends ServerOptions>(options: T) => ({
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
      async giteaRepository(name) {
        const login = await world.part("gitea");
        const client = createGiteaClient(login);
        const remote = await client.createRepository(login.user, name);
        const copy = await createWorkCopy(join(stateDir, "work", name), remote.pushUrl);
        return { url: remote.cloneUrl, copy, first: await copy.push(project), client, remote };
      },
      async countedRepository(name) {
        const host = await startGitHttp({ root: join(stateDir, "bare", name) });
        defer(() => host.stop());
        const url = await host.createRepository(name);
        const copy = await createWorkCopy(join(stateDir, "work", name), url);
        return { url, copy, first: await copy.push(project), host };
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
