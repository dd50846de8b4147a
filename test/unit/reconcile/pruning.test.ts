import { expect, test } from "vitest";
import { annotation, type CommandResult, type ResultObject } from "../../../src/model.ts";
import { findDoomed, findWaiting, isConfirmed, withPruned } from "../../../src/guards/pruning.ts";
import { aResult, anObject } from "../../support/deployments.ts";

const guard = { percent: 50, fromObjects: 10 };

function configMap(name: string, more: object = {}): string {
  return JSON.stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: "shop", uid: `uid-${name}`, ...more },
  });
}

function named(name: string, over: Partial<ResultObject>): ResultObject {
  return anObject({ ref: { version: "v1", kind: "ConfigMap", name, namespace: "shop" }, ...over });
}

const kept = (name: string) => named(name, { rendered: configMap(name), remote: configMap(name) });
const added = (name: string) => named(name, { rendered: configMap(name), new: true });
const orphan = (name: string, more: object = {}) => named(name, { orphan: true, remote: configMap(name, more) });

function result(counts: { kept?: number; added?: number; orphans?: number }): CommandResult {
  const many = (count: number, make: (name: string) => ResultObject, prefix: string) =>
    Array.from({ length: count }, (_, i) => make(`${prefix}-${i}`));
  const objects = [
    ...many(counts.kept ?? 0, kept, "kept"),
    ...many(counts.added ?? 0, added, "added"),
    ...many(counts.orphans ?? 0, orphan, "orphan"),
  ];
  return aResult({ objects });
}

test.each([
  { when: "half of them", counts: { kept: 10, orphans: 10 }, waits: false },
  { when: "more than half", counts: { kept: 9, orphans: 11 }, waits: true },
  { when: "more than half of nine", counts: { kept: 1, orphans: 8 }, waits: false },
  { when: "all, because all are named anew", counts: { added: 12, orphans: 12 }, waits: true },
  { when: "all of a few, since nothing is rendered at all", counts: { orphans: 2 }, waits: true },
  { when: "none", counts: { kept: 30 }, waits: false },
  { when: "none, and there is nothing", counts: {}, waits: false },
])("pruning $when → waits: $waits", ({ counts, waits }) => {
  expect(findWaiting(result(counts), guard, undefined) !== undefined).toBe(waits);
});

test("a confirmation is valid for exactly these objects, in any order", () => {
  const large = result({ kept: 2, orphans: 12 });
  const waiting = findWaiting(large, guard, undefined);
  expect(waiting?.message).toContain("12 of 14 deployed objects");
  expect(waiting?.message).toContain(`${annotation.confirmPrune}=${waiting?.hash}`);
  const turned = { ...large, objects: large.objects.toReversed() };
  expect(findWaiting(turned, guard, waiting?.hash)).toBeUndefined();
  expect(isConfirmed(turned, waiting?.hash)).toBe(true);
  const more = result({ kept: 2, orphans: 13 });
  expect(findWaiting(more, guard, waiting?.hash)).toBeDefined();
  expect(isConfirmed(more, waiting?.hash)).toBe(false);
  expect(isConfirmed(result({ kept: 2 }), waiting?.hash)).toBe(false);
});

test("objects that are already being deleted are neither counted nor deleted again", () => {
  const going = orphan("slow", { deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(findDoomed(aResult({ objects: [going, orphan("two")] }))).toMatchObject([{ name: "two", uid: "uid-two" }]);
});

test("an object is deleted under its own name, not the one that kluctl compares it by", () => {
  const renamed = {
    ...orphan("settings-8f2b1"),
    ref: { version: "v1", kind: "ConfigMap", name: "settings", namespace: "shop" },
  };
  expect(findDoomed(aResult({ objects: [renamed] }))).toMatchObject([
    { name: "settings-8f2b1", ref: { name: "settings" } },
  ]);
});

test("a result after pruning lists what was deleted, and what was not and why", () => {
  const objects = [kept("one"), orphan("two"), orphan("three")];
  const compactedObjects = objects.map(({ ref, orphan }) => ({ ref, ...(orphan && { orphan }), remote: "full: {}" }));
  const before = aResult({ objects });
  const deployed = { ...before, document: { ...before.document, compactedObjects } };
  const refused = { ref: objects[2]!.ref, message: "forbidden" };
  const after = withPruned(deployed, findDoomed(deployed), [refused], Date.parse("2026-01-01T00:00:05Z"));
  expect(after.objects.map(({ ref, orphan, deleted }) => [ref.name, orphan, deleted])).toEqual([
    ["one", false, false],
    ["two", false, true],
    ["three", true, false],
  ]);
  expect(after.document).toMatchObject({
    command: { endTime: "2026-01-01T00:00:05Z" },
    errors: [refused],
    compactedObjects: [
      { ref: { name: "one" } },
      { ref: { name: "two" }, deleted: true },
      { ref: { name: "three" }, orphan: true },
    ],
  });
  expect((after.document["compactedObjects"] as object[])[1]).not.toHaveProperty("orphan");
  expect(after.errors).toEqual([refused]);
});
