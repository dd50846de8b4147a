/**
 * Merges the KluctlDeployments of both APIs, so that the rest of the server sees each name once. If both APIs have a
 * name, the current API's resource wins and the legacy one gives way.
 */
import type { Logger } from "../log.ts";
import { createDeploymentIndex } from "../kube/deployment-index.ts";
import type { WatchedDeployments } from "./kluctl/deployments.ts";
import type { LegacyDeployments } from "./flux-kluctl/deployments.ts";
import { legacyApiVersion } from "./flux-kluctl/resource.ts";
import type { DeploymentRef } from "../model.ts";
import { whenSynced } from "../kube/when-synced.ts";

export interface BothDeploymentsDeps {
  readonly newer: WatchedDeployments;
  readonly older: LegacyDeployments;
  readonly log: Logger;
}

export function createBothDeployments({ newer, older, log }: BothDeploymentsDeps): WatchedDeployments {
  const index = createDeploymentIndex(log);
  newer.onChange(({ kind, deployment }) => {
    if (kind !== "removed") {
      index.set(deployment);
      return older.giveWay(deployment.key);
    }
    index.remove(deployment);
    const left = older.find(deployment.key);
    if (left !== undefined) index.set(left);
  });
  older.onChange(({ kind, deployment }) => {
    if (kind === "removed") return index.remove(deployment);
    if (newer.find(deployment.key) === undefined) index.set(deployment);
  });

  const synced = () => newer.synced() && older.synced();
  const homeOf = ({ apiVersion }: DeploymentRef) => (apiVersion === legacyApiVersion ? older : newer);
  return {
    ...newer,
    find: index.find,
    all: index.all,
    tracking: index.tracking,
    onChange: index.onChange,
    async start() {
      await Promise.all([newer.start(), older.start()]);
    },
    async stop() {
      await Promise.all([newer.stop(), older.stop()]);
    },
    synced,
    whenSynced: (signal) => whenSynced({ synced, problem: newer.problem }, log, signal),
    get: async (key) => (await newer.get(key)) ?? (await older.get(key)),
    patchStatus: (ref, patch, signal) => homeOf(ref).patchStatus(ref, patch, signal),
    setFinalizer: (ref, name, present) => homeOf(ref).setFinalizer(ref, name, present),
    removeAnnotation: (ref, name, value) => homeOf(ref).removeAnnotation(ref, name, value),
  };
}
