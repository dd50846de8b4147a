import { expect, test } from "vitest";
import type { Deployment, TargetKey } from "../../../src/model.ts";
import { findFirst, findSharing, isNewcomer, mayCollide } from "../../../src/reconcile/discriminators.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

const key: TargetKey = { clusterId: "cluster-1", targetName: "prod", discriminator: "shop-prod" };

type Over = Parameters<typeof aDeployment>[0];
const deployed = (name: string, over: Over = {}): Deployment =>
  aDeployment({
    key: { namespace: "shop", name },
    ...over,
    status: { lastDeployResult: aSummary(), targetKey: key, ...over?.status },
  });
const first = deployed("first");
const fresh = (spec: NonNullable<Over>["spec"] = {}) =>
  aDeployment({ key: { namespace: "shop", name: "second" }, spec });

test.each<{ when: string; mine?: Deployment; other: Deployment; shares: boolean }>([
  { when: "both deploy the whole", other: first, shares: true },
  { when: "it is the same resource, perhaps of another version of the API", mine: first, other: first, shares: false },
  {
    when: "another cluster",
    other: deployed("first", { status: { targetKey: { ...key, clusterId: "c2" } } }),
    shares: false,
  },
  {
    when: "another discriminator",
    other: deployed("first", { status: { targetKey: { ...key, discriminator: "x" } } }),
    shares: false,
  },
  { when: "it never deployed", other: deployed("first", { status: { lastDeployResult: undefined } }), shares: false },
  { when: "it only tries", other: deployed("first", { spec: { dryRun: true } }), shares: false },
  { when: "it only pokes images", other: deployed("first", { spec: { deployMode: "poke-images" } }), shares: false },
  { when: "it is about to go", other: deployed("first", { deletionTimestamp: "2026-01-01T00:00:00Z" }), shares: false },
  { when: "it is suspended", other: deployed("first", { spec: { suspend: true } }), shares: true },
  {
    when: "each has its own tags",
    mine: fresh({ includeTags: ["a", "b"] }),
    other: deployed("first", { spec: { includeTags: ["c"] } }),
    shares: false,
  },
  {
    when: "one has what the other leaves out",
    mine: fresh({ includeTags: ["a"] }),
    other: deployed("first", { spec: { excludeTags: ["a", "b"] } }),
    shares: false,
  },
  {
    when: "they have a tag in common",
    mine: fresh({ includeTags: ["a", "b"] }),
    other: deployed("first", { spec: { includeTags: ["b"] } }),
    shares: true,
  },
  { when: "one has all", mine: fresh({ includeTags: ["a"] }), other: first, shares: true },
  {
    when: "each has its own directories",
    mine: fresh({ includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/b"] } }),
    shares: false,
  },
  {
    when: "a directory of one is in one of the other",
    mine: fresh({ includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps"] } }),
    shares: true,
  },
  {
    when: "one chooses by tags and one by directories",
    mine: fresh({ includeTags: ["a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps"] } }),
    shares: true,
  },
])("$when → shares the objects: $shares", ({ mine = fresh(), other, shares }) => {
  expect(findSharing(mine, key, [mine, other]).length > 0).toBe(shares);
});

test("a cluster that nobody could tell, and no discriminator, are shared with nobody", () => {
  expect(
    findSharing(fresh(), { ...key, clusterId: "" }, [
      deployed("first", { status: { targetKey: { ...key, clusterId: "" } } }),
    ]),
  ).toEqual([]);
  const { discriminator: _, ...bare } = key;
  expect(findSharing(fresh(), bare, [deployed("first", { status: { targetKey: bare } })])).toEqual([]);
});

test("whoever has deployed under the key is no newcomer, whatever the target is called", () => {
  expect(isNewcomer(fresh(), key)).toBe(true);
  expect(isNewcomer(first, { ...key, targetName: "renamed" })).toBe(false);
  expect(isNewcomer(first, { ...key, discriminator: "another" })).toBe(true);
});

test("only where a project is deployed already is it worth to compare before the first deploy", () => {
  expect(mayCollide(fresh(), [fresh()])).toBe(false);
  expect(mayCollide(fresh(), [first])).toBe(true);
  const source = { url: "https://git.example.com/org/another", ref: {}, path: "" };
  expect(mayCollide(fresh({ source }), [first])).toBe(false);
});

test("a newcomer waits for one that is being deleted and takes its objects along, and nobody else does", () => {
  const going = deployed("first", { spec: { delete: true }, deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(findFirst(fresh(), key, [going])).toHaveLength(1);
  expect(mayCollide(fresh(), [going])).toBe(true);
  expect(findSharing(fresh(), key, [going])).toEqual([]);
  const leaving = deployed("first", { deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(findFirst(fresh(), key, [leaving])).toEqual([]);
});
