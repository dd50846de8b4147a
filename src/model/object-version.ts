/** The version of an object in the cluster: just enough to detect whether it changed. */
import { createHash } from "node:crypto";

export interface ObjectVersion {
  readonly uid: string;
  readonly resourceVersion: string;
  /**
   * Hash of everything except the status, for kinds where this can be derived from the metadata; see {@link versionOf}.
   */
  readonly fingerprint?: string | undefined;
}

/** The metadata fields that the version is derived from. */
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

/** The label by which kluctl recognizes which deployment an object belongs to. */
export const discriminatorLabel = "kluctl.io/discriminator";

/**
 * Kinds whose generation is known to count every change except those of status and metadata. A generation alone proves
 * nothing: some kinds get one on creation and keep it (PriorityClass), others have none (ConfigMap, Secret, Service,
 * ServiceAccount, Role), and an aggregated API server may do as it likes. Managed fields prove nothing either: they
 * list fields, not values, and their times have a resolution of one second.
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

/** Annotations that controllers write along with the status after we change an object: `group/kind` → annotations. */
const countersOf: Readonly<Record<string, readonly string[]>> = {
  "apps/Deployment": ["deployment.kubernetes.io/revision"],
};

/** `group/kind/namespace/name`. */
export function objectId(group: string, kind: string, { namespace, name }: ObjectMetadata): string {
  return `${group}/${kind}/${namespace ?? ""}/${name ?? ""}`;
}

/** Returns `undefined` if the object has no version, that is, if it was never in a cluster. */
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

/** Compares two versions; `status` means that nothing but the status can have changed. */
export function compareVersions(known: ObjectVersion, now: ObjectVersion): "same" | "status" | "changed" {
  if (known.uid !== now.uid) return "changed";
  if (known.resourceVersion === now.resourceVersion) return "same";
  return known.fingerprint !== undefined && known.fingerprint === now.fingerprint ? "status" : "changed";
}

/** Whether this is certainly an older version of the same object. */
export function isOlder(version: ObjectVersion, than: ObjectVersion): boolean {
  const [mine, other] = [version.resourceVersion, than.resourceVersion];
  return /^\d+$/.test(mine) && /^\d+$/.test(other) && BigInt(mine) < BigInt(other);
}

function sorted(map: Readonly<Record<string, string>> | null | undefined): [string, string][] {
  return Object.entries(map ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1));
}
