import { expect, test } from "vitest";
import { kindsOf, objectOf } from "./find.ts";

test.each([
  ["apiextensions.k8s.io/CustomResourceDefinition", "new"],
  ["/Namespace", "changed"],
  ["rbac.authorization.k8s.io/ClusterRole", "changed"],
  ["rbac.authorization.k8s.io/ClusterRoleBinding", "new"],
  ["rbac.authorization.k8s.io/Role", "changed"],
  ["rbac.authorization.k8s.io/RoleBinding", "changed"],
  ["admissionregistration.k8s.io/ValidatingWebhookConfiguration", "new"],
  ["admissionregistration.k8s.io/MutatingWebhookConfiguration", "changed"],
  ["apiregistration.k8s.io/APIService", "changed"],
  ["scheduling.k8s.io/PriorityClass", "new"],
  ["storage.k8s.io/StorageClass", "new"],
  ["networking.k8s.io/NetworkPolicy", "changed"],
] as const)("%s is far-reaching when it is %s", (id, action) => {
  expect(kindsOf(objectOf(id), action)).toEqual(["far-reaching"]);
});

test("a new namespace and an orphaned object are not far-reaching", () => {
  expect(kindsOf(objectOf("/Namespace"), "new")).toEqual([]);
  expect(kindsOf(objectOf("rbac.authorization.k8s.io/ClusterRole"), "orphan")).toEqual([]);
});
