/**
 * Records every write to the episode's namespace in order, through watches of the harness's own that no fault reaches.
 */
import { createKubeClient } from "../../src/kube/client.ts";
import { startWatch } from "../../src/kube/watch.ts";
import { createLogger } from "../../src/log.ts";
import type { Condition, LeaseWrite, ObjectWrite, StatusWrite } from "./history.ts";
import { createWriters, stamp } from "./stamps.ts";

export interface Ledger {
  readonly objects: readonly ObjectWrite[];
  readonly leases: readonly LeaseWrite[];
  readonly statuses: readonly StatusWrite[];
  /** The last write of each object that exists. */
  liveObjects(): ReadonlyMap<string, ObjectWrite>;
  liveStatuses(): ReadonlyMap<string, StatusWrite>;
  /** Reads the holder of a deployment's Lease, which a watch may report too late; empty if there is none. */
  holderOf(deployment: string): Promise<string>;
  /** Called for each status write as it is observed. */
  onStatus(listener: (status: StatusWrite) => void): void;
  stop(): Promise<void>;
}

interface Live {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly deletionTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
}

/** `GONE`: deleted, which only a new list shows. */
type EventType = "ADDED" | "MODIFIED" | "DELETED" | "GONE";

const isDeletion = (type: EventType) => type === "DELETED" || type === "GONE";

/** Stands for the run that made a write of which nobody knows when it was, so that no run is blamed for it. */
const unseen = "unseen";
const leasePrefix = "towline-";
const manualKinds = ["diff", "deploy", "prune", "validate", "reconcile"] as const;

export async function startLedger(kubeconfig: string, namespace: string): Promise<Ledger> {
  const client = createKubeClient({ kubeconfig });
  const log = createLogger({ level: "silent", format: "json" });
  const objects: ObjectWrite[] = [];
  const leases: LeaseWrite[] = [];
  const statuses: StatusWrite[] = [];
  const listeners: ((status: StatusWrite) => void)[] = [];

  const watch = (path: string, see: (type: EventType, object: Live) => void) => {
    const { onList, onEvent } = createSight(see);
    return startWatch({ client, path, what: path, log, onList, onEvent });
  };
  const written = ({ metadata }: Live) => ({ version: Number(metadata.resourceVersion), at: Date.now() });

  const writerOf = createWriters();

  const watches = [
    watch(`/api/v1/namespaces/${namespace}/configmaps`, (type, object) => {
      const { name, annotations } = object.metadata;
      if (name === "kube-root-ca.crt") return;
      const deleted = isDeletion(type);
      const by = writerOf({ name, text: annotations?.[stamp], version: object.metadata.resourceVersion, deleted });
      const run = type === "GONE" ? (by ?? unseen) : by;
      objects.push({ ...written(object), name, deleted, data: object.data ?? {}, run });
    }),
    watch(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`, (type, object) => {
      const { name } = object.metadata;
      if (!name.startsWith(leasePrefix)) return;
      const holder = toHolder(isDeletion(type) ? undefined : object);
      leases.push({ ...written(object), deployment: name.slice(leasePrefix.length), holder });
    }),
    watch(`/apis/gitops.kluctl.io/v1beta1/namespaces/${namespace}/kluctldeployments`, (type, object) => {
      const status = { ...written(object), deleted: isDeletion(type), ...toStatus(object) };
      statuses.push(status);
      for (const listener of listeners) listener(status);
    }),
  ];
  await Promise.all(watches.map(({ listed }) => listed));

  return {
    objects,
    leases,
    statuses,
    liveObjects: () => lastOf(objects, ({ name }) => name),
    liveStatuses: () => lastOf(statuses, ({ deployment }) => deployment),
    async holderOf(deployment) {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${leasePrefix}${deployment}`;
      const lease = await client.request({ method: "GET", path }).catch((error: { status?: number }) => {
        if (error.status !== 404) throw error as Error;
      });
      return toHolder(lease as Live | undefined);
    },
    onStatus: (listener) => void listeners.push(listener),
    async stop() {
      await Promise.all(watches.map((one) => one.stop()));
      client.close();
    },
  };
}

