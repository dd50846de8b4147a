import { expect, test } from "vitest";
import { changed, kindsOf, linesOf, objectOf, risksOf, update } from "./find.ts";

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
  expect(kindsOf(object, "changed").includes("immutable")).toBe(immutable);
});

test("immutable fields are named, without keys that the project chose", () => {
  const changes = [update("spec.selector.matchLabels.hunter2"), update("spec.serviceName")];
  const [risk] = risksOf(objectOf("apps/StatefulSet", { changes }));
  expect(risk?.text).toBe(
    "spec.selector, spec.serviceName cannot be changed: the API server rejects the change unless the object is deleted and created again",
  );
});

test.each(["/ConfigMap", "/Secret"])("%s that is marked as immutable cannot change its data", (id) => {
  const changes = [update("data.a")];
  expect(kindsOf(objectOf(id, { changes, remote: '{"immutable":true}' }), "changed")).toEqual(["immutable"]);
  expect(kindsOf(objectOf(id, { changes, remote: "{}" }), "changed")).toEqual([]);
  expect(kindsOf(objectOf(id, { changes, remote: "no JSON" }), "changed")).toEqual([]);
});

const invalid = 'Deployment.apps "web" is invalid: ';

test.each([
  [`${invalid}spec.selector: Invalid value: {…}: field is immutable`, "spec.selector"],
  [`${invalid}spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden`, "spec"],
  ['RoleBinding "x" is invalid: roleRef: Invalid value: {…}: cannot change roleRef', "roleRef"],
  ['Service "x" is invalid: spec.clusterIPs[0]: Invalid value: [""]: may not change once set', "spec.clusterIPs"],
  [`${invalid}spec.template.metadata.labels[own-key]: Invalid value: "": field is immutable`, "spec.template"],
  // The first of several problems may be another one, and what is not at the beginning may be a value.
  [`${invalid}[spec.a: Required value, spec.b: Invalid value: "": field is immutable]`, "a field"],
  ['"x" is invalid: hunter: Invalid value: field is immutable', "a field"],
])("kluctl's error shows that a change is refused, and of which field: %s", (message, name) => {
  const object = objectOf("apps/Deployment");
  expect(risksOf(object, { errors: [{ ref: object.ref, message }] })).toMatchObject([
    {
      kind: "immutable",
      text: expect.stringMatching(new RegExp(`^${name} cannot be changed: the API server rejects`)),
    },
  ]);
});

test.each([
  ["2Gi", "1Gi", undefined, true],
  ["1Gi", "1000Mi", "1Gi", true],
  ["1Gi", "1024Mi", "1Gi", false],
  ["1Gi", "2Gi", "1Gi", false],
  ["3Gi", "2Gi", "2Gi", true],
  ["3Gi", "2500Mi", "2Gi", false], // back from an expansion that failed
  ["1Gi", "not a quantity", "1Gi", false],
])("a claim of %s that requests %s with a volume of %s is refused: %s", (before, after, capacity, refused) => {
  const spec = (storage: string) => ({ spec: { resources: { requests: { storage } } } });
  const live = { ...spec(before), ...(capacity !== undefined && { status: { capacity: { storage: capacity } } }) };
  const changes = [update("spec.resources.requests.storage", after, before)];
  const text =
    "immutable: its storage request cannot become smaller: " +
    "the API server rejects the change unless the object is deleted and created again";
  expect(linesOf(changed("/PersistentVolumeClaim", live, spec(after), { changes }))).toEqual(refused ? [text] : []);
});

test.each([
  "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
  "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity",
  "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
])("kluctl's error shows that a change of storage is refused: %s", (message) => {
  const object = objectOf("/PersistentVolumeClaim");
  expect(risksOf(object, { errors: [{ ref: object.ref, message }] })).toMatchObject([{ kind: "immutable" }]);
});
