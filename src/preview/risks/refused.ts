/**
 * Changes that the API server will reject because a field is immutable, or may only grow. A deploy of such a change
 * fails, which a dry run does not always show.
 */
import type { ObjectRef, ResultError, ResultObject } from "../../model.ts";
import { field, idOf, pathOf } from "./fields.ts";
import { isLess } from "./quantity.ts";
import { parseState, type States } from "./states.ts";

/** Whether it is one of the API server's messages for a change that it refuses, as kluctl passes them on. */
export function refusesChange({ message }: ResultError): boolean {
  return /field is immutable|updates to \S+ spec for fields other than|cannot change roleRef|may not be changed|may not change once set|is forbidden after creation|is immutable after creation|field can not be less than/i.test(
    message,
  );
}

/**
 * From the API server's own validation (pkg/apis/…/validation) and the documentation of each kind. For StatefulSets,
 * these are all fields of the spec except the mutable ones; the same goes for claims, whose request may grow.
 */
const immutableFields: Readonly<Record<string, RegExp>> = {
  "apps/StatefulSet":
    /^spec\.(?!replicas\b|ordinals\b|template\b|updateStrategy\b|revisionHistoryLimit\b|persistentVolumeClaimRetentionPolicy\b|minReadySeconds\b)/,
  "apps/Deployment": /^spec\.selector\b/,
  "apps/DaemonSet": /^spec\.selector\b/,
  "apps/ReplicaSet": /^spec\.selector\b/,
  "batch/Job": /^spec\.(?:selector|template|completionMode|podFailurePolicy|backoffLimitPerIndex|managedBy)\b/,
  "/Service": /^spec\.(?:clusterIP|clusterIPs)\b/,
  "/PersistentVolumeClaim": /^spec\b(?!\.resources\.requests\b|\.volumeAttributesClassName\b)/,
  "/PersistentVolume":
    /^spec\.(?:hostPath|nfs|csi|local|iscsi|fc|awsElasticBlockStore|azureDisk|azureFile|cephfs|cinder|flexVolume|flocker|gcePersistentDisk|glusterfs|photonPersistentDisk|portworxVolume|quobyte|rbd|scaleIO|storageos|vsphereVolume|nodeAffinity|volumeMode)\b/,
  "storage.k8s.io/StorageClass": /^(?:parameters|provisioner|reclaimPolicy|volumeBindingMode)\b/,
  "storage.k8s.io/CSIDriver": /^spec\.(?:attachRequired|podInfoOnMount|volumeLifecycleModes|fsGroupPolicy)\b/,
  "rbac.authorization.k8s.io/RoleBinding": /^roleRef\b/,
  "rbac.authorization.k8s.io/ClusterRoleBinding": /^roleRef\b/,
  "scheduling.k8s.io/PriorityClass": /^(?:value|preemptionPolicy)\b/,
  "networking.k8s.io/IngressClass": /^spec\.controller\b/,
  "apiextensions.k8s.io/CustomResourceDefinition": /^spec\.(?:group|scope|names\.(?:plural|kind))\b/,
  "node.k8s.io/RuntimeClass": /^handler\b/,
};

const unless = "the API server rejects the change unless the object is deleted and created again";

/** Why the API server will reject the change, or `undefined` if nothing shows that it will. */
export function refusalOf(
  { ref, changes, remote }: ResultObject,
  action: string,
  errors: readonly ResultError[],
  states: States,
): string | undefined {
  if (action === "changed") {
    const frozen = isFreezable(ref) && field(parseState(remote), "immutable") === true;
    const fields = frozen ? /^(?:data|binaryData|stringData|immutable)\b/ : immutableFields[idOf(ref)];
    const touched = new Set(changes.map(pathOf).filter((path) => fields?.test(path)));
    if (frozen && touched.size > 0) return `it is marked as immutable: ${unless}`;
    if (touched.size > 0) {
      const names = [...new Set([...touched].map(shortPath))].slice(0, 5).join(", ");
      return `${names} cannot be changed: ${unless}`;
    }
    if (idOf(ref) === "/PersistentVolumeClaim" && shrinks(states)) {
      return `its storage request cannot become smaller: ${unless}`;
    }
  }
  const refusal = errors.find(refusesChange);
  if (refusal === undefined) return undefined;
  return `${fieldOf(refusal) ?? "a field"} cannot be changed: ${unless}`;
}

/** The API server names the field first. Of several problems, the first may be another one. */
function fieldOf({ message }: ResultError): string | undefined {
  const path = /^[\w.-]{1,300} "[\w.:-]{1,300}" is invalid: ([A-Za-z][\w.[\]/-]{0,200}): /.exec(message)?.[1];
  return path === undefined ? undefined : shortPath(path);
}

function isFreezable(ref: ObjectRef): boolean {
  return /^\/(?:ConfigMap|Secret)$/.test(idOf(ref));
}

/** A request may become smaller after a failed expansion, as long as it is larger than the volume. */
function shrinks({ before, after }: States): boolean {
  const request = (state: unknown) => field(state, "spec", "resources", "requests", "storage");
  if (!isLess(request(after), request(before))) return false;
  return !isLess(field(before, "status", "capacity", "storage"), request(after));
}

/** The first two fields are clear enough, and contain no list index and no key chosen by a user. */
function shortPath(path: string): string {
  return /^[A-Za-z]+(?:\.[A-Za-z]+)?/.exec(path)?.[0] ?? "a field";
}
