/** The deployments of one API: watched, indexed by name, read and written. */
import { within } from "../kit/deadline.ts";
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { JsonObject } from "../kit/json.ts";
import type { KubeClient, KubeRequest } from "../kube/client.ts";
import { decideAndWrite } from "../kube/decide-and-write.ts";
import {
  createDeploymentIndex,
  type DeploymentIndex,
  isNewer,
  type ResourceVersion,
} from "../kube/deployment-index.ts";
import { keepLooking } from "../kube/kind.ts";
import { readOrNothing } from "../kube/read-or-nothing.ts";
import { startWatch, type Watch } from "../kube/watch.ts";
import type { Logger } from "../log.ts";
import { type AnyDeployment, type DeploymentRef, finalizer, type Key, keyText } from "../model.ts";
import type { Deployments, Secrets } from "../ports.ts";
import { collectionPath, type DeploymentApi, isServed, resourcePath } from "./api.ts";
import { type ApiResource, parseResource } from "./resource.ts";

export interface OneApiDeps {
  readonly api: DeploymentApi;
  readonly client: KubeClient;
  readonly secrets?: Pick<Secrets, "get"> | undefined;
  /** Default: all namespaces. */
  readonly namespaces?: readonly string[] | undefined;
  /** Field manager of writes, unless the API has its own. */
  readonly controllerName: string;
  readonly log: Logger;
  /** Whether an API with precedence has a resource with this name. */
  readonly isTaken: (key: Key) => boolean;
  readonly silentMs?: number | undefined;
  readonly retryMs?: number | undefined;
  /** How often to check whether an optional API was added or removed. */
  readonly lookEveryMs?: number | undefined;
  readonly observe?: { restarted(why: string): void } | undefined;
}

export interface OneApi
  extends
    Pick<
      Deployments,
      | "get"
      | "resource"
      | "overridden"
      | "patchStatus"
      | "moveTimes"
      | "setFinalizer"
      | "removeAnnotation"
      | "setAnnotation"
    >,
    Pick<DeploymentIndex, "find" | "onChange"> {
  readonly api: DeploymentApi;
  /**
   * Resolves once all resources have been listed, or it is known that the cluster does not have an optional API. `mayWrite`:
   * whether this server hands over now; a server that has to wait does so within a minute of the end of that.
   */
  start(mayWrite: () => boolean): Promise<void>;
  stop(): Promise<void>;
  /** Whether all resources that have to be served are known. */
  synced(): boolean;
  /** Why the watch does not work at the moment, as text for users. */
  problem(): string | undefined;
  /** Seconds since the last sign of life of the watch that has been silent for longest. */
  age(): number;
  /**
   * Hands over to the resource of the same name in an API with precedence: says so in the status, and removes the
   * finalizer if the resource is being deleted.
   */
  giveWay(key: Key): void;
}

const Identified = z.object({
  metadata: z.object({
    name: z.string().min(1),
    namespace: z.string().min(1),
    uid: z.string().min(1),
    resourceVersion: z.string().catch(""),
  }),
});

/** The newest version of a resource that the watch has seen. */
interface Seen extends ResourceVersion {
  readonly key: Key;
  readonly object: unknown;
}

/** How many conflicting writes a status update survives. */
const maxTries = 6;

/** A status is written after the work is done: if the write is lost, the work has to be done again. */
const statusPatience = { totalMs: 60_000 };

