/**
 * Watches the objects that deployments have applied; of each object only the version is kept. There is one watch per
 * kind, over all namespaces, for objects that carry a discriminator. If the server itself may not do that, there is one
 * watch per namespace, as the account that deploys there.
 */
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import {
  discriminatorLabel,
  objectId,
  versionOf,
  type ObjectMetadata,
  type ObjectVersion,
} from "../model/object-version.ts";
import type { AppliedObjects } from "../ports.ts";
import type { AppliedKind } from "../model.ts";
import type { KubeClient } from "./client.ts";
import { rootOf } from "./kind.ts";
import { startWatch, type Watch } from "./watch.ts";

export interface AppliedObjectsLimits {
  readonly watches: number;
  readonly objects: number;
  /** A watch that is silent for this long is not evidence of anything. The API server sends a bookmark each minute. */
  readonly silentMs: number;
  /** A refused watch is tried again after this long. */
  readonly againMs: number;
  /** A watch that has not been used for this long is stopped. */
  readonly idleMs: number;
}

const defaultLimits: AppliedObjectsLimits = {
  watches: 100,
  objects: 100_000,
  silentMs: 90_000,
  againMs: 600_000,
  idleMs: 3 * 3_600_000,
};

export interface AppliedObjectsDeps {
  readonly client: Pick<KubeClient, "request" | "list" | "stream">;
  readonly log: Logger;
  readonly limits?: Partial<AppliedObjectsLimits> | undefined;
  /** Monotonic milliseconds. */
  readonly now?: (() => number) | undefined;
}

export interface WatchedObjects extends AppliedObjects {
  size(): { watches: number; objects: number };
  stop(): Promise<void>;
}

/** One list that is being watched. */
interface Watched {
  readonly watch: Watch;
  /** By discriminator. */
  readonly objects: Map<string, Map<string, ObjectVersion>>;
  readonly owners: Map<string, string>;
  usedAt: number;
}

interface Kind {
  readonly path: (namespace: string) => string;
}

interface Refusal {
  readonly why: string;
  readonly at: number;
}

interface PartialMetadata {
  readonly metadata?: ObjectMetadata;
}

interface ResourceList {
  readonly resources?: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
    readonly verbs?: readonly string[];
  }[];
}

const accept = {
  list: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
  watch: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
};

