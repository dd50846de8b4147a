/**
 * The fields that the API server refuses to change. Their values are compared, not the paths of the changes: a preview
 * may report one change for a whole object.
 */
import type { ObjectRef } from "../../model.ts";
import { field, isRecord } from "../../kit/json.ts";
import { entriesIn, idOf, listIn, textIn } from "./fields.ts";
import type { States } from "./states.ts";

interface Rule {
  /** Their paths, which are the only ones that a text names. */
  readonly fields: readonly string[];
  /** If given, no other field of the spec may change either. */
  readonly mutable?: readonly string[];
}

const only = (...fields: readonly string[]): Rule => ({ fields });

const volumeSources =
  "hostPath nfs csi local iscsi fc awsElasticBlockStore azureDisk azureFile cephfs cinder flexVolume flocker " +
  "gcePersistentDisk glusterfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume";

/** From the API server's own validation (pkg/apis/…/validation) and the documentation of each kind. */
const rules: Readonly<Record<string, Rule>> = {
  "apps/StatefulSet": {
    fields: ["spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"],
    mutable: [
      "replicas",
      "ordinals",
      "template",
      "updateStrategy",
      "revisionHistoryLimit",
      "persistentVolumeClaimRetentionPolicy",
      "minReadySeconds",
    ],
  },
  "apps/Deployment": only("spec.selector"),
  "apps/DaemonSet": only("spec.selector"),
  "apps/ReplicaSet": only("spec.selector"),
  "batch/Job": only(
    "spec.selector",
    "spec.template",
    "spec.completionMode",
    "spec.podFailurePolicy",
    "spec.successPolicy",
    "spec.backoffLimitPerIndex",
    "spec.managedBy",
  ),
  "/Service": only("spec.clusterIP", "spec.clusterIPs"),
  // The request may grow.
  "/PersistentVolumeClaim": {
    fields: [
      "spec.accessModes",
      "spec.selector",
      "spec.volumeName",
      "spec.storageClassName",
      "spec.volumeMode",
      "spec.dataSource",
      "spec.dataSourceRef",
      "spec.resources.limits",
    ],
    mutable: ["resources", "volumeAttributesClassName"],
  },
  "/PersistentVolume": only(
    ...[...volumeSources.split(" "), "nodeAffinity", "volumeMode"].map((name) => `spec.${name}`),
  ),
  "storage.k8s.io/StorageClass": only("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"),
  "storage.k8s.io/CSIDriver": only("spec.attachRequired", "spec.volumeLifecycleModes"),
  "rbac.authorization.k8s.io/RoleBinding": only("roleRef"),
  "rbac.authorization.k8s.io/ClusterRoleBinding": only("roleRef"),
  "scheduling.k8s.io/PriorityClass": only("value", "preemptionPolicy"),
  "networking.k8s.io/IngressClass": only("spec.controller"),
  "apiextensions.k8s.io/CustomResourceDefinition": only(
    "spec.group",
    "spec.scope",
    "spec.names.plural",
    "spec.names.kind",
  ),
  "node.k8s.io/RuntimeClass": only("handler"),
};

/** A ConfigMap or Secret that is marked as immutable. */
const marked = only("data", "binaryData", "stringData", "immutable");

const knownFields = new Set(
  [...Object.values(rules), marked].flatMap(({ fields }) => fields.map((path) => path.split(".", 2).join("."))),
);

export function hasImmutableFields(ref: ObjectRef): boolean {
  return Object.hasOwn(rules, idOf(ref));
}

/** The longest name that a text shows of a field that is not one of the known ones. */
const longestName = 60;

/** The first two fields of a path if they are known, otherwise the first: the next may be a key that a user chose. */
export function shortPath(path: string): string {
  const [short = "", first = ""] = /^([A-Za-z]+)(?:\.[A-Za-z]+)?/.exec(path) ?? [];
  if (knownFields.has(short)) return short;
  return first === "" ? "a field" : first.slice(0, longestName);
}

/** The immutable fields that differ, by their paths. */
export function changedFields(ref: ObjectRef, { before, after }: States, isMarked: boolean): string[] {
  if (idOf(ref) === "/Service") return changedAddresses(before, after);
  const rule = isMarked ? marked : rules[idOf(ref)];
  if (rule === undefined) return [];
  // The API server adds defaults, which what a project renders lacks.
  const lacksDefaults = isFromServer(before) && !isFromServer(after);
  const isSame = (old: unknown, now: unknown) => isWithin(now, old) && (lacksDefaults || isWithin(old, now));
  const found = rule.fields.filter(
    (path) => !isSame(field(before, ...path.split(".")), field(after, ...path.split("."))),
  );
  return isSame(othersOf(rule, before), othersOf(rule, after)) ? found : [...found, "spec"];
}

/** The API server gives every object a UID. */
export function isFromServer(state: unknown): boolean {
  return textIn(state, "metadata", "uid") !== "";
}

/** The fields of the spec that the rule does not name. */
function othersOf({ fields, mutable }: Rule, state: unknown): unknown {
  if (mutable === undefined) return undefined;
  const named = new Set([...mutable, ...fields.map((path) => path.split(".")[1])]);
  return Object.fromEntries([...entriesIn(state, "spec")].filter(([name]) => !named.has(name)));
}

/**
 * An address may be added for dual-stack, and an ExternalName has none. The API server keeps addresses that are left
 * out (patchAllocatedValues and validateUpgradeDowngradeClusterIPs).
 */
function changedAddresses(before: unknown, after: unknown): string[] {
  if ([before, after].some((state) => field(state, "spec", "type") === "ExternalName")) return [];
  const [old, now] = [before, after].map((state) => listIn(state, "spec", "clusterIPs")) as [unknown[], unknown[]];
  const [oldFirst, newFirst] = [before, after].map((state) => textIn(state, "spec", "clusterIP")) as [string, string];
  const differs = (ip: unknown, i: number) => ip !== (old[i] ?? (i === 0 ? oldFirst : undefined));
  return [
    ...(newFirst !== "" && newFirst !== (oldFirst === "" ? old[0] : oldFirst) ? ["spec.clusterIP"] : []),
    ...(now.some((ip, i) => i < Math.max(old.length, 1) && differs(ip, i)) ? ["spec.clusterIPs"] : []),
  ];
}

/** What is deeper counts as equal: an author may nest values as deeply as the parser allows. */
const deepest = 64;

/** Whether one value has nothing that the other lacks. An empty list or mapping is the same as none. */
function isWithin(value: unknown, other: unknown, depth = 0): boolean {
  if (value === undefined || value === null || depth === deepest) return true;
  if (Array.isArray(value)) {
    if (value.length === 0) return true;
    if (!Array.isArray(other) || value.length !== other.length) return false;
    return value.every((each, i) => isWithin(each, other[i], depth + 1));
  }
  if (!isRecord(value)) return value === other;
  return Object.keys(value).every((name) => isWithin(field(value, name), field(other, name), depth + 1));
}
