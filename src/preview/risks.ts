/** Finds the changes that deserve a second look, and describes their consequences. Pure. */
import { parseJson } from "../kit/json.ts";
import type { FieldChange, ObjectRef, ResultError, ResultObject } from "../model.ts";
import type { PreviewObject, Risk } from "../model/report.ts";

interface Question {
  readonly object: ResultObject;
  readonly action: PreviewObject["action"];
  /** kluctl's errors about this object. */
  readonly errors: readonly ResultError[];
}

export function findRisks({ object, action, errors }: Question): Risk[] {
  const risks: Risk[] = [];
  const lost = action === "deleted" ? lossOf(object) : undefined;
  if (lost !== undefined) risks.push({ kind: "deletion", text: lost });
  const refused = refusedFields(object, action, errors);
  if (refused !== undefined) risks.push({ kind: "immutable", text: refused });
  const reach = action === "orphan" ? undefined : reachOf(object, action);
  if (reach !== undefined) risks.push({ kind: "far-reaching", text: reach });
  return risks;
}

/** Whether it is one of the API server's messages for a change that it refuses, as kluctl passes them on. */
export function refusesChange({ message }: ResultError): boolean {
  return /field is immutable|updates to \S+ spec for fields other than|cannot change roleRef|may not be changed|is forbidden after creation/i.test(
    message,
  );
}

// ---------------------------------------------------------------------------------------------------------------
// Deletions

/** By group and kind; the reasons are those of the Kubernetes documentation of each kind. */
const losses: Readonly<Record<string, string>> = {
  "/Namespace": "everything in the namespace is deleted with it",
  "apiextensions.k8s.io/CustomResourceDefinition": "every object of this kind, in all namespaces, is deleted with it",
  "/PersistentVolumeClaim": "its data is lost, unless the volume's reclaim policy is Retain",
  "/PersistentVolume": "the data on it may be lost",
  "apps/StatefulSet":
    "its pods are stopped; their volume claims stay or are deleted, depending on its retention policy",
  "apps/Deployment": "its pods are stopped",
  "apps/DaemonSet": "its pods are stopped on every node",
  "batch/Job": "its pods and their logs are deleted with it",
  "batch/CronJob": "no jobs are scheduled any more; running jobs are deleted with it",
  "/Secret": "its values are lost unless they are stored elsewhere, and pods that need it no longer start",
  "/ConfigMap": "pods that need it no longer start",
  "/Service": "its DNS name and address stop working",
  "/ServiceAccount": "its tokens stop working, and pods that use it no longer start",
  "networking.k8s.io/Ingress": "its addresses are no longer routed",
  "networking.k8s.io/NetworkPolicy": "it no longer restricts traffic",
  "rbac.authorization.k8s.io/Role": "subjects that are bound to it lose its permissions",
  "rbac.authorization.k8s.io/ClusterRole": "subjects that are bound to it lose its permissions",
  "rbac.authorization.k8s.io/RoleBinding": "its subjects lose the permissions of the role",
  "rbac.authorization.k8s.io/ClusterRoleBinding": "its subjects lose the permissions of the role",
  "storage.k8s.io/StorageClass": "no new volumes of this class can be provisioned",
  "scheduling.k8s.io/PriorityClass": "pods that reference it can no longer be created",
  "apiregistration.k8s.io/APIService": "the API that it serves is no longer reachable",
  "admissionregistration.k8s.io/ValidatingWebhookConfiguration": "requests that it rejected are accepted",
  "admissionregistration.k8s.io/MutatingWebhookConfiguration": "it no longer changes requests",
  "admissionregistration.k8s.io/ValidatingAdmissionPolicy": "requests that it rejected are accepted",
  "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": "requests that its policy rejected are accepted",
};

function lossOf(object: ResultObject): string {
  const { ref, remote, rendered } = object;
  if (idOf(ref) === "/Service" && field(parseJson(remote ?? rendered ?? ""), "spec", "type") === "LoadBalancer") {
    return "its load balancer is released, and with it the external address";
  }
  return losses[idOf(ref)] ?? "it is removed from the cluster";
}

// ---------------------------------------------------------------------------------------------------------------
// Fields that cannot change

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
    /^spec\.(?:hostPath|nfs|csi|local|iscsi|fc|awsElasticBlockStore|gcePersistentDisk|azureDisk|nodeAffinity|volumeMode)\b/,
  "storage.k8s.io/StorageClass": /^(?:parameters|provisioner|reclaimPolicy|volumeBindingMode)\b/,
  "storage.k8s.io/CSIDriver": /^spec\.(?:attachRequired|podInfoOnMount|volumeLifecycleModes|fsGroupPolicy)\b/,
  "rbac.authorization.k8s.io/RoleBinding": /^roleRef\b/,
  "rbac.authorization.k8s.io/ClusterRoleBinding": /^roleRef\b/,
  "scheduling.k8s.io/PriorityClass": /^(?:value|preemptionPolicy)\b/,
  "networking.k8s.io/IngressClass": /^spec\.controller\b/,
  "apiextensions.k8s.io/CustomResourceDefinition": /^spec\.(?:group|scope|names\.(?:plural|kind))\b/,
  "node.k8s.io/RuntimeClass": /^handler\b/,
};

