import { expect, test } from "vitest";
import type { FieldChange, ResultObject } from "../../../src/model.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { parseIgnoredFields, separateNoise } from "../../../src/preview/noise.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const ref = { group: "apps", version: "v1", kind: "Deployment", name: "web", namespace: "shop" };

const update = (jsonPath: string, oldValue: unknown, newValue: unknown): FieldChange => ({
  type: "update",
  jsonPath,
  oldValue,
  newValue,
});

/** The paths of the changes that count and of those that are noise. */
function separate(changes: readonly FieldChange[], ignore = "") {
  const { told, noise } = separateNoise([anObject({ ref, changes })], parseIgnoredFields(ignore).fields);
  const pathsOf = (objects: readonly ResultObject[]) => objects.flatMap((one) => one.changes.map((c) => c.jsonPath));
  return { told: pathsOf(told), noise: pathsOf(noise) };
}

const sha = (digit: string) => digit.repeat(64);

test.each([
  update('metadata.labels["helm.sh/chart"]', "web-1.0.0", "web-1.1.0"),
  update('metadata.labels["app.kubernetes.io/version"]', "1", "2"),
  update('spec.template.metadata.annotations["checksum/config"]', sha("a"), sha("b")),
])("%j is noise", (change) => {
  expect(separate([change])).toEqual({ told: [], noise: [change.jsonPath] });
});

test.each([
  update("metadata.labels.app", "a", "b"),
  update('spec.template.metadata.labels["app.kubernetes.io/version"]', "1", "2"),
  update('spec.volumeClaimTemplates[0].metadata.labels["helm.sh/chart"]', "web-1.0.0", "web-1.1.0"),
  update('metadata.annotations["checksum/config"]', sha("a"), sha("b")),
  update('metadata.annotations["example.com/commit-hash"]', sha("a"), sha("b")),
  update('spec.selector.matchLabels["app.kubernetes.io/version"]', "1", "2"),
  update('spec.template.metadata.annotations["checksum/config"]', sha("a"), "off"),
  update('metadata.annotations["example.com/owner"]', "a", "b"),
  { type: "delete", jsonPath: 'metadata.labels["helm.sh/chart"]', oldValue: "web-1.0.0" } as const,
  { type: "insert", jsonPath: "metadata.labels", newValue: { "helm.sh/chart": "web-1.1.0" } } as const,
  update("spec.version", "1", "2"),
  update(`spec${"[0]".repeat(40)}`, "1", "2"),
])("%j is not noise", (change) => {
  expect(separate([change])).toEqual({ told: [change.jsonPath], noise: [] });
});

test("the other changes of an object with noise count", () => {
  const changes = [update('metadata.labels["helm.sh/chart"]', "web-1", "web-2"), update("spec.replicas", 1, 2)];
  expect(separate(changes)).toEqual({ told: ["spec.replicas"], noise: ['metadata.labels["helm.sh/chart"]'] });
});

test.each([
  ["/spec/replicas", ["spec.replicas"]],
  ["Deployment /spec/replicas", ["spec.replicas"]],
  ["* /spec/replicas", ["spec.replicas"]],
  ["Deploy* /spec/replicas", ["spec.replicas"]],
  ["StatefulSet /spec/replicas", []],
  ["/spec/replica", []],
  ["/spec/template", ["spec.template.spec.containers[1].image", 'spec.template.metadata.annotations["a.b/c"]']],
  ["/spec/template/spec/containers/*/image", ["spec.template.spec.containers[1].image"]],
  ["/spec/template/spec/containers/0/image", []],
  ["/**/image", ["spec.template.spec.containers[1].image"]],
  ["/spec/template/metadata/annotations/a.b~1*", ['spec.template.metadata.annotations["a.b/c"]']],
  ["# a comment\n\n  /spec/replicas  \nService /spec/type", ["spec.replicas"]],
])("%j ignores %j", (ignore, noise) => {
  const changes = [
    update("spec.replicas", 1, 2),
    update("spec.template.spec.containers[1].image", "a:1", "a:2"),
    update('spec.template.metadata.annotations["a.b/c"]', "x", "y"),
  ];
  expect(separate(changes, ignore).noise).toEqual(noise);
});

test.each([
  "spec.replicas",
  "Deployment",
  "Deployment spec/replicas",
  "Deployment /spec/replicas /spec/paused",
  "Deployment,Service /spec",
  "/spec/{a,b}",
  "/",
])("%j is reported, and other lines are used", (line) => {
  const { fields, problems } = parseIgnoredFields(`/spec/paused\n${line}`);
  expect(fields).toHaveLength(1);
  expect(problems).toEqual([expect.stringContaining("line 2 is not used")]);
});

test("an annotation with very many lines costs no more than a hundred of them", () => {
  const { fields, problems } = parseIgnoredFields(Array.from({ length: 5_000 }, (_, at) => `/spec/f${at}`).join("\n"));
  expect(fields).toHaveLength(100);
  expect(problems).toEqual(["only the first 100 lines are used"]);
});

