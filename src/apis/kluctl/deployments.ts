/** The KluctlDeployments: watched, indexed by repository, and written to. */
import { z } from "zod";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { type DeploymentChange, type DeploymentRef, type Key, keyText } from "../../model.ts";
import type { Deployments } from "../../ports.ts";
import type { KubeClient } from "../../kube/client.ts";
import { parseDeployment, resourcePath } from "./custom-resource.ts";
import { decideAndWrite } from "../../kube/decide-and-write.ts";
import { createDeploymentIndex, type Entry, isNewer, type Version } from "../../kube/deployment-index.ts";
import { createEvents } from "../../kube/events.ts";
import { parseOverridden } from "./override-patch.ts";
import { startWatch, type Watch } from "../../kube/watch.ts";
import { whenSynced } from "../../kube/when-synced.ts";

export interface DeploymentsDeps {
  readonly client: KubeClient;
  /** Default: all namespaces. */
  readonly namespaces?: readonly string[] | undefined;
  /** Field manager of all writes, and source of the Events. */
  readonly controllerName: string;
  readonly log: Logger;
  readonly silentMs?: number | undefined;
  readonly retryMs?: number | undefined;
  readonly observe?: { restarted(why: string): void } | undefined;
}

export interface WatchedDeployments extends Deployments {
  /** Starts the watch. Resolves once all deployments have been listed, however long that takes, or when stopped. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** From memory. */
  find(key: Key): Entry | undefined;
  /** Registers a callback for each change; existing deployments are reported as `added` by the first list. */
  onChange(callback: (change: DeploymentChange) => void): void;
  /** Seconds since the last sign of life of the watch that has been silent for longest. */
  age(): number;
  synced(): boolean;
  /** Why the watch does not work at the moment, as text for users. */
  problem(): string | undefined;
}

const Versioned = z.object({ metadata: z.object({ uid: z.string(), resourceVersion: z.string() }) });

/** How many conflicting writes a status update survives. */
const maxTries = 6;

/** A status is written after the work is done: if the write is lost, the work has to be done again. */
const statusPatience = { totalMs: 60_000 };

