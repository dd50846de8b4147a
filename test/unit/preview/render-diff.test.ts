import { expect, test } from "vitest";
import type { CommandResult } from "../../../src/model.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { compareRenders } from "../../../src/preview/render-diff.ts";
import { aRender, type Rendered } from "../../support/preview.ts";

const object = (kind: string, name: string, more: object = {}, apiVersion = "v1"): Rendered => ({
  apiVersion,
  kind,
  metadata: { name, namespace: "shop" },
  ...more,
});
const compare = (base: Rendered[], head: Rendered[]) => compareRenders(aRender(...base), aRender(...head));
const describe = (base: Rendered[], head: Rendered[]) =>
  describeDiff(compare(base, head), { knownSecrets: [], prune: false });
const pathsOf = ({ objects }: CommandResult) =>
  objects.flatMap(({ changes }) => changes.map(({ jsonPath }) => jsonPath));

test("equal objects are no change, whatever the order of objects and fields", () => {
  const a = object("ConfigMap", "a", { data: { x: "1", y: "2" } });
  const b = object("Role", "b", {}, "rbac.authorization.k8s.io/v1");
  const again = {
    data: { y: "2", x: "1" },
    metadata: { namespace: "shop", name: "a" },
    kind: "ConfigMap",
    apiVersion: "v1",
  };
  expect(describe([a, b], [b, again]).objects).toEqual([]);
});

test("new, changed and missing objects are described as in kluctl's diff", () => {
  const found = describe(
    [object("ConfigMap", "changed", { data: { a: "1", gone: "x" } }), object("ConfigMap", "missing")],
    [object("ConfigMap", "changed", { data: { a: "2", "new.key": "y" } }), object("ConfigMap", "added")],
  );
  expect(found.counts).toMatchObject({ new: 1, changed: 1, orphan: 1, deleted: 0 });
  const changed = found.objects.find(({ ref }) => ref.name === "changed");
  expect(changed?.diff).toContain("data.a:");
  for (const line of ["-  1", "+  2", "-  x", "+  y"]) expect(changed?.diff?.split("\n")).toContain(line);
});

test("an object in another version of its API is the same object", () => {
  const [base, head] = ["v1beta1", "v1"].map((version) => object("Job", "j", {}, `batch/${version}`));
  const found = describe([base!], [head!]);
  expect(found.counts).toMatchObject({ new: 0, changed: 1, orphan: 0 });
});

test("for Secrets only keys are shown, and copies of their values in other objects are hidden", () => {
  const secret = (value: string) => object("Secret", "s", { stringData: { password: value } });
  const copy = (value: string) => object("ConfigMap", "copy", { data: { url: `https://user:${value}@db` } });
  const [old, now] = ["old-secret-value-1", "new-secret-value-2"];
  const found = describe([secret(old), copy(old)], [secret(now), copy(now)]);
  expect(found.counts.changed).toBe(2);
  expect(found.objects.find(({ ref }) => ref.kind === "Secret")?.secretKeys).toEqual([
    { key: "password", change: "changed" },
  ]);
  expect(JSON.stringify(found)).not.toMatch(/secret-value/);
});

test("entries of a list are compared one by one if the length is the same", () => {
  const list = (...images: string[]) =>
    object("Pod", "p", { spec: { containers: images.map((image) => ({ image })) } });
  expect(pathsOf(compare([list("a", "b")], [list("a", "c")]))).toEqual(["spec.containers[1].image"]);
  expect(pathsOf(compare([list("a")], [list("a", "b")]))).toEqual(["spec.containers"]);
});

test("values of different types are replaced as a whole", () => {
  const holding = (value: unknown) => object("ConfigMap", "c", { data: { value } });
  for (const [before, after] of [
    [{ a: 1 }, ["a"]],
    ["text", { a: 1 }],
    [null, {}],
    [[], {}],
    [1, "1"],
  ]) {
    expect(pathsOf(compare([holding(before)], [holding(after)]))).toEqual(["data.value"]);
  }
});

test("values that would take too long to compare are compared as a whole", () => {
  const deep = (leaf: string) => {
    let value: unknown = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`k${at}`, leaf]));
    for (let depth = 0; depth < 500; depth++) value = { ["n".repeat(30)]: value };
    return object("ConfigMap", "deep", { data: value as object });
  };
  const wide = (leaf: string) =>
    object("ConfigMap", "wide", {
      data: Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`k${at}`, leaf])),
    });
  const paths = pathsOf(compare([deep("a"), wide("a")], [deep("b"), wide("b")]));
  expect(paths).toHaveLength(2);
  expect(paths.join("").length).toBeLessThan(1_000);
});
