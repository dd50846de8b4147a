import { expect, test } from "vitest";
import type { FieldChange, ResultObject } from "../../../src/model.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const was = "encrypted0123456789a";
const becomes = "encryptedfedcba98765";
const secret = "canary-of-the-cluster";

function update(jsonPath: string, oldValue: unknown, newValue: unknown): FieldChange {
  return { type: "update", jsonPath, oldValue, newValue };
}

/** An object as the merge or the deployed commit renders it, with its changes against the cluster. */
function anObjectOf(rendered: unknown, changes: FieldChange[], overrides: Partial<ResultObject> = {}): ResultObject {
  return anObject({ rendered: JSON.stringify(rendered), changes, ...overrides });
}

function describe(merged: ResultObject, deployed?: ResultObject, errors: string[] = []) {
  const reference = deployed && aResult({ objects: [deployed] });
  const messages = errors.map((message) => ({ ref: merged.ref, message }));
  const options = { knownSecrets: [], prune: false, undecrypted: { reference } };
  const { objects, ...rest } = describeDiff(aResult({ objects: [merged], errors: messages }), options);
  return { ...rest, objects, diff: objects[0]?.diff?.split("\n") };
}

test("an object that renders as before is no change, however much it differs from the decrypted one in the cluster", () => {
  const object = anObjectOf({ data: { a: was, port: 1 } }, [update("data.a", secret, was), update("data.port", 80, 1)]);
  expect(describe(object, object)).toMatchObject({ objects: [], counts: { changed: 0 } });
});

test("a change is shown from the previous placeholder to the new one, or to the unencrypted value", () => {
  const deployed = anObjectOf({ data: { a: was } }, [update("data.a", secret, was)]);
  const changed = anObjectOf({ data: { a: becomes } }, [update("data.a", secret, becomes)]);
  expect(describe(changed, deployed).diff).toEqual([" data.a:", `-  ${was}`, `+  ${becomes}`]);

  const open = anObjectOf({ data: { a: "open" } }, [update("data.a", secret, "open")]);
  expect(describe(open, deployed).diff).toEqual([" data.a:", `-  ${was}`, "+  open"]);

  const gone = anObjectOf({}, [{ type: "delete", jsonPath: "data.a", oldValue: secret }]);
  expect(describe(gone, deployed).diff).toEqual([" data.a:", `-  ${was}`]);
});

test("an object that the base would create or delete as well is not the pull request's", () => {
  const created = anObjectOf({ data: { a: was } }, [], { new: true });
  const none = { objects: [], counts: { new: 0, changed: 0, orphan: 0, deleted: 0 } };
  expect(describe(created, created)).toMatchObject(none);
  const orphan = anObject({ orphan: true });
  expect(describe(orphan, orphan)).toMatchObject(none);
  // It is, if only the merge does.
  expect(describe(created).counts.new).toBe(1);
  expect(describe(created, anObjectOf({ data: { a: becomes } }, [], { new: true })).counts.new).toBe(1);
  expect(describe(orphan, anObjectOf({ data: {} }, [])).counts.orphan).toBe(1);
});

test("beside it, values that were never encrypted are shown as they are in the cluster", () => {
  const deployed = anObjectOf({ data: { a: was, b: "1" } }, [update("data.a", secret, was)]);
  const merged = anObjectOf({ data: { a: was, b: "2" } }, [update("data.a", secret, was), update("data.b", "1", "2")]);
  expect(describe(merged, deployed).diff).toEqual([" data.b:", "-  1", "+  2"]);
});

test.each([
  ["whole", update("data", { a: secret }, { b: "x" }), update("data.a", secret, was)],
  ["in part", update("data.list[0].a", secret, "x"), update("data.list", [{ a: secret }], [{ a: was }])],
])("a value that may be secret is not shown as it is in the cluster: %s", (_, change, before) => {
  const { diff } = describe(anObjectOf({ n: 1 }, [change]), anObjectOf({ n: 0 }, [before]));
  expect(diff?.join("\n")).toMatch(/^-.*\*\*\*/m);
  expect(diff?.join("\n")).not.toContain("canary");
});

test("if the deployed commit cannot be compared, no value is shown as it is in the cluster", () => {
  const merged = anObjectOf({ data: { a: "open" } }, [update("data.a", secret, "open")]);
  for (const deployed of [undefined, anObject({ ref: { kind: "ConfigMap", name: "other" } })]) {
    expect(describe(merged, deployed).diff?.join("\n")).toMatch(/^ data\.a:\n- {2}\*+\n\+ {2}open$/);
  }
});

test("cluster values that differ from the placeholders are hidden everywhere", () => {
  const deployed = anObjectOf({ data: { a: was } }, [update("data.a", secret, was)]);
  const merged = anObjectOf({ data: { a: was, b: secret } }, [
    update("data.a", secret, was),
    { type: "insert", jsonPath: "data.b", newValue: `--${secret}--` },
  ]);
  const told = describe(merged, deployed, [
    `${secret} is no host, and ${Buffer.from(secret).toString("base64")} neither`,
  ]);
  expect(told.errors).toHaveLength(1);
  expect(JSON.stringify(told)).not.toContain("canary");
  expect(JSON.stringify(told)).not.toContain(Buffer.from(secret).toString("base64").slice(0, 20));
});

test("for a Secret, the keys whose encrypted value changed are shown", () => {
  const ref = { version: "v1", kind: "Secret", name: "db" };
  const live = JSON.stringify({ data: { a: Buffer.from(secret).toString("base64") } });
  const of = (a: string, b?: string) =>
    anObjectOf({ data: { a, b } }, [update("data.a", "Y2FuYXJ5", a)], { ref, remote: live, applied: live });
  expect(describe(of(was, was), of(was, was)).objects).toEqual([]);
  expect(describe(of(was, becomes), of(was, was)).objects[0]?.secretKeys).toEqual([
    { key: "a", change: "unchanged" },
    { key: "b", change: "changed" },
  ]);
});

test("risks are found by comparing both renders, and do not depend on values in the cluster", () => {
  const ref = { group: "apps", version: "v1", kind: "Deployment", name: "web" };
  const at = "spec.template.spec.containers[0].image";
  const withImage = (image: string) => ({ spec: { template: { spec: { containers: [{ name: "web", image }] } } } });
  const of = (image: string, live: string) => {
    const states = { remote: JSON.stringify(withImage(live)), applied: JSON.stringify(withImage(image)) };
    return anObjectOf(withImage(image), [update(at, live, image)], { ref, ...states });
  };
  const texts = (merged: ResultObject, deployed?: ResultObject) =>
    describe(merged, deployed).objects.flatMap(({ risks }) => risks.map(({ text }) => text));

  for (const live of ["web:1.0.0", "web:9.0.0"]) {
    expect(texts(of("web:1.4.0", live), of(`web:${was}`, live))).toEqual([]);
    expect(texts(of("web:1.4.0", live))).toEqual([]);
    expect(texts(of("web:1.4.0", live), of("web:1.5.0", live))).toEqual([
      "a container goes back to an older version of its image",
    ]);
  }
});