export function createDeployments(deps: DeploymentsDeps): WatchedDeployments {
  const { client, controllerName, log } = deps;
  const namespaces = deps.namespaces?.length ? deps.namespaces : [undefined];
  const index = createDeploymentIndex(log);
  const events = createEvents({ client, component: controllerName, log });
  /** By UID: the newest version that was read or written, for existing resources. */
  const versions = new Map<string, Version>();
  index.onChange(({ kind, deployment }) => {
    if (kind === "removed") versions.delete(deployment.uid);
  });
  let watches: readonly Watch[] = [];

  function parse(object: unknown): Entry | undefined {
    const entry = parseKnown(object);
    if (entry === undefined)
      log.warn({}, "ignored a KluctlDeployment from the API server: it has no name, no namespace or no UID");
    return entry;
  }

  const parseKnown = (resource: unknown) => parseDeployment(resource, index.find);

  function watchNamespace(namespace: string | undefined): Watch {
    return startWatch({
      ...deps,
      path: collectionPath(namespace),
      onList(objects) {
        const listed = objects.map(parse).filter((entry) => entry !== undefined);
        const there = new Set(listed.map(({ key }) => keyText(key)));
        for (const entry of index.all()) {
          const ours = namespace === undefined || entry.key.namespace === namespace;
          if (ours && !there.has(keyText(entry.key))) index.remove(entry);
        }
        listed.forEach(index.set);
      },
      onEvent(type, object) {
        const entry = parse(object);
        if (entry === undefined) return;
        if (type === "DELETED") return index.remove(entry);
        const previous = index.find(entry.key);
        if (previous === undefined || isNewer(entry, previous)) index.set(entry);
      },
    });
  }

  async function read(key: Key, parse: (resource: unknown) => Entry | undefined): Promise<Entry | undefined> {
    try {
      const resource = await client.request({ method: "GET", path: resourceOf(key) });
      noteVersion(resource);
      return parse(resource);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  }

  function noteVersion(resource: unknown): void {
    const found = Versioned.safeParse(resource).data?.metadata;
    const before = found && versions.get(found.uid);
    if (found && (before === undefined || isNewer(found, before))) versions.set(found.uid, found);
  }

  function newestVersion({ key, uid }: Pick<DeploymentRef, "key" | "uid">): string | undefined {
    const [seen, known] = [index.find(key), versions.get(uid)];
    const isSeen = seen?.uid === uid && (known === undefined || isNewer(seen, known));
    return isSeen ? seen.resourceVersion : known?.resourceVersion;
  }

  async function readVersion({ key, uid }: Pick<DeploymentRef, "key" | "uid">): Promise<string> {
    const found = await read(key, parseKnown);
    if (found?.uid === uid) return found.resourceVersion;
    throw new ApiError(found ? 409 : 404, `${keyText(key)} ${found ? "was deleted and created again" : "was deleted"}`);
  }

  async function patchMetadata(
    { key, uid }: DeploymentRef,
    decide: (entry: Entry) => Record<string, unknown> | undefined,
  ): Promise<void> {
    await decideAndWrite(
      () => read(key, parseKnown),
      (entry) => (entry.uid === uid ? decide(entry) : undefined),
      async ({ resourceVersion }, wanted) => {
        const body = { metadata: { ...wanted, resourceVersion } };
        const query = { fieldManager: controllerName };
        noteVersion(await client.request({ method: "PATCH", path: resourceOf(key), query, body }));
      },
    );
  }

  const synced = () => watches.length > 0 && watches.every((watch) => watch.synced());
  const problem = () => watches.map((watch) => watch.problem()).find((one) => one !== undefined);

  return {
    async start() {
      watches = namespaces.map(watchNamespace);
      await Promise.all(watches.map(({ listed }) => listed));
    },
    async stop() {
      await Promise.all(watches.map((watch) => watch.stop()));
      await events.idle();
    },
    onChange: index.onChange,
    age: () => Math.max(0, ...watches.map((watch) => watch.age())),
    synced,
    problem,
    whenSynced: (signal) => whenSynced({ synced, problem }, log, signal),
    get: (key) => read(key, parseKnown),
    async overridden({ key, uid }, patch) {
      const wanted = await read(key, (resource) => parseOverridden(resource, patch));
      return wanted?.uid === uid ? wanted : undefined;
    },
    find: index.find,
    tracking: index.tracking,
    all: index.all,
    async patchStatus(ref, status, signal) {
      const path = `${resourceOf(ref.key)}/status`;
      const query = { fieldManager: controllerName };
      // The API server does not compare UIDs when a status is written: a late write would hit a new resource of the
      // same name.
      let resourceVersion = newestVersion(ref) ?? (await readVersion(ref));
      for (let tries = 1; ; tries++) {
        const body = { metadata: { resourceVersion }, status };
        try {
          noteVersion(await client.request({ method: "PATCH", path, query, body, signal, ...statusPatience }));
          return;
        } catch (error) {
          if (!(error instanceof ApiError && error.status === 409) || tries >= maxTries) throw error;
          resourceVersion = await readVersion(ref);
        }
      }
    },
    async moveTimes({ key, uid, resourceVersion }, status) {
      const query = { fieldManager: controllerName };
      const body = { metadata: { uid, resourceVersion }, status };
      try {
        noteVersion(await client.request({ method: "PATCH", path: `${resourceOf(key)}/status`, query, body }));
        return true;
      } catch (error) {
        if (error instanceof ApiError && (error.status === 409 || error.status === 404)) return false;
        throw error;
      }
    },
    async setFinalizer(deployment, finalizer, present) {
      await patchMetadata(deployment, ({ finalizers }) => {
        if (finalizers.includes(finalizer) === present) return undefined;
        return { finalizers: present ? [...finalizers, finalizer] : finalizers.filter((name) => name !== finalizer) };
      });
    },
    async removeAnnotation(deployment, name, value) {
      await patchMetadata(deployment, ({ annotations }) =>
        annotations[name] === value ? { annotations: { [name]: null } } : undefined,
      );
    },
    event: events.report,
  };
}

function collectionPath(namespace: string | undefined): string {
  return namespace === undefined
    ? `${resourcePath}/kluctldeployments`
    : `${resourcePath}/namespaces/${encodeURIComponent(namespace)}/kluctldeployments`;
}

function resourceOf({ namespace, name }: Key): string {
  return `${collectionPath(namespace)}/${encodeURIComponent(name)}`;
}
