/** Flux's GitRepositories: watched, indexed by repository, and requested to fetch. Nothing else of them is written. */
import type { KubeClient } from "../../kube/client.ts";
import { listKind } from "../../kube/kind.ts";
import { readOrNothing } from "../../kube/read-or-nothing.ts";
import type { JsonObject } from "../../kit/json.ts";
import { type FluxSource, keyText, type RepoId } from "../../model.ts";
import type { FluxSources, OnResourceChange } from "../../ports.ts";
import { parseFluxSource, requestAnnotation } from "./git-repository.ts";
import { createWatchedKind, type WatchedKindDeps } from "./watched-kind.ts";

export type FluxSourcesDeps = Pick<
  WatchedKindDeps<FluxSource>,
  "client" | "namespaces" | "log" | "lookEveryMs" | "retryMs"
>;

export interface WatchedFluxSources extends FluxSources {
  /** Starts to watch. Resolves once all have been listed, or it is known that the cluster has none. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const gitRepositories = {
  apiVersion: "source.toolkit.fluxcd.io/v1",
  plural: "gitrepositories",
  what: "Flux's GitRepositories",
  parse: parseFluxSource,
} as const;

/** Who set the annotation, as the API server records it. */
const fieldManager = "towline";

export function createFluxSources(deps: FluxSourcesDeps): WatchedFluxSources {
  const { client } = deps;
  const byRepo = new Map<RepoId, Map<string, FluxSource>>();
  const listeners: OnResourceChange<FluxSource>[] = [];

  function move(before: FluxSource | undefined, after: FluxSource | undefined): void {
    if (before !== undefined) {
      const those = byRepo.get(before.repo);
      those?.delete(keyText(before.key));
      if (those?.size === 0) byRepo.delete(before.repo);
    }
    if (after === undefined) return;
    const those = byRepo.get(after.repo) ?? new Map<string, FluxSource>();
    byRepo.set(after.repo, those.set(keyText(after.key), after));
  }

  const watched = createWatchedKind<FluxSource>({
    ...deps,
    ...gitRepositories,
    onChange(before, after) {
      move(before, after);
      for (const listener of listeners) listener(before, after);
    },
  });
  return {
    start: watched.start,
    stop: watched.stop,
    synced: watched.synced,
    onChange: (callback) => void listeners.push(callback),
    all: watched.all,
    find: watched.find,
    following: (repo) => [...(byRepo.get(repo)?.values() ?? [])],
    get: async (key, signal) => parseFluxSource(await readOrNothing(client, watched.pathOf(key), signal)),
    resource: async (key, signal) =>
      (await readOrNothing(client, watched.pathOf(key), signal)) as JsonObject | undefined,
    async requestFetch(key, at, signal) {
      await client.request({
        ...{ method: "PATCH", path: watched.pathOf(key), query: { fieldManager }, signal },
        body: { metadata: { annotations: { [requestAnnotation]: at } } },
      });
    },
  };
}

/** Lists them once; `undefined` if the cluster does not have their definition. Throws ApiError. */
export function listFluxSources(
  client: Pick<KubeClient, "list" | "request">,
  namespaces: readonly string[],
): Promise<readonly FluxSource[] | undefined> {
  return listKind(client, gitRepositories, namespaces);
}