export function createAppliedObjects({ client, log, now = () => performance.now(), ...deps }: AppliedObjectsDeps) {
  const limits = { ...defaultLimits, ...deps.limits };
  const kinds = new Map<string, Kind | "asked">();
  const refusals = new Map<string, Refusal>();
  const watched = new Map<string, Watched>();
  const ending = new Set<Promise<void>>();
  const callbacks: Parameters<AppliedObjects["onChange"]>[0][] = [];
  const logged = new Set<string>();
  let count = 0;

  function find(discriminator: string, { impersonate, kinds: wanted }: Parameters<AppliedObjects["find"]>[1]) {
    endIdle();
    const found = new Map<string, ObjectVersion>();
    let unknown: string | undefined;
    // Open the watches of all kinds even if the first is not ready, so that they are ready for the next call.
    for (const kind of wanted) {
      const lists = listsOf(kind, impersonate);
      if (typeof lists === "string") unknown ??= lists;
      else
        for (const { objects } of lists) {
          for (const [id, version] of objects.get(discriminator) ?? []) found.set(id, version);
        }
    }
    // Also find objects that carry the discriminator but are of kinds that this deployment does not deploy itself, as
    // far as other deployments have these kinds watched.
    for (const { objects } of watched.values()) {
      for (const [id, version] of objects.get(discriminator) ?? []) if (!found.has(id)) found.set(id, version);
    }
    return unknown === undefined ? { objects: found } : { unknown };
  }

  /** Returns the watches that cover a kind in these namespaces, or the reason why there is none. */
  function listsOf(kind: AppliedKind, impersonate: string | undefined): readonly Watched[] | string {
    const known = kindOf(kind);
    if (typeof known === "string") return known;
    const all = open(kind, known.path(""), undefined);
    if (typeof all !== "string") return [all];
    const refused = refusals.get(` ${known.path("")}`);
    if (refused === undefined) return all;
    if (impersonate === undefined) return tellOnce(refused.why);
    const lists = kind.namespaces.map((namespace) => open(kind, known.path(namespace), impersonate));
    const why = lists.find((list) => typeof list === "string");
    if (why === undefined) return lists.filter((list) => typeof list !== "string");
    const both = kind.namespaces.flatMap((namespace) => refusals.get(`${impersonate} ${known.path(namespace)}`) ?? []);
    return both[0] === undefined ? why : tellOnce(both[0].why);
  }

  /** Logs only what neither login may watch: if the server may not, the account that deploys usually may. */
  function tellOnce(why: string): string {
    if (!logged.has(why)) {
      logged.add(why);
      log.info({ why }, "objects not watched; deployments with such objects are compared at each interval");
    }
    return why;
  }

  function open({ group, kind }: AppliedKind, path: string, as: string | undefined): Watched | string {
    const key = `${as ?? ""} ${path}`;
    const refusal = refusals.get(key);
    if (refusal !== undefined && now() - refusal.at < limits.againMs) return refusal.why;
    let one = watched.get(key);
    if (one === undefined) {
      if (watched.size >= limits.watches) return overBudget(`more than ${limits.watches} watches would be needed`);
      one = start(group, kind, path, as);
      watched.set(key, one);
    }
    one.usedAt = now();
    const { watch } = one;
    if (watch.status() === 403 || watch.status() === 404) {
      const why = `${as ?? "the server"} is not allowed to list and watch ${path}`;
      refuse(key, why);
      return why;
    }
    refusals.delete(key);
    if (count > limits.objects) {
      const why = overBudget(`more than ${limits.objects} objects`);
      refuse(key, why);
      return why;
    }
    const problem = watch.problem();
    if (!watch.synced() || problem !== undefined) return `${path}: ${problem ?? "not listed yet"}`;
    return watch.age() * 1_000 < limits.silentMs ? one : `${path}: the watch is stale`;
  }

  function refuse(key: string, why: string): void {
    refusals.set(key, { why, at: now() });
    end(key);
  }

  function overBudget(why: string): string {
    if (!logged.has(why)) {
      logged.add(why);
      log.warn({ why }, "object watch limit reached; the other deployments are compared at each interval");
    }
    return why;
  }

  /** The resource name of a kind is looked up once; the kind cannot be watched before the answer arrives. */
  function kindOf({ apiVersion, kind }: AppliedKind): Kind | string {
    const key = `${apiVersion} ${kind}`;
    const refusal = refusals.get(key);
    if (refusal !== undefined && now() - refusal.at < 30_000) return refusal.why;
    const known = kinds.get(key);
    if (known !== undefined && known !== "asked") return known;
    if (known === undefined) {
      kinds.set(key, "asked");
      void ask(apiVersion, kind).then(
        (found) => kinds.set(key, found),
        (error: unknown) => {
          kinds.delete(key);
          refusals.set(key, { why: error instanceof Error ? error.message : String(error), at: now() });
        },
      );
    }
    return `${kind} is not watched yet`;
  }

  async function ask(apiVersion: string, kind: string): Promise<Kind> {
    const root = rootOf(apiVersion);
    const { resources = [] } = (await client.request({ method: "GET", path: root })) as ResourceList;
    const resource = resources.find((one) => one.kind === kind && !one.name.includes("/"));
    if (!resource?.verbs?.includes("watch")) throw new ApiError(0, `${kind} of ${apiVersion} cannot be watched`);
    const { name, namespaced } = resource;
    return {
      path: (namespace) =>
        namespaced && namespace !== ""
          ? `${root}/namespaces/${encodeURIComponent(namespace)}/${name}`
          : `${root}/${name}`,
    };
  }

  function start(group: string, kind: string, path: string, as: string | undefined): Watched {
    const objects: Watched["objects"] = new Map();
    const owners: Watched["owners"] = new Map();

    function remove(id: string): void {
      const owner = owners.get(id);
      if (owner === undefined) return;
      owners.delete(id);
      const others = objects.get(owner);
      others?.delete(id);
      if (others?.size === 0) objects.delete(owner);
      count--;
      notify(owner, id, true);
    }

    function set({ metadata = {} }: PartialMetadata): string | undefined {
      const discriminator = metadata.labels?.[discriminatorLabel];
      const version = versionOf(group, kind, metadata);
      const id = objectId(group, kind, metadata);
      if (discriminator === undefined || version === undefined) return undefined;
      const owner = owners.get(id);
      if (owner !== undefined && owner !== discriminator) remove(id);
      const mine = objects.get(discriminator) ?? new Map<string, ObjectVersion>();
      const before = mine.get(id);
      if (before?.resourceVersion === version.resourceVersion) return id;
      if (before === undefined) count++;
      objects.set(discriminator, mine.set(id, version));
      owners.set(id, discriminator);
      notify(discriminator, id, false);
      return id;
    }

    const watch = startWatch({
      client,
      path,
      what: `${kind} objects that were applied`,
      query: { labelSelector: discriminatorLabel },
      accept,
      as,
      quiet: true,
      log,
      onList(listed) {
        const there = new Set(listed.map((object) => set(object as PartialMetadata)));
        for (const id of [...owners.keys()]) if (!there.has(id)) remove(id);
      },
      onEvent(type, object) {
        const { metadata = {} } = object as PartialMetadata;
        // For this watch, an object that lost the label counts as deleted.
        if (type === "DELETED") remove(objectId(group, kind, metadata));
        else set({ metadata });
      },
    });
    return { watch, objects, owners, usedAt: now() };
  }

  function notify(discriminator: string, id: string, deleted: boolean): void {
    for (const callback of callbacks) callback({ discriminator, id, deleted });
  }

  function end(key: string): void {
    const one = watched.get(key);
    if (one === undefined) return;
    watched.delete(key);
    count -= one.owners.size;
    const ended = one.watch.stop().finally(() => ending.delete(ended));
    ending.add(ended);
  }

  function endIdle(): void {
    for (const [key, { usedAt }] of watched) if (now() - usedAt > limits.idleMs) end(key);
  }

  return {
    find,
    onChange: (callback) => void callbacks.push(callback),
    size: () => ({ watches: watched.size, objects: count }),
    async stop() {
      for (const key of [...watched.keys()]) end(key);
      await Promise.all(ending);
    },
  } satisfies WatchedObjects;
}
