/**
 * Kinds whose changes have effects beyond their own object. What the change is does not matter, only that there is one.
 */
import type { ResultObject } from "../../model.ts";
import { idOf } from "./fields.ts";

const reaches: Readonly<Record<string, string>> = {
  "apiextensions.k8s.io/CustomResourceDefinition":
    "it defines a kind: the change affects its objects in all namespaces",
  "/Namespace": "its labels and annotations affect everything in it",
  "rbac.authorization.k8s.io/ClusterRole": "it changes permissions wherever it is bound",
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

export function reachOf({ ref }: ResultObject, action: string): string | undefined {
  // For a deletion the loss is reported already; a new namespace affects no existing object.
  if (action === "deleted" || action === "orphan" || (action === "new" && idOf(ref) === "/Namespace")) return undefined;
  return reaches[idOf(ref)];
}
