import { expect, test } from "vitest";
import type { FieldChange, ResultObject } from "../../../../src/model.ts";
import { findRisks } from "../../../../src/preview/risks.ts";
import { anObject } from "../../../support/deployments.ts";

const update = (jsonPath: string, newValue: unknown = "b"): FieldChange => ({
  type: "update",
  jsonPath,
  oldValue: "a",
  newValue,
});

/** `id` is group and kind, such as `apps/StatefulSet` or `/Secret`. */
function objectOf(id: string, overrides: Partial<ResultObject> = {}): ResultObject {
  const [group, kind = ""] = id.split("/");
  return anObject({ ref: { ...(group && { group }), version: "v1", kind, name: "it" }, ...overrides });
}

const kinds = (object: ResultObject, action: "new" | "changed" | "deleted" | "orphan") =>
  findRisks({ object, action, errors: [] }).map(({ kind }) => kind);

test.each([
  ["/Namespace", /everything in the namespace/],
  ["apiextensions.k8s.io/CustomResourceDefinition", /every object of this kind/],
  ["/PersistentVolumeClaim", /data is lost/],
  ["apps/StatefulSet", /pods are stopped/],
  ["/Secret", /values are lost/],
  ["/Service", /stop working/],
  ["example.com/Widget", /removed from the cluster/],
])("deleting %s shows what is lost", (id, words) => {
  const risks = findRisks({ object: objectOf(id), action: "deleted", errors: [] });
  expect(risks).toEqual([{ kind: "deletion", text: expect.stringMatching(words) as string }]);
});

test("deleting a load balancer Service loses its address", () => {
  const remote = JSON.stringify({ spec: { type: "LoadBalancer" } });
  const [risk] = findRisks({ object: objectOf("/Service", { remote }), action: "deleted", errors: [] });
  expect(risk?.text).toContain("external address");
});

test.each([
  ["apps/StatefulSet", "spec.serviceName", true],
  ["apps/StatefulSet", "spec.volumeClaimTemplates[0].spec.resources.requests.storage", true],
  ["apps/StatefulSet", "spec.selector.matchLabels.app", true],
  ["apps/StatefulSet", "spec.podManagementPolicy", true],
  ["apps/StatefulSet", "spec.template.spec.containers[0].image", false],
  ["apps/StatefulSet", "spec.replicas", false],
  ["apps/StatefulSet", "metadata.labels.app", false],
  ["apps/Deployment", "spec.selector.matchLabels.app", true],
  ["apps/Deployment", "spec.selectorless", false],
  ["apps/DaemonSet", 'spec.selector.matchLabels["app.kubernetes.io/name"]', true],
  ["batch/Job", "spec.template.spec.containers[0].image", true],
  ["batch/Job", "spec.parallelism", false],
  ["/Service", "spec.clusterIP", true],
  ["/Service", "spec.ports[0].port", false],
  ["/PersistentVolumeClaim", "spec.storageClassName", true],
  ["/PersistentVolumeClaim", "spec.resources.requests.storage", false],
  ["storage.k8s.io/StorageClass", "parameters.type", true],
  ["storage.k8s.io/StorageClass", "allowVolumeExpansion", false],
  ["rbac.authorization.k8s.io/RoleBinding", "roleRef.name", true],
  ["rbac.authorization.k8s.io/RoleBinding", "subjects[0].name", false],
  ["example.com/Deployment", "spec.selector", false],
])("in %s, %s is immutable: %s", (id, jsonPath, immutable) => {
  const object = objectOf(id, { changes: [update(jsonPath)] });
  expect(kinds(object, "changed").includes("immutable")).toBe(immutable);
});

test("immutable fields are named, without keys that the project chose", () => {
  const changes = [update("spec.selector.matchLabels.hunter2"), update("spec.serviceName")];
  const [risk] = findRisks({ object: objectOf("apps/StatefulSet", { changes }), action: "changed", errors: [] });
  expect(risk?.text).toBe(
    "spec.selector, spec.serviceName cannot be changed: the API server rejects the change unless the object is deleted and created again",
  );
});

test.each(["/ConfigMap", "/Secret"])("%s that is marked as immutable cannot change its data", (id) => {
  const changes = [update("data.a")];
  expect(kinds(objectOf(id, { changes, remote: '{"immutable":true}' }), "changed")).toEqual(["immutable"]);
  expect(kinds(objectOf(id, { changes, remote: "{}" }), "changed")).toEqual([]);
  expect(kinds(objectOf(id, { changes, remote: "no JSON" }), "changed")).toEqual([]);
});

test.each([
  'Deployment.apps "web" is invalid: spec.selector: Invalid value: {…}: field is immutable',
  "StatefulSet.apps \"db\" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
  'RoleBinding "x" is invalid: roleRef: Invalid value: {…}: cannot change roleRef',
])("kluctl's error shows that a change is refused: %s", (message) => {
  const object = objectOf("apps/Deployment");
  expect(findRisks({ object, action: "changed", errors: [{ ref: object.ref, message }] })).toMatchObject([
    { kind: "immutable" },
  ]);
});

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
  expect(kinds(objectOf(id), action)).toEqual(["far-reaching"]);
});

test("a new namespace and an orphaned object are not far-reaching", () => {
  expect(kinds(objectOf("/Namespace"), "new")).toEqual([]);
  expect(kinds(objectOf("rbac.authorization.k8s.io/ClusterRole"), "orphan")).toEqual([]);
});

test("scaling to zero is far-reaching, and scaling to one is not", () => {
  const scaled = (replicas: number) => objectOf("apps/Deployment", { changes: [update("spec.replicas", replicas)] });
  expect(kinds(scaled(0), "changed")).toEqual(["far-reaching"]);
  expect(kinds(scaled(1), "changed")).toEqual([]);
});
