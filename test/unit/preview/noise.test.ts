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
