/** The cluster as the account of previews sees it, opened once for each account. */
import { PreviewRefusedError } from "../../errors.ts";
import { type Key, serviceAccountUser } from "../../model.ts";
import type { PreviewCluster, PreviewClusters } from "../../ports.ts";
import type { FluxKustomization } from "./kustomization.ts";

export interface ClusterPool {
  /**
   * As the account of the Kustomization or, if the cluster does not have that, of the nearest of its `parents`: a pull
   * request cannot choose an account. Throws PreviewRefusedError.
   */
  of(kustomization: Pick<FluxKustomization, "name">, parents: readonly string[]): Promise<PreviewCluster>;
  requests(): number;
  close(): Promise<void>;
}

interface PoolOptions {
  /** For all of them, in the namespace of each. */
  readonly account: string | undefined;
  /** See CompareDeps. */
  readonly party?: readonly string[] | undefined;
}

export function createClusterPool(
  clusters: PreviewClusters,
  known: ReadonlyMap<string, FluxKustomization>,
  { account, party }: PoolOptions,
): ClusterPool {
  const opened = new Map<string, Promise<PreviewCluster>>();
  let requests = 0;

  function userOf(kustomization: Pick<FluxKustomization, "name">, parents: readonly string[]): string | undefined {
    const owner = [kustomization.name, ...parents].map((name) => known.get(name)).find((one) => one !== undefined);
    // Without an account, it would be the server's own login.
    if (owner === undefined)
      throw new PreviewRefusedError(`${kustomization.name}: no Kustomization in the cluster contains it`);
    const name = account ?? owner.serviceAccountName;
    const key: Key | undefined = name ? { namespace: owner.key.namespace, name } : undefined;
    return key && serviceAccountUser(key);
  }

  return {
    async of(kustomization, parents) {
      const impersonate = userOf(kustomization, parents);
      const id = impersonate ?? "";
      const cluster = opened.get(id) ?? clusters.open({ impersonate }, party);
      opened.set(id, cluster);
      return cluster;
    },
    requests: () => requests,
    async close() {
      const all = await Promise.allSettled(opened.values());
      const done = all.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
      requests = done.reduce((sum, cluster) => sum + cluster.requests(), 0);
      await Promise.all(done.map((cluster) => cluster.close()));
    },
  };
}
