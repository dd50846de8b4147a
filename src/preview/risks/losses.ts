/**
 * What is lost when an object is deleted. The words are fixed: of the object, only its kind decides which are shown.
 */
import { field, parseJson } from "../../kit/json.ts";
import type { ResultObject } from "../../model.ts";
import { idOf } from "./fields.ts";

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

export function lossOf(object: ResultObject): string {
  const { ref, remote, rendered } = object;
  if (idOf(ref) === "/Service" && field(parseJson(remote ?? rendered ?? ""), "spec", "type") === "LoadBalancer") {
    return "its load balancer is released, and with it the external address";
  }
  return losses[idOf(ref)] ?? "it is removed from the cluster";
}