export function createOneApi({ api, client, log, isTaken, ...deps }: OneApiDeps): OneApi {
  const namespaces = deps.namespaces?.length ? deps.namespaces : [undefined];
  const { lookEveryMs = 60_000 } = deps;
  const abort = new AbortController();
  const { signal } = abort;
  const index = createDeploymentIndex(log);
  const resources = new Map<string, Seen>();
  /** By UID: the newest version that was read or written, for existing resources. */
  const versions = new Map<string, ResourceVersion>();
  index.onChange(({ kind, deployment }) => {
    if (kind === "removed") versions.delete(deployment.uid);
  });
  /** Listed, but not in the index: it is not known yet what they reference. */
  const pending = new Set<string>();
  const givingWay = new Set<string>();
  const readResource = api.createReader({ client, secrets: deps.secrets });
  const { parse, references } = api.startParser({
    client,
    log,
    retryMs: deps.retryMs,
    onChange: (concerns) => [...resources.values()].filter(({ object }) => concerns(object)).forEach(present),
  });
  let watches: readonly Watch[] = [];
  let served: boolean | undefined;
  let looking: Promise<void> | undefined;
  let mayHandOver = (): boolean => true;

  // -------------------------------------------------------------------------------------------------------------
  // What the watch knows

  function identify(object: unknown): Seen[] {
    const { data } = Identified.safeParse(object);
    if (data === undefined) {
      log.warn(
        { apiVersion: api.apiVersion },
        "ignored a KluctlDeployment from the API server: it has no name, no namespace or no UID",
      );
      return [];
    }
    const { name, namespace, ...version } = data.metadata;
    return [{ key: { namespace, name }, ...version, object }];
  }

  function present({ key, object }: Pick<Seen, "key" | "object">): void {
    const entry = parse(object, index.find);
    if (entry === "pending") pending.add(keyText(key));
    else pending.delete(keyText(key));
    if (typeof entry === "object") index.set(entry);
  }

  function take(seen: Seen): void {
    const id = keyText(seen.key);
    const before = resources.get(id);
    if (before !== undefined && !isNewer(seen, before)) return;
    keep(seen);
  }

  /**
   * A list is never older than what the watch has shown before. If its versions are lower all the same, the API server's
   * data were restored from a backup, and what is known of them is no longer true.
   */
  function takeListed(seen: Seen): void {
    const before = resources.get(keyText(seen.key));
    const known = versions.get(seen.uid);
    if (known !== undefined && isNewer(known, seen)) versions.delete(seen.uid);
    if (before?.uid !== seen.uid || before.resourceVersion !== seen.resourceVersion) keep(seen);
  }

  function keep(seen: Seen): void {
    const id = keyText(seen.key);
    resources.set(id, references ? seen : { ...seen, object: undefined });
    present(seen);
    if (isTaken(seen.key)) giveWay(seen.key);
  }

  function forget(key: Key, last: AnyDeployment | undefined = index.find(key)): void {
    resources.delete(keyText(key));
    pending.delete(keyText(key));
    if (last !== undefined) index.remove(last);
  }

  function watchNamespace(namespace: string | undefined): Watch {
    return startWatch({
      ...deps,
      client,
      log,
      observe: api.isOptional ? undefined : deps.observe,
      path: collectionPath(api, namespace),
      what: api.what,
      missing: api.missing,
      onList(objects) {
        const listed = objects.flatMap(identify);
        const there = new Set(listed.map(({ key }) => keyText(key)));
        for (const { key } of [...resources.values()]) {
          const ours = namespace === undefined || key.namespace === namespace;
          if (ours && !there.has(keyText(key))) forget(key);
        }
        listed.forEach(takeListed);
      },
      onEvent(type, object) {
        for (const seen of identify(object)) {
          if (type !== "DELETED") take(seen);
          else if (resources.get(keyText(seen.key))?.uid === seen.uid) {
            const last = parse(object, index.find);
            forget(seen.key, typeof last === "object" ? last : undefined);
          }
        }
      },
    });
  }

  async function look(): Promise<void> {
    served = await isServed(client, api);
    if (served && watches.length === 0) {
      log.info(`the cluster also has KluctlDeployments of ${api.apiVersion}`);
      watches = namespaces.map(watchNamespace);
    }
    if (!served && watches.length > 0) {
      await Promise.all(watches.map((watch) => watch.stop()));
      watches = [];
      for (const { key } of [...resources.values()]) forget(key);
    }
    if (!served) return;
    await references?.refresh();
    for (const { key } of resources.values()) if (isTaken(key)) giveWay(key);
  }

  // -------------------------------------------------------------------------------------------------------------
  // Reads and writes

  async function readObject(key: Key): Promise<unknown> {
    const object = await readOrNothing(client, resourcePath(api, key));
    noteVersion(object);
    return object;
  }

  async function readRaw(key: Key): Promise<ApiResource | undefined> {
    return parseResource(await readObject(key));
  }

  async function readThis({ key, uid }: DeploymentRef): Promise<ApiResource> {
    const found = await readRaw(key);
    if (found?.metadata.uid === uid) return found;
    throw new ApiError(found ? 409 : 404, `${keyText(key)} ${found ? "was deleted and created again" : "was deleted"}`);
  }

  function noteVersion(resource: unknown): void {
    const found = Identified.safeParse(resource).data?.metadata;
    const before = found && versions.get(found.uid);
    if (found && (before === undefined || isNewer(found, before))) versions.set(found.uid, found);
  }

  function newestVersion({ key, uid }: DeploymentRef): string | undefined {
    const [seen, known] = [resources.get(keyText(key)), versions.get(uid)];
    const isSeen = seen?.uid === uid && (known === undefined || isNewer(seen, known));
    return isSeen ? seen.resourceVersion : known?.resourceVersion;
  }

  async function patch(path: string, body: JsonObject, options: Partial<KubeRequest> = {}): Promise<unknown> {
    const query = { fieldManager: api.fieldManager ?? deps.controllerName };
    const written = await client.request({ method: "PATCH", path, query, body, ...options });
    noteVersion(written);
    return written;
  }

  async function patchMetadata(
    { key, uid }: Pick<DeploymentRef, "key" | "uid">,
    decide: (resource: ApiResource) => JsonObject | undefined,
  ): Promise<void> {
    await decideAndWrite(
      () => readRaw(key),
      (resource) => (resource.metadata.uid === uid ? decide(resource) : undefined),
      ({ metadata: { resourceVersion } }, wanted) =>
        patch(resourcePath(api, key), { metadata: { ...wanted, resourceVersion } }),
    );
  }

  function withFinalizer(name: string, present: boolean): (resource: ApiResource) => JsonObject | undefined {
    return ({ metadata: { finalizers } }) => {
      if (finalizers.includes(name) === present) return undefined;
      return { finalizers: present ? [...finalizers, name] : finalizers.filter((other) => other !== name) };
    };
  }

  function giveWay(key: Key): void {
    const resource = parseResource(resources.get(keyText(key))?.object);
    if (resource === undefined) return;
    const { uid, deletionTimestamp, finalizers } = resource.metadata;
    const status = api.handOver?.(resource);
    const leaving = deletionTimestamp !== undefined && finalizers.includes(api.finalizer);
    if ((status === undefined && !leaving) || givingWay.has(uid) || !mayHandOver()) return;
    givingWay.add(uid);
    const work = async () => {
      if (status !== undefined) await patch(`${resourcePath(api, key)}/status`, { status }, statusPatience);
      if (leaving) await patchMetadata({ key, uid }, withFinalizer(api.finalizer, false));
      log.info({ ...key, leaving }, "legacy KluctlDeployment replaced by the newer one with its name");
    };
    work()
      .catch((error: unknown) => {
        const gone = error instanceof ApiError && error.status === 404;
        if (!gone)
          log.warn({ ...key, error: (error as Error).message }, "could not hand over to the newer KluctlDeployment");
      })
      .finally(() => givingWay.delete(uid));
  }

  return {
    api,
    find: index.find,
    onChange: index.onChange,
    giveWay,
    async start(mayWrite) {
      mayHandOver = mayWrite;
      if (!api.isOptional) {
        watches = namespaces.map(watchNamespace);
        await Promise.all(watches.map(({ listed }) => listed));
        return;
      }
      const first = Promise.withResolvers<void>();
      looking = keepLooking({
        look: () => look().then(first.resolve),
        failed: ({ message }) => log.debug({ error: message }, `could not list ${api.what}; retrying`),
        everyMs: lookEveryMs,
        signal,
      }).finally(first.resolve);
      await first.promise;
      const listed = Promise.all(watches.map((watch) => watch.listed));
      await within(5_000, listed, () => undefined, { ref: false });
    },
    async stop() {
      abort.abort();
      await Promise.all([looking, references?.stop(), ...watches.map((watch) => watch.stop())]);
    },
    // Of an optional API, namespaces that we may not read, and resources that were removed, are not our responsibility.
    synced() {
      if (served === false) return true;
      if (pending.size > 0) return false;
      return watches.length > 0 && watches.every((one) => one.synced() || (api.isOptional && one.status() === 403));
    },
    problem: () => (api.isOptional ? undefined : watches.map((one) => one.problem()).find((why) => why !== undefined)),
    age: () => (api.isOptional ? 0 : Math.max(0, ...watches.map((watch) => watch.age()))),
    async get(key) {
      if (served === false) return undefined;
      const object = await readObject(key);
      return object === undefined ? undefined : readResource(object, index.find);
    },
    async resource(key) {
      const object = served === false ? undefined : await readObject(key);
      return typeof object === "object" && object !== null ? (object as JsonObject) : undefined;
    },
    async overridden({ key, uid }, changes) {
      const wanted = api.override?.(await readObject(key), changes);
      return wanted?.uid === uid ? wanted : undefined;
    },
    async patchStatus(ref, wanted, abortSignal) {
      const path = `${resourcePath(api, ref.key)}/status`;
      const readNext = async () => {
        const resource = await readThis(ref);
        const status = api.toStatus?.(resource, wanted, ref, index.find(ref.key)) ?? wanted;
        return { metadata: { resourceVersion: resource.metadata.resourceVersion }, status };
      };
      // The API server does not compare UIDs when a status is written: a late write would hit a new resource of the
      // same name.
      const resourceVersion = api.toStatus ? undefined : newestVersion(ref);
      let body = resourceVersion === undefined ? await readNext() : { metadata: { resourceVersion }, status: wanted };
      for (let tries = 1; ; tries++) {
        try {
          const written = await patch(path, body, { signal: abortSignal, ...statusPatience });
          return parseResource(written)?.metadata.generation;
        } catch (error) {
          if (!(error instanceof ApiError && error.status === 409) || tries >= maxTries) throw error;
          body = await readNext();
        }
      }
    },
    async moveTimes({ key, uid, resourceVersion }, status) {
      if (api.toStatus) return false;
      try {
        await patch(`${resourcePath(api, key)}/status`, { metadata: { uid, resourceVersion }, status });
        return true;
      } catch (error) {
        if (error instanceof ApiError && (error.status === 409 || error.status === 404)) return false;
        throw error;
      }
    },
    async setFinalizer(ref, name, present) {
      await patchMetadata(ref, withFinalizer(name === finalizer ? api.finalizer : name, present));
    },
    async removeAnnotation(ref, name, value) {
      let status: JsonObject | undefined;
      await patchMetadata(ref, (resource) => {
        const isThere = resource.metadata.annotations[name] === value;
        status = isThere ? undefined : api.acknowledge?.(resource, value);
        return isThere ? { annotations: { [name]: null } } : undefined;
      });
      if (status !== undefined) await patch(`${resourcePath(api, ref.key)}/status`, { status }, statusPatience);
    },
    async setAnnotation(ref, name, value) {
      await patchMetadata(ref, ({ metadata: { annotations } }) =>
        annotations[name] === value ? undefined : { annotations: { [name]: value ?? null } },
      );
    },
  };
}
