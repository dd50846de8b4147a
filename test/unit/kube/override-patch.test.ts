import { expect, test } from "vitest";
import { parseOverridden } from "../../../src/apis/kluctl/override-patch.ts";

const resource = {
  apiVersion: "gitops.kluctl.io/v1beta1",
  kind: "KluctlDeployment",
  metadata: { name: "prod", namespace: "shop", uid: "1", resourceVersion: "7", generation: 3, annotations: { a: "b" } },
  spec: {
    interval: "5m",
    source: { git: { url: "https://git.example.com/org/shop", ref: { branch: "main" } } },
    target: "prod",
    args: { size: { min: 1, max: 2 }, gone: true },
    includeTags: ["a"],
  },
  status: { observedGeneration: 3 },
};

test("maps are merged, lists are replaced, and null removes a value", () => {
  const spec = {
    dryRun: true,
    args: { size: { max: 3 }, gone: null, "x.y": 1 },
    includeTags: ["b", "c"],
    target: null,
  };
  expect(parseOverridden(resource, { spec })).toMatchObject({
    key: { namespace: "shop", name: "prod" },
    generation: 3,
    spec: {
      dryRun: true,
      args: { size: { min: 1, max: 3 }, "x.y": 1 },
      includeTags: ["b", "c"],
      target: undefined,
      intervalMs: 300_000,
    },
  });
});

test.each([
  { metadata: { annotations: { a: null } } },
  { metadata: { labels: { a: "b" } } },
  { status: { observedGeneration: 4 } },
  { kind: "Other" },
  { other: 1 },
])("%j is refused: only the spec may change", (patch) => {
  expect(parseOverridden(resource, { spec: { dryRun: true }, ...patch })).toMatchObject({
    problem: "override patch tried to modify non-spec fields",
  });
});

test("a patch that repeats the current values of other fields is accepted", () => {
  const patch = { metadata: { name: "prod" }, spec: { prune: true } };
  expect(parseOverridden(resource, patch)).toMatchObject({ spec: { prune: true } });
});

test.each([
  [{ spec: { dryrun: true } }, /unknown fields: spec.dryrun$/],
  [{ spec: { source: { git: { branch: "x" } } } }, /unknown fields: spec.source.git.branch$/],
  [{ spec: { images: [{ resultImage: "x", tag: "y" }] } }, /unknown fields: spec.images\[0\].tag$/],
  [{ spec: { dryRun: "yes" } }, /^the override cannot be applied: spec.dryRun: "yes" is not true or false$/],
  [{ spec: { deployMode: "slow" } }, /spec.deployMode: "slow" is not one of full-deploy, poke-images/],
  [{ spec: null }, /spec.interval: is missing/],
  [JSON.parse('{"spec":{"__proto__":{"dryRun":true}}}') as object, /unknown fields: spec.__proto__/],
])("%j is refused, and the field is named", (patch, problem) => {
  expect(parseOverridden(resource, patch as Record<string, unknown>)).toMatchObject({
    problem: expect.stringMatching(problem) as string,
  });
});
