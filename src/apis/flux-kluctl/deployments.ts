/**
 * The KluctlDeployments of `flux.kluctl.io/v1alpha1`: watched while the cluster has that API, and written to in its own
 * terms.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ApiError } from "../../errors.ts";
import type { Logger } from "../../log.ts";
import { within } from "../../kit/deadline.ts";
import { applyMergePatch } from "../../kit/merge-patch.ts";
import {
  type DeploymentRef,
  finalizer,
  type GitRef,
  isMalformed,
  type Key,
  keyText,
  type StatusPatch,
} from "../../model.ts";
import type { Deployments, Secrets } from "../../ports.ts";
import type { KubeClient } from "../../kube/client.ts";
import { decideAndWrite } from "../../kube/decide-and-write.ts";
import { createDeploymentIndex, type DeploymentIndex, type Entry, isNewer } from "../../kube/deployment-index.ts";
import { startWatch, type Watch } from "../../kube/watch.ts";
import { pendingRequest, toEntry } from "./entry.ts";
import { createGitRepositories, readOrNothing } from "./git-repositories.ts";
import {
  type Fields,
  legacyAnnotation,
  legacyCollection,
  legacyFieldManager,
  legacyFinalizer,
  legacyKey,
  legacyPath,
  type LegacyResource,
  parseLegacy,
} from "./resource.ts";
import { referencesOf } from "./translate-spec.ts";
import { parseLegacyStatus, toLegacyPatch, toNewerStatus } from "./translate-status.ts";

export interface LegacyDeploymentsDeps {
  readonly client: KubeClient;
  readonly secrets: Secrets;
  readonly namespaces?: readonly string[] | undefined;
  readonly log: Logger;
  /** Whether the current API has a resource with the same name. */
  readonly hasTwin: (key: Key) => boolean;
  readonly retryMs?: number | undefined;
  /** How often to check whether the API was added or removed. */
  readonly lookEveryMs?: number | undefined;
}

export interface LegacyDeployments
  extends
    Pick<Deployments, "get" | "patchStatus" | "setFinalizer" | "removeAnnotation">,
    Pick<DeploymentIndex, "find" | "all" | "onChange"> {
  /** Resolves once it is known that the API is absent, or all resources have been listed. */
  start(): Promise<void>;
  stop(): Promise<void>;
  /** Whether all resources that have to be served are known. */
  synced(): boolean;
  /** Reads a resource as one of the current API; `undefined` if it does not exist. */
  read(key: Key, parse?: (resource: unknown) => Entry | undefined): Promise<Entry | undefined>;
  /**
   * Hands over to the resource of the same name in the current API: marks the legacy one as ready for migration, stops
   * reconciling it, and removes its finalizer if it is being deleted.
   */
  giveWay(key: Key): void;
}

