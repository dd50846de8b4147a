import { expect, test } from "vitest";
import type { ResultObject } from "../../../src/model.ts";
import { findKept } from "../../../src/preview/kept.ts";
import { toReferenceDiff } from "../../../src/preview/reference-diff.ts";
import { aResult, anObject } from "../../support/deployments.ts";

type Data = Readonly<Record<string, string>>;

const ref = { version: "v1", kind: "ConfigMap", name: "settings", namespace: "shop" };
const json = (data: Data) => JSON.stringify({ data });

/** What kluctl reports if `rendered` is applied to `live`. */
function diffOf(live: Data | undefined, rendered: Data | undefined, more: Partial<ResultObject> = {}): ResultObject[] {
  const remote = live && json(live);
  if (rendered === undefined) return live === undefined ? [] : [anObject({ ref, orphan: true, remote, ...more })];
  const both = { ref, rendered: json(rendered), applied: json(rendered), remote, ...more };
  if (live === undefined) return [anObject({ ...both, new: true })];
  const changed = Object.keys(rendered).filter((key) => live[key] !== rendered[key]);
  const changes = changed.map((key) => ({
    type: "update" as const,
    jsonPath: `data.${key}`,
    oldValue: live[key],
    newValue: rendered[key],
  }));
  return [anObject({ ...both, changes })];
}

interface Commits {
  readonly live?: Data;
  readonly base?: Data;
  readonly merge?: Data;
}

function keptOf({ live, base, merge }: Commits, more: Partial<ResultObject> = {}) {
  const reference = toReferenceDiff(aResult({ objects: diffOf(live, base, more) }));
  return findKept(aResult({ objects: diffOf(live, merge, more) }), reference);
}

test("a field that the merge sets to what the cluster has, and the base does not, is kept", () => {
  const [kept] = keptOf({ live: { a: "live", b: "1" }, base: { a: "git", b: "2" }, merge: { a: "live", b: "2" } });
  expect(kept?.changes.map(({ jsonPath }) => jsonPath)).toEqual(["data.a"]);
});

test("an object that the merge does not create, although the base does, is kept away", () => {
  expect(keptOf({ base: { a: "1" } })).toMatchObject([{ new: true }]);
});

test("an object that the merge renders again, although the base would delete it, is kept", () => {
  expect(keptOf({ live: { a: "1" }, merge: { a: "1" } })).toMatchObject([{ orphan: true }]);
});

test.each<[string, Commits]>([
  ["does the same as the base", { live: { a: "1" }, base: { a: "2" }, merge: { a: "2" } }],
  ["sets another value", { live: { a: "1" }, base: { a: "2" }, merge: { a: "3" } }],
  ["deletes the object", { live: { a: "1" }, base: { a: "2" } }],
  ["creates another object of that name", { base: { a: "2" }, merge: { a: "3" } }],
  ["has nothing to do, like the base", { live: { a: "1" }, base: { a: "1" }, merge: { a: "1" } }],
])("nothing is kept if the merge %s", (_, commits) => {
  expect(keptOf(commits)).toEqual([]);
});

test("the base's hooks would run again with the next deploy, whatever the merge does", () => {
  expect(keptOf({ base: { a: "1" } }, { hook: true })).toEqual([]);
});

test("an object about which the merge's result says nothing is not kept", () => {
  const reference = toReferenceDiff(aResult({ objects: diffOf({ a: "1" }, { a: "2" }) }));
  const merged = aResult({ objects: diffOf({ a: "1" }, { a: "1" }), errors: [{ ref, message: "refused" }] });
  expect(findKept(merged, reference)).toEqual([]);
});

test("an object that has changed since the base was compared is not kept", () => {
  const reference = toReferenceDiff(aResult({ objects: diffOf({ a: "older" }, { a: "git" }) }));
  expect(findKept(aResult({ objects: diffOf({ a: "newer" }, { a: "newer" }) }), reference)).toEqual([]);
});