function refusedFields({ ref, changes, remote }: ResultObject, action: string, errors: readonly ResultError[]) {
  if (action === "changed") {
    const frozen = field(parseJson(remote ?? ""), "immutable") === true && /^\/(?:ConfigMap|Secret)$/.test(idOf(ref));
    const fields = frozen ? /^(?:data|binaryData|stringData|immutable)\b/ : immutableFields[idOf(ref)];
    const touched = new Set(changes.map(pathOf).filter((path) => fields?.test(path)));
    if (frozen && touched.size > 0) {
      return "it is marked as immutable: the API server rejects the change unless the object is deleted and created again";
    }
    if (touched.size > 0) {
      const names = [...new Set([...touched].map(shortPath))].slice(0, 5).join(", ");
      return `${names} cannot be changed: the API server rejects the change unless the object is deleted and created again`;
    }
  }
  return errors.some(refusesChange)
    ? "the API server rejects the change: a field is immutable unless the object is deleted and created again"
    : undefined;
}

// ---------------------------------------------------------------------------------------------------------------
// Kinds with effects beyond their own object

const reaches: Readonly<Record<string, string>> = {
  "apiextensions.k8s.io/CustomResourceDefinition":
    "it defines a kind: the change affects its objects in all namespaces",
  "/Namespace": "its labels and annotations affect everything in it",
  "rbac.authorization.k8s.io/ClusterRole": "it changes permissions in the whole cluster",
  "rbac.authorization.k8s.io/ClusterRoleBinding": "it changes permissions in the whole cluster",
  "rbac.authorization.k8s.io/Role": "it changes permissions in its namespace",
  "rbac.authorization.k8s.io/RoleBinding": "it changes permissions in its namespace",
  "admissionregistration.k8s.io/ValidatingWebhookConfiguration": "it controls which requests the API server accepts",
  "admissionregistration.k8s.io/MutatingWebhookConfiguration": "it changes requests to the API server",
  "admissionregistration.k8s.io/ValidatingAdmissionPolicy": "it controls which requests the API server accepts",
  "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding": "it controls which requests the API server accepts",
  "admissionregistration.k8s.io/MutatingAdmissionPolicy": "it changes requests to the API server",
  "admissionregistration.k8s.io/MutatingAdmissionPolicyBinding": "it changes requests to the API server",
  "apiregistration.k8s.io/APIService": "it controls which server provides an API of the cluster",
  "scheduling.k8s.io/PriorityClass": "it controls which pods are preempted",
  "storage.k8s.io/StorageClass": "it controls how volumes of its class are provisioned",
  "networking.k8s.io/NetworkPolicy": "it controls which pods can communicate",
  "flowcontrol.apiserver.k8s.io/FlowSchema":
    "it controls which requests the API server serves first: an error can slow down or block clients in the whole cluster",
  "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration":
    "it controls which requests the API server serves first: an error can slow down or block clients in the whole cluster",
};

const scalable = /^apps\/(?:Deployment|StatefulSet|ReplicaSet)$/;

function reachOf({ ref, changes }: ResultObject, action: string): string | undefined {
  const toZero = changes.some((change) => pathOf(change) === "spec.replicas" && Number(change.newValue) === 0);
  if (action === "changed" && toZero && scalable.test(idOf(ref))) return "it is scaled to zero: no pod is left running";
  // For a deletion the loss is reported already; a new namespace affects no existing object.
  if (action === "deleted" || (action === "new" && idOf(ref) === "/Namespace")) return undefined;
  return reaches[idOf(ref)];
}

function idOf({ group, kind }: ObjectRef): string {
  return `${group ?? ""}/${kind}`;
}

/** kluctl writes `spec.ports[0].port` and `metadata.labels["a.b/c"]`. */
function pathOf({ jsonPath }: FieldChange): string {
  return jsonPath.replace(/^\$?\.?/, "");
}

/** The first two fields are clear enough, and contain no list index and no key chosen by a user. */
function shortPath(path: string): string {
  return /^[A-Za-z]+(?:\.[A-Za-z]+)?/.exec(path)?.[0] ?? "a field";
}

function field(value: unknown, ...names: readonly string[]): unknown {
  let at = value;
  for (const name of names)
    at = typeof at === "object" && at !== null ? (at as Record<string, unknown>)[name] : undefined;
  return at;
}
