/** For commands that show what the server remembers: the deployments of the cluster, and the server's Redis. */
import type { Redis } from "ioredis";
import type { Logger } from "../log.ts";
import { listOfBothApis } from "./both-apis.ts";
import { clusterConfig, type ClusterConfig, type ClusterFlags, type FoundDeployment } from "./cluster.ts";
import { withRedis } from "./redis.ts";

export interface ServerMemory {
  readonly cluster: ClusterConfig;
  readonly found: readonly FoundDeployment[];
  readonly connection: Redis;
  /** Starts every key of the server's in Redis. */
  readonly prefix: string;
  readonly log: Logger;
}

export interface ServerMemoryOptions {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags: ClusterFlags;
  /** Told what could not be asked. */
  readonly err: (text: string) => void;
}

/** Throws with what to do if the cluster or Redis does not answer. */
export async function withServerMemory<T>(
  { env, flags, err }: ServerMemoryOptions,
  work: (memory: ServerMemory) => Promise<T>,
): Promise<T> {
  const cluster = clusterConfig(env, flags);
  const { config, kubernetes } = cluster;
  const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
  const client = createKubeClient(kubernetes);
  try {
    const found = await listOfBothApis(client, { ...cluster, err });
    const { prefix } = config.redis;
    return await withRedis(config, async (connection, log) => work({ cluster, found, connection, prefix, log }));
  } finally {
    client.close();
  }
}