/**
 * Passes each write on once, also if it is listed again, and the deletions that only a new list shows, before what that
 * list adds. Their versions are unknown: they get the newest one that was seen before.
 */
export function createSight(see: (type: EventType, object: Live) => void) {
  const live = new Map<string, Live>();
  let newest = 0;
  function onEvent(type: EventType, object: unknown): void {
    const { name, resourceVersion } = (object as Live).metadata;
    const isKnown = live.get(name)?.metadata.resourceVersion === resourceVersion;
    newest = Math.max(newest, Number(resourceVersion));
    if (type === "ADDED" || type === "MODIFIED") live.set(name, object as Live);
    else live.delete(name);
    if (!isKnown || !live.has(name)) see(type, object as Live);
  }
  return {
    onEvent,
    onList(listed: readonly unknown[]) {
      const uids = new Set((listed as readonly Live[]).map(({ metadata }) => metadata.uid));
      for (const { metadata, ...rest } of [...live.values()].filter((one) => !uids.has(one.metadata.uid)))
        onEvent("GONE", { ...rest, metadata: { ...metadata, resourceVersion: String(newest) } });
      for (const one of listed) onEvent("ADDED", one);
    },
  };
}

function toHolder(lease: Live | undefined): string {
  return String(lease?.spec?.["holderIdentity"] ?? "");
}

function lastOf<T extends { readonly deleted: boolean }>(writes: readonly T[], nameOf: (write: T) => string) {
  const live = new Map<string, T>();
  for (const write of writes) {
    if (write.deleted) live.delete(nameOf(write));
    else live.set(nameOf(write), write);
  }
  return live;
}

function toStatus({ metadata, spec = {}, status = {} }: Live) {
  const conditions = (status["conditions"] ?? []) as readonly (Condition & { readonly type: string })[];
  const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : undefined);
  const deployed = status["lastDeployResult"] as { errors?: readonly unknown[] | null } | undefined;
  return {
    deployment: metadata.name,
    uid: metadata.uid,
    deleting: metadata.deletionTimestamp !== undefined,
    generation: metadata.generation ?? 0,
    spec: {
      suspend: spec["suspend"] === true,
      manual: spec["manual"] === true,
      manualObjectsHash: text(spec["manualObjectsHash"]),
    },
    requests: {
      pending: manualKinds.flatMap((kind) => toRequest(kind, metadata.annotations?.[`kluctl.io/request-${kind}`])),
      taken: manualKinds.flatMap((kind) => {
        const result = status[`${kind}RequestResult`] as { endTime?: string; request?: object } | undefined;
        return result === undefined || result.endTime ? [] : toRequest(kind, JSON.stringify(result.request));
      }),
    },
    status: {
      observedCommit: text(status["observedCommit"]),
      includedCommits: (metadata.annotations?.["towline.dev/included-commits"] ?? "").match(/[0-9a-f]{40}$/gm) ?? [],
      observedGeneration: status["observedGeneration"] as number | undefined,
      lastObjectsHash: text(status["lastObjectsHash"]),
      lastPrepareError: text(status["lastPrepareError"]),
      drift: text(status["lastDriftDetectionResultMessage"]),
      deployErrors: deployed?.errors?.length ?? 0,
      ready: conditions.find(({ type }) => type === "Ready"),
      reconciling: conditions.some(({ type, status: is }) => type === "Reconciling" && is === "True"),
    },
  };
}

/** The kind and the value of a request, whose annotation is written as the status repeats it. */
function toRequest(kind: string, text: string | undefined): string[] {
  if (!text) return [];
  return [`${kind} ${(JSON.parse(text) as { requestValue: string }).requestValue}`];
}
