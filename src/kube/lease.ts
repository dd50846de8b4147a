/**
 * One `coordination.k8s.io` Lease per deployment. The rules are client-go's: the API server's 409 decides between
 * concurrent writers, and a Lease has expired when *we have seen it unchanged* for its whole duration. Clocks of other
 * machines are never compared with ours.
 */
import { createHash, randomUUID } from "node:crypto";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import { type Held, type Key, keyText, type LeaseOwner } from "../model.ts";
import { createBoundedMap } from "../kit/bounded-map.ts";
import { monotonicNow } from "../kit/monotonic.ts";
import type { Leases } from "../ports.ts";
import type { KubeClient } from "./client.ts";
import { kindOf } from "../model.ts";
import { startHold } from "./lease-hold.ts";
import { type LeaseObject, type LeaseStore, microTime } from "./lease-object.ts";

export interface LeasesDeps {
  readonly client: Pick<KubeClient, "request">;
  /**
   * Names this process for users; each hold adds a unique suffix, so that no process mistakes another's Lease for its
   * own.
   */
  readonly identity: string;
  readonly durationMs?: number | undefined;
  /** Maps the deployment's name to the Lease's name. */
  readonly nameOf?: ((name: string) => string) | undefined;
  readonly log: Logger;
  /** Default: `monotonicNow`. */
  readonly now?: (() => number) | undefined;
}

/** Distinguishes a Lease that is still renewed from an abandoned one. */
export interface Watching {
  /** Whether the Lease, as it was just read, may be taken: it has no holder, or has been unchanged for too long. */
  isFree(id: string, lease: LeaseObject): boolean;
  forget(id: string): void;
}

interface Observation {
  readonly resourceVersion: string;
  readonly since: number;
}

/** Leases of other processes that were seen, and ours that were released. Forgetting one costs a request or a wait. */
const mostRemembered = 5_000;

export function watchLeases(durationMs: number, now: () => number): Watching {
  const observed = createBoundedMap<Observation>({ entries: mostRemembered });
  return {
    isFree(id, lease) {
      if (!lease.spec?.holderIdentity) return true;
      const resourceVersion = lease.metadata.resourceVersion ?? "";
      const seen = observed.get(id);
      if (seen?.resourceVersion !== resourceVersion) {
        observed.set(id, { resourceVersion, since: now() });
        return false;
      }
      const seconds = lease.spec.leaseDurationSeconds;
      return now() - seen.since > (seconds ? seconds * 1000 : durationMs);
    },
    forget: (id) => void observed.delete(id),
  };
}

export function createLeases(deps: LeasesDeps): Leases {
  const { client, identity, log, durationMs = 15_000, nameOf = leaseName, now = monotonicNow } = deps;
  const others = watchLeases(durationMs, now);
  const released = createBoundedMap<{ readonly lease: LeaseObject; readonly at: number }>({ entries: mostRemembered });

  return {
    async hold(key: Key, owner?: LeaseOwner): Promise<Held | undefined> {
      const id = keyText(key);
      const name = nameOf(key.name);
      const store = createLeaseStore(client, { namespace: key.namespace, name }, durationMs);
      const holder = `${identity}_${randomUUID()}`;
      const startedAt = now(); // the response may be late, so our hold counts from before the request
      const common = { durationMs, log, now, startedAt };
      const held = (lease: LeaseObject): Held =>
        startHold({ ...common, store, lease, onReleased: (lease) => released.set(id, { lease, at: now() }) });
      const ours = released.get(id);
      let lease = ours?.lease;
      released.delete(id);
      for (let attempt = 0; ; attempt++) {
        try {
          const wanted = takenBy(holder, { namespace: key.namespace, name }, lease, durationMs);
          const taken = await store.write(owner === undefined ? wanted : ownedBy(wanted, key.name, owner));
          others.forget(id);
          return { ...held(taken), untouchedSince: attempt === 0 ? ours?.at : undefined };
        } catch (error) {
          if (owner?.deletionTimestamp !== undefined && isTerminating(error)) {
            const lease = takenBy(holder, { namespace: key.namespace, name }, undefined, durationMs);
            return startHold({ ...common, store: nowhere, lease, onReleased: () => undefined });
          }
          const conflict = error instanceof ApiError && (error.status === 409 || error.status === 404);
          // Without a response we may hold the Lease all the same: only reading it tells.
          if (attempt >= 3 || !(conflict || (error instanceof ApiError && isUnsure(error)))) throw error;
          lease = await store.read();
          if (lease?.spec?.holderIdentity === holder) return held(lease);
          if (lease !== undefined && !others.isFree(id, lease)) return undefined;
        }
      }
    },
  };
}

/** The namespace is being deleted: its deployments still need their cleanup, but nothing new can be created there. */
function isTerminating(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403 && error.message.includes("because it is being terminated");
}

/**
 * For deployments that are deleted in such a namespace, whose Lease may be deleted first. Without a Lease two servers
 * could work on one deployment. The queue prevents that except for a stalled job, and both would do the same: delete
 * what was deployed.
 */
const nowhere: LeaseStore = {
  read: async () => undefined,
  write: async (lease) => lease,
};

function isUnsure({ status }: ApiError): boolean {
  return status === 0 || status >= 500;
}

/** Returns the Lease as it has to be written to give it to the holder. */
export function takenBy(
  holder: string,
  { namespace, name }: Key,
  lease: LeaseObject | undefined,
  durationMs: number,
): LeaseObject {
  const time = microTime();
  return {
    metadata: { ...lease?.metadata, name, namespace },
    spec: {
      holderIdentity: holder,
      leaseDurationSeconds: Math.ceil(durationMs / 1000),
      acquireTime: time,
      renewTime: time,
      leaseTransitions: lease === undefined ? 0 : (lease.spec?.leaseTransitions ?? 0) + 1,
    },
  };
}

/** The Lease is then deleted with the deployment. */
function ownedBy(lease: LeaseObject, name: string, owner: LeaseOwner): LeaseObject {
  const ownerReferences = [{ ...kindOf(owner), name, uid: owner.uid }];
  return { ...lease, metadata: { ...lease.metadata, ownerReferences } as LeaseObject["metadata"] };
}

/** `key` names the Lease itself. */
export function createLeaseStore(
  client: LeasesDeps["client"],
  { namespace, name }: Key,
  durationMs: number,
): LeaseStore {
  const collection = `/apis/coordination.k8s.io/v1/namespaces/${encodeURIComponent(namespace)}/leases`;
  const path = `${collection}/${encodeURIComponent(name)}`;
  const once = { timeoutMs: Math.min(10_000, durationMs / 4), totalMs: 0 };
  return {
    async read() {
      try {
        return (await client.request({ method: "GET", path, ...once })) as LeaseObject;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return undefined;
        throw error;
      }
    },
    async write(lease) {
      const isNew = lease.metadata.resourceVersion === undefined;
      const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", ...lease };
      const target = isNew ? ({ method: "POST", path: collection } as const) : ({ method: "PUT", path } as const);
      return (await client.request({ ...target, body, ...once })) as LeaseObject;
    },
  };
}

/** The name of a Lease may not be longer than that of the deployment. */
export function leaseName(deployment: string): string {
  const name = `towline-${deployment}`;
  if (name.length <= 253) return name;
  const digest = createHash("sha256").update(deployment).digest("hex").slice(0, 16);
  return `${name.slice(0, 236).replace(/[.-]+$/, "")}-${digest}`;
}
