/** Of an object in the cluster, just enough to say whether it is still as it was. */
import { createHash } from "node:crypto";

export interface ObjectVersion {
  readonly uid: string;
  readonly resourceVersion: string;
  /** Of all but its status, where that can be told apart; see {@link versionOf}. */
  readonly fingerprint?: string | undefined;
}

/** What the API server keeps beside every object. */
export interface ObjectMetadata {
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
  readonly uid?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly generation?: number | undefined;
  readonly labels?: Readonly<Record<string, string>> | null | undefined;
  readonly annotations?: Readonly<Record<string, string>> | null | undefined;
  readonly ownerReferences?: unknown;
  readonly finalizers?: unknown;
  readonly deletionTimestamp?: unknown;
}

/** By which kluctl tells whose an object is. */
export const discriminatorLabel = "kluctl.io/discriminator";

/**
 * Kinds whose generation is known to count every change but those of status and metadata. A generation by itself proves
 * nothing: some kinds get one when they are made and keep it (PriorityClass), others have none (ConfigMap, Secret,
 * Service, ServiceAccount, Role), and what an aggregated API server does is its own affair. Neither do managed fields
 * prove anything: they name fields, not values, and their times are whole seconds.
 */
const countsGenerations = new Set([
  "apps/DaemonSet",
  "apps/Deployment",
  "apps/ReplicaSet",
  "apps/StatefulSet",
  "batch/CronJob",
  "batch/Job",
  "networking.k8s.io/Ingress",
  "networking.k8s.io/NetworkPolicy",
  "policy/PodDisruptionBudget",
]);

/** What controllers write beside the status, in answer to a change of ours: `group/kind` → annotations. */
const countersOf: Readonly<Record<string, readonly string[]>> = {
  "apps/Deployment": ["deployment.kubernetes.io/revision"],
};

/** `group/kind/namespace/name`. */
export function objectId(group: string, kind: string, { namespace, name }: ObjectMetadata): string {
  return `${group}/${kind}/${namespace ?? ""}/${name ?? ""}`;
}

/** `undefined` if it has no version: it was never in a cluster. */
export function versionOf(group: string, kind: string, metadata: ObjectMetadata): ObjectVersion | undefined {
  const { uid, resourceVersion, generation } = metadata;
  if (!uid || !resourceVersion) return undefined;
  if (!generation || !countsGenerations.has(`${group}/${kind}`)) return { uid, resourceVersion };
  const { labels, annotations, ownerReferences, finalizers, deletionTimestamp } = metadata;
  const own = sorted(annotations).filter(([name]) => !countersOf[`${group}/${kind}`]?.includes(name));
  const parts = [generation, sorted(labels), own, ownerReferences, finalizers, deletionTimestamp];
  const fingerprint = createHash("sha256").update(JSON.stringify(parts)).digest("base64").slice(0, 16);
  return { uid, resourceVersion, fingerprint };
}

/** `status`: nothing but its status can have changed. */
export function compareVersions(known: ObjectVersion, now: ObjectVersion): "same" | "status" | "changed" {
  if (known.uid !== now.uid) return "changed";
  if (known.resourceVersion === now.resourceVersion) return "same";
  return known.fingerprint !== undefined && known.fingerprint === now.fingerprint ? "status" : "changed";
}

/** Whether it is surely a version from before the other, of the same object. */
export function isOlder(version: ObjectVersion, than: ObjectVersion): boolean {
  const [mine, other] = [version.resourceVersion, than.resourceVersion];
  return /^\d+$/.test(mine) && /^\d+$/.test(other) && BigInt(mine) < BigInt(other);
}

function sorted(map: Readonly<Record<string, string>> | null | undefined): [string, string][] {
  return Object.entries(map ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
}
