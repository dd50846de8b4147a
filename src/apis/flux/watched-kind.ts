/** Watches one kind of resource that a cluster may or may not have: its definition may appear and vanish at any time. */
import type { KubeClient } from "../../kube/client.ts";
import { collectionOf, isKindServed, keepLooking, type Kind } from "../../kube/kind.ts";
import { startWatch, type Watch } from "../../kube/watch.ts";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { type Key, keyText } from "../../model.ts";
import type { OnResourceChange } from "../../ports.ts";

export interface WatchedKindDeps<T> extends Kind {
  readonly client: KubeClient;
  /** The resources, as messages name them. */
  readonly what: string;
  readonly parse: (resource: unknown) => T | undefined;
  /** Empty: all. */
  readonly namespaces: readonly string[];
  readonly log: Logger;
  readonly onChange?: OnResourceChange<T> | undefined;
  /** How often to check whether the definition was added or removed. */
  readonly lookEveryMs?: number | undefined;
  readonly retryMs?: number | undefined;
}

export interface WatchedKind<T> {
  /** Starts to watch. Resolves once all resources have been listed, or it is known that there are none. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Whether all resources that the cluster has, and that the server's account may read, are known. */
  synced(): boolean;
  /** From memory. */
  all(): readonly T[];
  /** From memory. */
  find(key: Key): T | undefined;
  /** The path of a resource. */
  pathOf(key: Key): string;
}

export function createWatchedKind<T extends { readonly key: Key }>(deps: WatchedKindDeps<T>): WatchedKind<T> {
  const { client, what, parse, log, onChange, lookEveryMs = 60_000 } = deps;
  const namespaces = deps.namespaces.length === 0 ? [undefined] : deps.namespaces;
  const known = new Map<string, T>();
  const abort = new AbortController();
  const { signal } = abort;
  let watches: readonly Watch[] = [];
  let looking: Promise<void> | undefined;
  let hasLooked = false;

  function set(id: string, after: T | undefined): void {
    const before = known.get(id);
    if (after === undefined) known.delete(id);
    else known.set(id, after);
    if (before !== undefined || after !== undefined) onChange?.(before, after);
  }

  function watchNamespace(namespace: string | undefined): Watch {
    return startWatch({
      ...{ client, log, what, retryMs: deps.retryMs, path: collectionOf(deps, namespace) },
      missing: "their definition was removed from the cluster",
      onList(objects) {
        const listed = new Map(objects.flatMap((object) => toEntry(parse(object))));
        for (const [id, { key }] of [...known]) {
          if ((namespace === undefined || key.namespace === namespace) && !listed.has(id)) set(id, undefined);
        }
        for (const [id, one] of listed) set(id, one);
      },
      onEvent(type, object) {
        const id = idOf(object);
        // A resource that was edited into a form that cannot be followed is not followed any more.
        if (id !== undefined) set(id, type === "DELETED" ? undefined : parse(object));
      },
    });
  }

  async function look(): Promise<void> {
    const served = await isKindServed(client, deps, signal);
    if (served && watches.length === 0) {
      log.info(`watching ${what}`);
      watches = namespaces.map(watchNamespace);
    }
    if (!served && watches.length > 0) {
      await stopWatches();
      log.info(`${what} are not watched any more: their definition was removed from the cluster`);
      for (const id of [...known.keys()]) set(id, undefined);
    }
  }

  async function stopWatches(): Promise<void> {
    const stopping = watches;
    watches = [];
    await Promise.all(stopping.map((watch) => watch.stop()));
  }

  return {
    async start() {
      const looked = Promise.withResolvers<void>();
      const first = (): void => {
        hasLooked = true;
        looked.resolve();
      };
      looking = keepLooking({
        look: () => look().then(first),
        failed(error) {
          if (isForbidden(error)) first();
          log.debug({ error: error.message }, `could not look for ${what}; retrying`);
        },
        everyMs: lookEveryMs,
        signal,
      }).finally(() => looked.resolve());
      await looked.promise;
      await Promise.all(watches.map(({ listed }) => listed));
    },
    async stop() {
      abort.abort();
      await looking;
      await stopWatches();
    },
    synced: () => hasLooked && watches.every((one) => one.synced() || one.status() === 403),
    all: () => [...known.values()],
    find: (key) => known.get(keyText(key)),
    pathOf: ({ namespace, name }) => `${collectionOf(deps, namespace)}/${encodeURIComponent(name)}`,
  };
}

function isForbidden(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

function toEntry<T extends { readonly key: Key }>(one: T | undefined): [string, T][] {
  return one === undefined ? [] : [[keyText(one.key), one]];
}

function idOf(object: unknown): string | undefined {
  const { namespace, name } = (object as { metadata?: Partial<Key> } | undefined)?.metadata ?? {};
  return namespace === undefined || name === undefined ? undefined : keyText({ namespace, name });
}
