import fc from "fast-check";
import { expect, test } from "vitest";
import type { FieldChange, ResultObject } from "../../../src/model.ts";
import { attribute } from "../../../src/preview/attribute.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { isCurrent, toReferenceDiff } from "../../../src/preview/reference-diff.ts";
import { aResult, anObject } from "../../support/deployments.ts";

type Data = Readonly<Record<string, string>>;

const json = (data: Data) => JSON.stringify({ data });

/** The diff of a ConfigMap: what kluctl reports if `rendered` is applied to `live`. */
function diffOf(live: Data | undefined, rendered: Data | undefined, kind = "ConfigMap"): ResultObject[] {
  const ref = { version: "v1", kind, name: "settings", namespace: "shop" };
  if (rendered === undefined) return live === undefined ? [] : [anObject({ ref, orphan: true, remote: json(live) })];
  if (live === undefined) return [anObject({ ref, new: true, rendered: json(rendered), applied: json(rendered) })];
  const keys = [...new Set([...Object.keys(live), ...Object.keys(rendered)])].filter(
    (key) => live[key] !== rendered[key],
  );
  const changes = keys.map((key): FieldChange => {
    const [oldValue, newValue, jsonPath] = [live[key], rendered[key], `data.${key}`];
    if (oldValue === undefined) return { type: "insert", jsonPath, newValue };
    return newValue === undefined
      ? { type: "delete", jsonPath, oldValue }
      : { type: "update", jsonPath, oldValue, newValue };
  });
  return [anObject({ ref, changes, rendered: json(rendered), remote: json(live), applied: json(rendered) })];
}

const referenceOf = (objects: readonly ResultObject[]) => toReferenceDiff(aResult({ objects }));

interface Commits {
  readonly live: Data | undefined;
  readonly deployed?: Data | undefined;
  readonly base: Data | undefined;
  readonly merge: Data | undefined;
}

/** Whose the changes are, by their paths; a whole object by what happens to it. */
function whose({ live, deployed, base, merge }: Commits, kind?: string) {
  const references = {
    base: referenceOf(diffOf(live, base, kind)),
    deployed: deployed && referenceOf(diffOf(live, deployed, kind)),
  };
  const found = attribute(diffOf(live, merge, kind), references);
  const pathsOf = (objects: readonly ResultObject[]) =>
    objects.flatMap(({ new: isNew, orphan, changes }) =>
      isNew ? ["new"] : orphan ? ["orphan"] : changes.map(({ jsonPath }) => jsonPath.replace("data.", "")),
    );
  return { own: pathsOf(found.own), drifted: pathsOf(found.drifted), undeployed: pathsOf(found.undeployed) };
}

test("the pull request's change, drift and a commit that is not deployed are told apart in one object", () => {
  const deployed = { drift: "git", commit: "1", mine: "1", same: "1" };
  const live = { ...deployed, drift: "by hand" };
  const base = { ...deployed, commit: "2" };
  const merge = { ...base, mine: "2" };
  expect(whose({ live, deployed, base, merge })).toEqual({ own: ["mine"], drifted: ["drift"], undeployed: ["commit"] });
});

test("a field that the pull request sets to another value than the base is its own", () => {
  const deployed = { a: "1" };
  const own = { own: ["a"], drifted: [], undeployed: [] };
  expect(whose({ live: deployed, deployed, base: { a: "2" }, merge: { a: "3" } })).toEqual(own);
  expect(whose({ live: { a: "by hand" }, deployed, base: deployed, merge: { a: "3" } })).toEqual(own);
});

test("whole objects are told apart as well", () => {
  const a = { a: "1" };
  const nobody = { own: [], drifted: [], undeployed: [] };
  expect(whose({ live: undefined, deployed: a, base: a, merge: a })).toEqual({ ...nobody, drifted: ["new"] });
  expect(whose({ live: undefined, base: a, merge: a })).toEqual({ ...nobody, undeployed: ["new"] });
  expect(whose({ live: undefined, base: undefined, merge: a })).toEqual({ ...nobody, own: ["new"] });
  expect(whose({ live: undefined, base: a, merge: { a: "2" } })).toEqual({ ...nobody, own: ["new"] });
  expect(whose({ live: a, deployed: a, base: undefined, merge: undefined })).toEqual({
    ...nobody,
    undeployed: ["orphan"],
  });
  expect(whose({ live: a, deployed: a, base: a, merge: undefined })).toEqual({ ...nobody, own: ["orphan"] });
});

