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
  ["storage.k8s.io/CSIDriver", "spec.attachRequired", true],
  ["storage.k8s.io/CSIDriver", "spec.fsGroupPolicy", false],
  ["storage.k8s.io/CSIDriver", "spec.podInfoOnMount", false],
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

test.each([
  ["storage.k8s.io/StorageClass", "parameters.hunter2", "parameters"],
  ["/PersistentVolumeClaim", `spec.${"a".repeat(650_000)}`, "spec"],
  ["apps/StatefulSet", "spec.hunter2", "spec"],
])("of %s, only known fields are named: %s", (id, jsonPath, name) => {
  const [risk] = risksOf(objectOf(id, { changes: [update(jsonPath)] }));
  expect(risk?.text).toMatch(new RegExp(`^${name} cannot be changed`));
});

const named = (...names: readonly string[]) =>
  names.length === 0
    ? []
    : [
        `immutable: ${names.join(", ")} cannot be changed: ` +
          "the API server rejects the change unless the object is deleted and created again",
      ];

test.each([
  ["apps/StatefulSet", { serviceName: "a" }, { serviceName: "b" }, ["spec.serviceName"]],
  ["apps/StatefulSet", { serviceName: "a" }, { serviceName: "a", replicas: 3 }, []],
  ["apps/StatefulSet", { serviceName: "a" }, {}, ["spec.serviceName"]],
  ["apps/StatefulSet", { selector: {} }, { volumeClaimTemplates: [] }, []],
  ["/PersistentVolumeClaim", { storageClassName: "a" }, { storageClassName: "" }, ["spec.storageClassName"]],
  [
    "batch/Job",
    { template: { spec: { a: [{ b: 1 }] } } },
    { template: { spec: { a: [{ b: 2 }] } } },
    ["spec.template"],
  ],
])("fields of %s are compared where one change stands for many: %j → %j", (id, before, after, names) => {
  const changes = [update("", { spec: after }, { spec: before })];
  const lines = (object: Parameters<typeof linesOf>[0]) =>
    linesOf(object).filter((line) => line.startsWith("immutable"));
  expect(lines(changed(id, { spec: before }, { spec: after }, { changes }))).toEqual(named(...names));
  expect(lines(objectOf(id, { changes }))).toEqual(named(...names));
});

test("a field that only the API server sets is not changed by what is rendered without it", () => {
  const metadata = { uid: "7c1e" };
  const template = (fields: object) => [{ metadata: { name: "data" }, spec: { a: "1", ...fields } }];
  const live = {
    metadata,
    spec: { serviceName: "a", podManagementPolicy: "OrderedReady", volumeClaimTemplates: template({ b: "2" }) },
  };
  const rendered = (fields: object) => ({ spec: { serviceName: "a", volumeClaimTemplates: template({}), ...fields } });
  const lines = (fields: object, changes = [update("spec.replicas")]) =>
    linesOf(changed("apps/StatefulSet", live, rendered(fields), { changes }));
  expect(lines({})).toEqual([]);
  expect(lines({ serviceName: "b" })).toEqual(named("spec.serviceName"));
  expect(lines({ volumeClaimTemplates: template({ a: "2" }) })).toEqual(named("spec.volumeClaimTemplates"));
  const removal = { type: "delete" as const, jsonPath: "spec.serviceName", oldValue: "a" };
  expect(lines({ serviceName: undefined }, [removal])).toEqual(named("spec.serviceName"));
});

test("a change that the API server accepted in a dry run is not refused", () => {
  const state = (serviceName: string, uid?: string) => ({ metadata: { uid }, spec: { serviceName } });
  const rendered = JSON.stringify(state("b"));
  const object = changed("apps/StatefulSet", state("a", "7c1e"), state("b", "7c1e"), { rendered });
  expect(linesOf(object)).toEqual([]);
  expect(linesOf(object, { errors: [{ ref: object.ref, message: "another problem" }] })).toEqual(
    named("spec.serviceName"),
  );
  // kluctl would delete the object and create it again: it repeats what was rendered.
  expect(linesOf({ ...object, applied: rendered })).toEqual(named("spec.serviceName"));
  expect(linesOf({ ...object, applied: undefined })).toEqual(named("spec.serviceName"));
});

test.each([
  [{ clusterIP: "10.0.0.1" }, { clusterIP: "10.0.0.2" }, ["spec.clusterIP"]],
  [{ clusterIP: "10.0.0.1" }, { clusterIP: "None" }, ["spec.clusterIP"]],
  [{ clusterIP: "10.0.0.1" }, {}, []], // which keeps it
  [{ clusterIPs: ["10.0.0.1"] }, { clusterIPs: ["10.0.0.1", "fd00::1"], ipFamilyPolicy: "PreferDualStack" }, []],
  [{ clusterIP: "10.0.0.1" }, { clusterIP: "10.0.0.1", clusterIPs: ["10.0.0.1", "fd00::1"] }, []],
  [{ clusterIPs: ["10.0.0.1", "fd00::1"] }, { clusterIPs: ["10.0.0.1"], ipFamilyPolicy: "SingleStack" }, []],
  [{ clusterIPs: ["10.0.0.1"] }, { clusterIPs: ["10.0.0.2", "fd00::1"] }, ["spec.clusterIPs"]],
  [{ clusterIPs: ["10.0.0.1", "fd00::1"] }, { clusterIPs: ["10.0.0.1", "fd00::2"] }, ["spec.clusterIPs"]],
  [{ clusterIP: "10.0.0.1", type: "ClusterIP" }, { clusterIP: "", type: "ExternalName" }, []],
  [{ clusterIP: "", type: "ExternalName" }, { clusterIP: "10.0.0.1", type: "ClusterIP" }, []],
])("addresses of a Service can be added and released: %j → %j", (before, after, names) => {
  expect(linesOf(changed("/Service", { spec: before }, { spec: after }))).toEqual(named(...names));
});

test("where a state is missing, a second address may still be added", () => {
  const insert = (jsonPath: string, newValue: string) => ({ type: "insert" as const, jsonPath, newValue });
  const changes = [insert("spec.clusterIPs[1]", "fd00::1"), update("spec.ipFamilyPolicy", "PreferDualStack")];
  expect(linesOf(objectOf("/Service", { changes }))).toEqual([]);
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
  [`${invalid}spec.hunter: Invalid value: "": field is immutable`, "spec"],
  [`${invalid}${"a".repeat(100)}: Invalid value: "": field is immutable`, "a".repeat(60)],
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