test("noise is shown apart and counted nowhere, and problems of the annotation are warnings", () => {
  const changes = [update("spec.replicas", 1, 2), update('metadata.labels["helm.sh/chart"]', "web-1", "web-2")];
  const found = describeDiff(aResult({ objects: [anObject({ ref, changes })] }), {
    knownSecrets: [],
    prune: false,
    ignoreChanges: "Deployment /spec/replicas\nspec.paused",
  });
  expect(found.counts).toMatchObject({ changed: 0, warnings: 1 });
  expect(found.objects).toEqual([]);
  expect(found.noise).toMatchObject({ objects: [{ ref, action: "changed" }], objectsLeftOut: 0 });
  expect(found.warnings).toEqual([
    { message: expect.stringMatching(/^towline\.dev\/ignore-changes: line 2 is not used/) },
  ]);
});

const configMap = (name: string, data: object, more: Partial<ResultObject> = {}) => {
  const json = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "shop" }, data });
  const object = anObject({ ref: { version: "v1", kind: "ConfigMap", name, namespace: "shop" }, ...more });
  return more.orphan ? { ...object, remote: json } : { ...object, rendered: json, applied: json };
};
const [old, now] = ["settings-7t6gm2h5kd", "settings-9b8f4c2mmt"];
const pods = (path: string, from: string = old, to: string = now) =>
  anObject({ ref, changes: [update(`spec.template.spec.${path}`, from, to)] });

function changesOf(objects: readonly ResultObject[]) {
  const { told, noise } = separateNoise(objects, []);
  const texts = (list: readonly ResultObject[]) =>
    list.flatMap((one) => one.changes.map(({ jsonPath }) => `${one.ref.name} ${jsonPath}`));
  const added = told.flatMap((one) => (one.new ? [one.ref.name] : []));
  const left = told.flatMap((one) => (one.orphan ? [one.ref.name] : []));
  return { told: texts(told), noise: texts(noise), added, left };
}

test("a ConfigMap whose name follows its content is one object that changes; references to it are noise", () => {
  const objects = [
    configMap(now, { color: "blue", size: "1" }, { new: true }),
    configMap(old, { color: "red", shape: "round" }, { orphan: true }),
    pods("volumes[0].configMap.name"),
    pods("containers[0].envFrom[0].configMapRef.name"),
    pods("containers[0].env[2].valueFrom.configMapKeyRef.name"),
  ];
  expect(changesOf(objects)).toEqual({
    told: [`${now} data["color"]`, `${now} data["shape"]`, `${now} data["size"]`],
    noise: [
      `${now} metadata.name`,
      "web spec.template.spec.volumes[0].configMap.name",
      "web spec.template.spec.containers[0].envFrom[0].configMapRef.name",
      "web spec.template.spec.containers[0].env[2].valueFrom.configMapKeyRef.name",
    ],
    added: [],
    left: [],
  });
});

test("a ConfigMap that only gets another name is noise", () => {
  const objects = [configMap(now, { color: "red" }, { new: true }), configMap(old, { color: "red" }, { orphan: true })];
  expect(changesOf(objects)).toEqual({ told: [], noise: [`${now} metadata.name`], added: [], left: [] });
});

test.each([
  ["elsewhere, an equal text may name another object", pods("serviceAccountName")],
  ["another name", pods("volumes[0].configMap.name", old, "settings-2222222222")],
  ["an object of another namespace", { ...pods("volumes[0].configMap.name"), ref: { ...ref, namespace: "other" } }],
])("what does not follow the new name counts: %s", (_, object) => {
  const pair = [configMap(now, { color: "red" }, { new: true }), configMap(old, { color: "red" }, { orphan: true })];
  expect(changesOf([...pair, object]).told).toHaveLength(1);
});

test.each([
  [
    "the name was not generated",
    [configMap("settings-new", {}, { new: true }), configMap("settings-old", {}, { orphan: true })],
  ],
  ["another stem", [configMap(now, {}, { new: true }), configMap("other-7t6gm2h5kd", {}, { orphan: true })]],
  [
    "several are left",
    [
      configMap(now, {}, { new: true }),
      configMap(old, {}, { orphan: true }),
      configMap("settings-2222222222", {}, { orphan: true }),
    ],
  ],
])("one is new and others go: %s", (_, objects) => {
  const { added, left, noise } = changesOf(objects);
  expect([added.length, left.length, noise]).toEqual([1, objects.length - 1, []]);
});

test("a diff counts a renamed ConfigMap as one that changes, and shows its content", () => {
  const objects = [
    configMap(now, { color: "blue" }, { new: true }),
    configMap(old, { color: "red" }, { orphan: true }),
  ];
  const { counts, objects: described } = describeDiff(aResult({ objects }), { knownSecrets: [], prune: true });
  expect(counts).toMatchObject({ new: 0, changed: 1, deleted: 0, orphan: 0 });
  expect(described).toMatchObject([{ ref: { name: now }, action: "changed", risks: [] }]);
  expect(described[0]?.diff).toContain("-  red\n+  blue");
});