test("without a deployed commit, what the base changes is not deployed", () => {
  const found = whose({ live: { a: "1" }, base: { a: "2" }, merge: { a: "2" } });
  expect(found).toEqual({ own: [], drifted: [], undeployed: ["a"] });
});

test("a Secret is told apart as a whole, because its values are not comparable", () => {
  const live = { drift: "by hand", mine: "1" };
  const deployed = { drift: "git", mine: "1" };
  const drifted = ["drift"];
  expect(whose({ live, deployed, base: deployed, merge: deployed }, "Secret")).toEqual({
    own: [],
    drifted,
    undeployed: [],
  });
  const merge = { ...deployed, mine: "2" };
  const own = ["drift", "mine"];
  expect(whose({ live, deployed, base: deployed, merge }, "Secret")).toEqual({ own, drifted: [], undeployed: [] });
});

test("a value that contains a mask is the pull request's: masks of equal values differ", () => {
  const masked = (hex: string) => ({ a: `url-masked-${hex.repeat(44)}` });
  const found = whose({ live: { a: "real" }, base: masked("a"), merge: masked("a") });
  expect(found).toEqual({ own: ["a"], drifted: [], undeployed: [] });
});

test("a reference is outdated as soon as a live object that the merge or the base touches is another one", () => {
  const base = referenceOf(diffOf({ a: "1" }, { a: "2" }));
  expect(isCurrent(base, diffOf({ a: "1" }, { a: "3" }))).toBe(true);
  expect(isCurrent(base, diffOf({ a: "by hand" }, { a: "3" }))).toBe(false);
  expect(isCurrent(base, diffOf(undefined, { a: "3" }))).toBe(false);
  expect(isCurrent(base, diffOf({ a: "by hand" }, { a: "by hand" }))).toBe(false);
  const untouched = referenceOf(diffOf({ a: "1" }, { a: "1" }));
  expect(isCurrent(untouched, diffOf({ a: "by hand" }, { a: "by hand" }))).toBe(true);
  const other = { kind: "ConfigMap", name: "other", namespace: "shop" };
  expect(isCurrent(base, [anObject({ ref: other, new: true, rendered: "{}" })])).toBe(true);
  expect(isCurrent(base, [anObject({ ref: other, orphan: true, remote: "{}" })])).toBe(false);
});

test("of a Secret, only the resource version tells whether it is another one", () => {
  const secret = (resourceVersion: string, value: string) =>
    anObject({
      ref: { version: "v1", kind: "Secret", name: "db", namespace: "shop" },
      changes: [{ type: "update", jsonPath: "data.a", oldValue: "*****", newValue: "*****" }],
      rendered: "{}",
      remote: JSON.stringify({ metadata: { resourceVersion }, data: { a: value } }),
    });
  const base = referenceOf([secret("7", "bWFza2Vk")]);
  expect(isCurrent(base, [secret("7", "b3RoZXI=")])).toBe(true);
  expect(isCurrent(base, [secret("8", "bWFza2Vk")])).toBe(false);
});

test("a change is the pull request's if several objects may share its result, or the object is replaced with other content", () => {
  const ref = { version: "v1", kind: "ConfigMap", name: "settings", namespace: "shop" };
  const borrowed = (name: string, annotations = {}) =>
    anObject({ ref, new: true, rendered: JSON.stringify({ metadata: { name, annotations } }) });
  for (const object of [borrowed("other"), borrowed("settings", { "kluctl.io/diff-name": "settings" })]) {
    expect(attribute([object], { base: referenceOf([object]), deployed: undefined }).undeployed).toEqual([]);
  }
  const honest = borrowed("settings");
  expect(attribute([honest], { base: referenceOf([honest]), deployed: undefined }).undeployed).toHaveLength(1);

  const [replaced] = diffOf({ a: "1" }, { a: "3" }).map((object) => ({ ...object, deleted: true }));
  const [before] = diffOf({ a: "1" }, { a: "2" }).map((object) => ({ ...object, deleted: true }));
  expect(attribute([replaced!], { base: referenceOf([before!]), deployed: undefined }).own).toEqual([replaced]);
});

