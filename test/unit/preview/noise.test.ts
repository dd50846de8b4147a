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
  update('spec.template.metadata.labels["app.kubernetes.io/version"]', "1", "2"),
  update('spec.volumeClaimTemplates[0].metadata.labels["helm.sh/chart"]', "web-1.0.0", "web-1.1.0"),
  update('spec.template.metadata.annotations["checksum/config"]', sha("a"), sha("b")),
  update('spec.template.metadata.annotations["example.com/config-hash"]', "0123abcd", "4567cdef"),
])("%j is noise", (change) => {
  expect(separate([change])).toEqual({ told: [], noise: [change.jsonPath] });
});

test.each([
  update("metadata.labels.app", "a", "b"),
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

const config = (name: string, data: object, state: Partial<ResultObject>) =>
  anObject({
    ref: { version: "v1", kind: "ConfigMap", name, namespace: "shop" },
    ...state,
    ...(state.new ? { rendered: JSON.stringify({ data }) } : { remote: JSON.stringify({ data, metadata: {} }) }),
  });
const names = (objects: readonly ResultObject[]) =>
  objects
    .filter(({ new: isNew, orphan, deleted, changes }) => isNew || orphan || deleted || changes.length > 0)
    .map(({ ref: { name } }) => name);

test("a generated name that changes with its content makes its references noise, and the content counts", () => {
  const path = "spec.template.spec.volumes[0].configMap.name";
  const user = anObject({
    ref,
    changes: [update(path, "web-b9h7k2t6mc", "web-c8f4g5k2hd"), update("spec.replicas", 1, 2)],
  });
  const objects = [
    config("web-b9h7k2t6mc", { a: "1" }, { orphan: true }),
    config("web-c8f4g5k2hd", { a: "2" }, { new: true }),
    user,
  ];
  const { told, noise } = separateNoise(objects, []);
  expect(names(told)).toEqual(["web-b9h7k2t6mc", "web-c8f4g5k2hd", "web"]);
  expect(noise).toMatchObject([{ ref: { name: "web" }, changes: [{ jsonPath: path }] }]);
});

test("an object that only got another generated name is noise", () => {
  const objects = [
    config("web-b9h7k2t6mc", { a: "1" }, { deleted: true }),
    config("web-c8f4g5k2hd", { a: "1" }, { new: true }),
  ];
  const { told, noise } = separateNoise(objects, []);
  expect([names(told), names(noise)]).toEqual([[], ["web-b9h7k2t6mc", "web-c8f4g5k2hd"]]);
});

test.each<[string, ResultObject[]]>([
  ["there are two new ones", ["web-aaaaaaaaaa", "web-bbbbbbbbbb"].map((name) => config(name, {}, { new: true }))],
  ["the names have no generated end", [config("web", {}, { new: true })]],
  ["the kinds differ", [anObject({ ref: { kind: "Secret", name: "web-aaaaaaaaaa", namespace: "shop" }, new: true })]],
])("nothing counts as renamed if %s", (_, created) => {
  const objects = [config("web-b9h7k2t6mc", {}, { orphan: true }), ...created];
  expect(separateNoise(objects, []).noise).toEqual([]);
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
