/** For commands that show the server's stored data: deployments of the cluster, and the server's Redis. */
import type { Redis } from "ioredis";
import type { Logger } from "../log.ts";
import { listAllDeployments } from "./list-deployments.ts";
import { clusterConfig, type ClusterConfig, type ClusterFlags, type FoundDeployment } from "./cluster.ts";
import { withRedis } from "./redis.ts";

export interface ServerStore {
  readonly cluster: ClusterConfig;
  readonly found: readonly FoundDeployment[];
  readonly connection: Redis;
  /** Prefix of all keys of the server in Redis. */
  readonly prefix: string;
  readonly log: Logger;
}

export interface ServerStoreOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags: ClusterFlags;
  /** Receives warnings about what could not be read. */
  readonly err: (text: string) => void;
}

/** Throws with advice if the cluster or Redis does not answer. */
export async function withServerStore<T>(
  { env, flags, err }: ServerStoreOptions,
  work: (memory: ServerStore) => Promise<T>,
): Promise<T> {
  const cluster = clusterConfig(env, flags);
  const { config, kubernetes } = cluster;
  const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
  const client = createKubeClient(kubernetes);
  try {
    const found = await listAllDeployments(client, { ...cluster, err });
    const { prefix } = config.redis;
    return await withRedis(config, async (connection, log) => work({ cluster, found, connection, prefix, log }));
  } finally {
    client.close();
  }
}