test("an error that the base has as well does not hide another change of the refused object", () => {
  const ref = { group: "apps", version: "v1", kind: "Deployment", name: "web", namespace: "shop" };
  const of = (image: string) => anObject({ ref, rendered: JSON.stringify({ spec: { image } }), remote: "{}" });
  const message = 'Deployment.apps "web" is invalid: spec.selector: Invalid value: field is immutable';
  const errors = [{ ref, message }];
  const base = toReferenceDiff(aResult({ objects: [of("a")], errors }));
  const countOf = (image: string) =>
    describeDiff(aResult({ objects: [of(image)], errors }), {
      knownSecrets: [],
      prune: false,
      references: { base, deployed: undefined },
    }).counts.changed;
  expect([countOf("a"), countOf("b")]).toEqual([0, 1]);
});

const someData = fc.option(fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("1", "2", "3")), {
  nil: undefined,
});

test("whatever is live and in the commits, nothing is lost, and only what the base does as well is not the pull request's", () => {
  fc.assert(
    fc.property(fc.record({ live: someData, deployed: someData, base: someData, merge: someData }), (commits) => {
      const { live, base, merge, deployed } = commits;
      const { own, drifted, undeployed } = whose(commits);
      const all = whose({ live, base: live, merge }).own;
      expect([...own, ...drifted, ...undeployed].sort()).toEqual([...all].sort());
      for (const key of ["a", "b", "c"]) {
        const shared = [...drifted, ...undeployed].includes(key);
        if (shared) expect(merge?.[key]).toBe(base?.[key]);
        else if (base !== undefined && own.includes(key)) expect(merge?.[key]).not.toBe(base?.[key]);
        if (drifted.includes(key)) expect(deployed?.[key]).toBe(base?.[key]);
      }
    }),
  );
});

test("only the pull request's changes are counted and have risks; the others are shown without", () => {
  const ref = { group: "apps", version: "v1", kind: "Deployment", name: "web", namespace: "shop" };
  const state = (replicas: number, image: string) => JSON.stringify({ spec: { replicas, image } });
  const scaled = { type: "update", jsonPath: "spec.replicas", oldValue: 3, newValue: 0 } as const;
  const replaced = { type: "update", jsonPath: "spec.image", oldValue: "a", newValue: "b" } as const;
  const remote = state(3, "a");
  const merge = anObject({ ref, changes: [scaled, replaced], rendered: state(0, "b"), remote, applied: state(0, "b") });
  const base = anObject({ ref, changes: [scaled], rendered: state(0, "a"), remote, applied: state(0, "a") });
  const error = (message: string) => ({ ref, message });

  const found = describeDiff(aResult({ objects: [merge], errors: [error("new"), error("known")] }), {
    knownSecrets: [],
    prune: false,
    references: {
      base: toReferenceDiff(aResult({ objects: [base], errors: [error("known")] })),
      deployed: undefined,
    },
  });

  expect(found.counts).toMatchObject({ changed: 1, errors: 2 });
  expect(found.objects).toMatchObject([
    { action: "changed", risks: [], diff: expect.stringMatching(/^ spec\.image:/) },
  ]);
  expect(found.undeployed).toMatchObject({
    objects: [{ risks: [], diff: expect.stringMatching(/^ spec\.replicas:/) }],
  });
  expect(found.drifted).toBeUndefined();
  expect(found.errors).toMatchObject([{ message: "new" }, { message: "known", old: true }]);
  expect(found.errors[0]?.old).toBeUndefined();
});
