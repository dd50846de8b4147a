/** What Flux's controllers apply: watched, never written. */
import type { KubeClient } from "../../kube/client.ts";
import { listKind } from "../../kube/kind.ts";
import type { FluxDeployment } from "../../model.ts";
import type { FluxDeployments, OnResourceChange } from "../../ports.ts";
import { parseKustomization } from "./kustomization.ts";
import { createWatchedKind, type WatchedKindDeps } from "./watched-kind.ts";

export interface WatchedFluxDeployments extends FluxDeployments {
  /** Starts to watch. Resolves once all have been listed, or it is known that the cluster has none. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const kustomizations = {
  apiVersion: "kustomize.toolkit.fluxcd.io/v1",
  plural: "kustomizations",
  what: "Flux's Kustomizations",
  parse: parseKustomization,
} as const;

export function createFluxDeployments(
  deps: Pick<WatchedKindDeps<FluxDeployment>, "client" | "namespaces" | "log" | "lookEveryMs" | "retryMs">,
): WatchedFluxDeployments {
  const listeners: OnResourceChange<FluxDeployment>[] = [];
  const watched = createWatchedKind<FluxDeployment>({
    ...deps,
    ...kustomizations,
    onChange(before, after) {
      for (const listener of listeners) listener(before, after);
    },
  });
  return {
    start: watched.start,
    stop: watched.stop,
    synced: watched.synced,
    all: watched.all,
    onChange: (callback) => void listeners.push(callback),
  };
}

/** Lists them once; `undefined` if the cluster does not have their definition. Throws ApiError. */
export function listFluxDeployments(
  client: Pick<KubeClient, "list" | "request">,
  namespaces: readonly string[],
  labelSelector?: string,
): Promise<readonly FluxDeployment[] | undefined> {
  return listKind(client, kustomizations, namespaces, labelSelector);
}
