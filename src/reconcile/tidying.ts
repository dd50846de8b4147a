/** Removes the stored results of deleted deployments: after the initial sync, and after each deletion. */
import type { Logger } from "../log.ts";
import { type DeploymentChange, type Key, keyText } from "../model.ts";
import type { Deployments } from "../ports.ts";

export interface TidyingDeps {
  readonly deployments: Pick<Deployments, "all"> & {
    onChange(callback: (change: DeploymentChange) => void): void;
    synced(): boolean;
  };
  readonly results: { removeOrphans(clusterId: string, exists: (key: Key) => boolean): Promise<void> };
  readonly clusterId: () => Promise<string>;
  /** The namespaces whose deployments are known; empty: all. */
  readonly namespaces: readonly string[];
  readonly log: Logger;
}

/** Many resources may be deleted together, for example with their namespace: one pass covers all of them. */
const gatherMs = 2_000;

export function startTidying({ deployments, results, clusterId, namespaces, log }: TidyingDeps): void {
  let planned: NodeJS.Timeout | undefined;
  let first = true;

  async function tidy(): Promise<void> {
    let known: ReadonlySet<string> | undefined;
    await results.removeOrphans(await clusterId(), (key) => {
      // Read only after the results are listed: a deployment may be created and deployed in between.
      if (namespaces.length > 0 && !namespaces.includes(key.namespace)) return true; // another server's
      known ??= new Set(deployments.all().map((deployment) => keyText(deployment.key)));
      return known.has(keyText(key));
    });
  }

  deployments.onChange(({ kind }) => {
    if (!first && kind !== "removed") return;
    planned ??= setTimeout(() => {
      planned = undefined;
      if (!deployments.synced()) return; // deployments that are not listed yet may exist
      first = false;
      tidy().catch((error: unknown) => log.warn({ err: error }, "could not remove results of deleted deployments"));
    }, gatherMs).unref();
  });
}