export function createLegacyDeployments(deps: LegacyDeploymentsDeps): LegacyDeployments {
  const { client, secrets, log, hasTwin, lookEveryMs = 60_000 } = deps;
  const namespaces = deps.namespaces?.length ? deps.namespaces : [undefined];
  const abort = new AbortController();
  const { signal } = abort;
  const index = createDeploymentIndex(log);
  const resources = new Map<string, LegacyResource>();
  const givingWay = new Set<string>();
  const repositories = createGitRepositories({ ...deps, onChange: (key) => [...usersOf(key)].forEach(present) });
  let watches: readonly Watch[] = [];
  let served: boolean | undefined;
  let running: Promise<void> | undefined;

  // -------------------------------------------------------------------------------------------------------------
  // What the watch knows

  function* usersOf(repository: Key): Generator<LegacyResource> {
    for (const resource of resources.values()) {
      const used = repositoryOf(resource);
      if (used && keyText(used) === keyText(repository)) yield resource;
    }
  }

  /** Credentials are not read here: the worker that reconciles the deployment reads the ones it references. */
  function present(resource: LegacyResource): void {
    const key = repositoryOf(resource);
    const gitRepository = key && repositories.find(key);
    if (gitRepository === "pending") return;
    const entry = toEntry(resource, { gitRepository });
    if (entry !== undefined) index.set(entry);
  }

  function take(resource: LegacyResource): void {
    const key = legacyKey(resource);
    const before = resources.get(keyText(key));
    if (before !== undefined && !isNewer(resource.metadata, before.metadata)) return;
    resources.set(keyText(key), resource);
    present(resource);
    if (hasTwin(key)) giveWay(key);
  }

  function forget(key: Key): void {
    resources.delete(keyText(key));
    const entry = index.find(key);
    if (entry !== undefined) index.remove(entry);
  }

  function parse(object: unknown): LegacyResource | undefined {
    const resource = parseLegacy(object);
    if (resource === undefined)
      log.warn({}, "ignored a legacy KluctlDeployment from the API server: it has no name or no UID");
    return resource;
  }

  function watchNamespace(namespace: string | undefined): Watch {
    return startWatch({
      ...deps,
      path: legacyCollection(namespace),
      what: "the legacy KluctlDeployments (flux.kluctl.io)",
      missing: "their definition was removed from the cluster",
      onList(objects) {
        const listed = objects.map(parse).filter((resource) => resource !== undefined);
        const there = new Set(listed.map(({ metadata }) => metadata.uid));
        for (const resource of [...resources.values()]) {
          const ours = namespace === undefined || resource.metadata.namespace === namespace;
          if (ours && !there.has(resource.metadata.uid)) forget(legacyKey(resource));
        }
        listed.forEach(take);
      },
      onEvent(type, object) {
        const resource = parse(object);
        if (resource === undefined) return;
        if (type !== "DELETED") return take(resource);
        const key = legacyKey(resource);
        if (resources.get(keyText(key))?.metadata.uid === resource.metadata.uid) forget(key);
      },
    });
  }

  async function look(): Promise<void> {
    const list = (await readOrNothing(client, legacyPath)) as { resources?: { name?: string }[] } | undefined;
    served = list?.resources?.some(({ name }) => name === "kluctldeployments") ?? false;
    if (served && watches.length === 0) {
      log.info("the cluster also has KluctlDeployments of flux.kluctl.io/v1alpha1");
      watches = namespaces.map(watchNamespace);
    }
    if (!served && watches.length > 0) {
      await Promise.all(watches.map((watch) => watch.stop()));
      watches = [];
      [...resources.values()].map(legacyKey).forEach(forget);
    }
    if (!served) return;
    await repositories.refresh();
    for (const resource of resources.values()) if (hasTwin(legacyKey(resource))) giveWay(legacyKey(resource));
  }

  /** Clusters without the legacy API pay for one small request per minute. */
  async function run(first: () => void): Promise<void> {
    while (!signal.aborted) {
      let ms = lookEveryMs;
      try {
        await look();
        first();
      } catch (error) {
        ms = Math.min(lookEveryMs, 1_000);
        log.debug({ error: (error as Error).message }, "could not list legacy KluctlDeployments; retrying");
      }
      await sleep(ms, undefined, { signal }).catch(() => undefined);
    }
  }

  // -------------------------------------------------------------------------------------------------------------
  // Reads and writes

  function repositoryOf({ metadata, spec }: LegacyResource): Key | undefined {
    const { gitRepository: named } = referencesOf(spec);
    return named && { namespace: named.namespace || metadata.namespace, name: named.name };
  }

  function resourceOf({ namespace, name }: Key): string {
    return `${legacyCollection(namespace)}/${encodeURIComponent(name)}`;
  }

  async function readRaw(key: Key): Promise<LegacyResource | undefined> {
    return parseLegacy(await readOrNothing(client, resourceOf(key)));
  }

  async function readThis({ key, uid }: DeploymentRef): Promise<LegacyResource> {
    const resource = await readRaw(key);
    if (resource?.metadata.uid === uid) return resource;
    throw new ApiError(404, `${keyText(key)} of flux.kluctl.io/v1alpha1 was deleted`);
  }

  async function read(key: Key, parseNewer?: (resource: unknown) => Entry | undefined): Promise<Entry | undefined> {
    const resource = await readRaw(key);
    if (resource === undefined) return undefined;
    const repository = repositoryOf(resource);
    const gitRepository = repository && (await repositories.get(repository));
    const { helmSecrets: names, serviceAccount } = referencesOf(resource.spec);
    const read = async (name: string) => [name, await secrets.get(key.namespace, name, serviceAccount)] as const;
    const found = await Promise.all(names.map(read));
    const helmSecrets = new Map(found.flatMap(([name, data]) => (data ? [[name, data]] : [])));
    return toEntry(resource, { gitRepository, helmSecrets }, parseNewer);
  }

  async function patch(path: string, body: Fields, abortSignal?: AbortSignal): Promise<void> {
    const query = { fieldManager: legacyFieldManager };
    await client.request({ method: "PATCH", path, query, body, signal: abortSignal, totalMs: 60_000 });
  }

  async function patchMetadata(
    { key, uid }: Pick<DeploymentRef, "key" | "uid">,
    decide: (resource: LegacyResource) => Fields | undefined,
  ): Promise<void> {
    await decideAndWrite(
      () => readRaw(key),
      (resource) => (resource.metadata.uid === uid ? decide(resource) : undefined),
      ({ metadata: { resourceVersion } }, wanted) =>
        patch(resourceOf(key), { metadata: { ...wanted, resourceVersion } }),
    );
  }

  function toStatus(
    resource: LegacyResource,
    newer: StatusPatch,
    ref: GitRef,
    deployRequest: string | undefined,
  ): Fields {
    const now = toNewerStatus(parseLegacyStatus(resource.status));
    const { target, targetNameOverride, prune, validate } = resource.spec;
    const context = {
      ref,
      target: typeof target === "string" ? target : undefined,
      targetNameOverride: typeof targetNameOverride === "string" ? targetNameOverride : undefined,
      prune: prune === true,
      validate: validate !== false,
    };
    const status = toLegacyPatch(newer, applyMergePatch(now, newer) as Fields, context);
    // Only the request that this reconciliation has read counts as handled: a later one has to wait for the next.
    const answered = "observedGeneration" in newer ? deployRequest : undefined;
    return answered === undefined ? status : { ...status, lastHandledDeployAt: answered };
  }

  function withFinalizer(present: boolean): (resource: LegacyResource) => Fields | undefined {
    return ({ metadata: { finalizers } }) => {
      if (finalizers.includes(legacyFinalizer) === present) return undefined;
      const others = finalizers.filter((name) => name !== legacyFinalizer);
      return { finalizers: present ? [...others, legacyFinalizer] : others };
    };
  }

  function giveWay(key: Key): void {
    const resource = resources.get(keyText(key));
    if (resource === undefined) return;
    const { uid, deletionTimestamp, finalizers } = resource.metadata;
    const marked = parseLegacyStatus(resource.status).readyForMigration === true;
    const leaving = deletionTimestamp !== undefined && finalizers.includes(legacyFinalizer);
    if ((marked && !leaving) || givingWay.has(uid)) return;
    givingWay.add(uid);
    const work = async () => {
      if (!marked) await patch(`${resourceOf(key)}/status`, { status: { readyForMigration: true } });
      if (leaving) await patchMetadata({ key, uid }, withFinalizer(false));
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
    find: index.find,
    all: index.all,
    onChange: index.onChange,
    async start() {
      const first = Promise.withResolvers<void>();
      running = run(first.resolve).finally(first.resolve);
      await first.promise;
      const listed = Promise.all(watches.map((watch) => watch.listed));
      await within(5_000, listed, () => undefined, { ref: false });
    },
    async stop() {
      abort.abort();
      await Promise.all([running, repositories.stop(), ...watches.map((watch) => watch.stop())]);
    },
    // Namespaces that we may not read, and resources that were removed, are not our responsibility.
    synced: () =>
      served === false || (watches.length > 0 && watches.every((watch) => watch.synced() || watch.status() === 403)),
    get: (key) => (served === false ? Promise.resolve(undefined) : read(key)),
    read,
    giveWay,
    async patchStatus(ref, newer, abortSignal) {
      const { key } = ref;
      const known = index.find(key);
      const followed = known && !isMalformed(known) && known.spec.source.kind === "git" ? known.spec.source.ref : {};
      await decideAndWrite(
        () => readThis(ref),
        (resource) => toStatus(resource, newer, followed, ref.deployRequest),
        ({ metadata: { resourceVersion } }, status) =>
          patch(`${resourceOf(key)}/status`, { metadata: { resourceVersion }, status }, abortSignal),
      );
    },
    async setFinalizer(ref, name, present) {
      if (name !== finalizer) throw new Error(`${name} is not one of our finalizers`);
      await patchMetadata(ref, withFinalizer(present));
    },
    async removeAnnotation(ref, name, value) {
      const resource = await readThis(ref);
      if (resource.metadata.annotations[name] === value) {
        return patchMetadata(ref, ({ metadata }) =>
          metadata.annotations[name] === value ? { annotations: { [name]: null } } : undefined,
        );
      }
      // A request of the legacy API stays in its annotation; the status records that it was handled. A deploy request
      // counts as handled when the deploy is done.
      const asked = resource.metadata.annotations[legacyAnnotation.reconcile];
      if (pendingRequest(resource) !== value || asked === undefined) return;
      await patch(`${resourceOf(ref.key)}/status`, { status: { lastHandledReconcileAt: asked } });
    },
  };
}
