import { expect, test } from "vitest";
import type { Deployment, DeploymentStatus, TargetKey } from "../../../src/model.ts";
import {
  findFirst,
  findRelieved,
  findRivals,
  findSharing,
  hasClaimed,
  isNewcomer,
  isOlder,
  mayCollide,
  refusal,
  sharingNote,
} from "../../../src/guards/discriminators.ts";
import { aDeployment, aStatus, aSummary } from "../../support/deployments.ts";

const key: TargetKey = { clusterId: "cluster-1", targetName: "prod", discriminator: "shop-prod" };

type Over = Parameters<typeof aDeployment>[0];
const deployed = (name: string, over: Over = {}): Deployment =>
  aDeployment({
    key: { namespace: "shop", name },
    ...over,
    status: { lastDeployResult: aSummary(), targetKey: key, ...over?.status },
  });
const first = deployed("first");
const refused = {
  type: "Ready",
  status: "False",
  reason: "DeployFailed",
  message: refusal("shop-prod", [first]),
  lastTransitionTime: "",
} as const;
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
  {
    when: "it has only compared",
    other: deployed("first", { status: { lastDeployResult: undefined, lastObjectsHash: "hash" } }),
    shares: false,
  },
  {
    when: "its first deploy is in progress, or was interrupted",
    other: deployed("first", { status: { lastDeployResult: undefined } }),
    shares: true,
  },
  {
    when: "it was refused by an earlier version, which recorded no hash",
    other: deployed("first", {
      spec: { suspend: true },
      status: { lastDeployResult: undefined, conditions: [refused] },
    }),
    shares: false,
  },
  {
    when: "its first deploy has failed",
    other: deployed("first", {
      status: { lastDeployResult: undefined, conditions: [{ ...refused, message: "kluctl was killed" }] },
    }),
    shares: true,
  },
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
    when: "one of several tags is the other's",
    mine: fresh({ includeTags: ["b"] }),
    other: deployed("first", { spec: { includeTags: ["b", "c"] } }),
    shares: true,
  },
  {
    when: "each has its own tags, and leaves out some",
    mine: fresh({ includeTags: ["a"], excludeTags: ["x"] }),
    other: deployed("first", { spec: { includeTags: ["b"], excludeTags: ["y"] } }),
    shares: false,
  },
  {
    when: "each has its own directories, and leaves out some",
    mine: fresh({ includeDeploymentDirs: ["apps/a"], excludeDeploymentDirs: ["apps/a/x"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/b"], excludeDeploymentDirs: ["apps/b/y"] } }),
    shares: false,
  },
  {
    when: "each has its own tags, and one chooses by directories as well",
    mine: fresh({ includeTags: ["a"], includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeTags: ["b"] } }),
    shares: true,
  },
  {
    when: "each has its own directories, and one chooses by tags as well",
    mine: fresh({ includeTags: ["a"], includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/b"] } }),
    shares: true,
  },
  {
    when: "one has a directory that holds one of the other",
    mine: fresh({ includeDeploymentDirs: ["apps"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/a"] } }),
    shares: true,
  },
  {
    when: "both have the same directory",
    mine: fresh({ includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/a"] } }),
    shares: true,
  },
  {
    when: "a directory's name begins with that of another's",
    mine: fresh({ includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/ab"] } }),
    shares: false,
  },
  {
    when: "one leaves out the directory that the other has",
    mine: fresh({ excludeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps/a"] } }),
    shares: false,
  },
  {
    when: "one leaves out only some of what the other has",
    mine: fresh({ excludeTags: ["a"] }),
    other: deployed("first", { spec: { includeTags: ["a", "b"] } }),
    shares: true,
  },
  {
    when: "both leave out the same, and have all the rest",
    mine: fresh({ excludeTags: ["a"] }),
    other: deployed("first", { spec: { excludeTags: ["a"] } }),
    shares: true,
  },
  {
    when: "one chooses by tags and by directories, none of which the other has",
    mine: fresh({ includeTags: ["a"], includeDeploymentDirs: ["apps/a"] }),
    other: deployed("first", { spec: { includeTags: ["b"], includeDeploymentDirs: ["apps/b"] } }),
    shares: true,
  },
  { when: "the newcomer only tries", mine: fresh({ dryRun: true }), other: first, shares: false },
  {
    when: "one chooses by tags and one by directories",
    mine: fresh({ includeTags: ["a"] }),
    other: deployed("first", { spec: { includeDeploymentDirs: ["apps"] } }),
    shares: true,
  },
])("$when → shares the objects: $shares", ({ mine = fresh(), other, shares }) => {
  expect(findSharing(mine, key, [mine, other]).length > 0).toBe(shares);
});

test("without a known cluster or a discriminator, nothing is shared", () => {
  expect(
    findSharing(fresh(), { ...key, clusterId: "" }, [
      deployed("first", { status: { targetKey: { ...key, clusterId: "" } } }),
    ]),
  ).toEqual([]);
  const { discriminator: _, ...bare } = key;
  expect(findSharing(fresh(), bare, [deployed("first", { status: { targetKey: bare } })])).toEqual([]);
});

test("a deployment that has deployed under the key is not new, whatever its target is called", () => {
  expect(isNewcomer(fresh(), key)).toBe(true);
  expect(isNewcomer(first, { ...key, targetName: "renamed" })).toBe(false);
  expect(isNewcomer(first, { ...key, discriminator: "another" })).toBe(true);
  expect(isNewcomer(aDeployment({ status: { targetKey: key } }), key)).toBe(true); // it has only compared
  const { discriminator: _, ...bare } = key;
  expect(isNewcomer(deployed("first", { status: { targetKey: undefined } }), bare)).toBe(true);
});

test("comparing before the first deploy is needed only if the project is already deployed", () => {
  expect(mayCollide(fresh(), [fresh()])).toBe(false);
  expect(mayCollide(fresh(), [first])).toBe(true);
  const source = { url: "https://git.example.com/org/another", ref: {}, path: "" };
  expect(mayCollide(fresh({ source }), [first])).toBe(false);
});

test("two spellings of a repository's URL are one project", () => {
  const url = "git@git.example.com:org/shop.git";
  const spelled = aDeployment({
    key: { namespace: "shop", name: "second" },
    spec: { source: { url, ref: {}, path: "" } },
  });
  expect(mayCollide(spelled, [first])).toBe(true);
  expect(mayCollide(spelled, [deployed("first", { deletionTimestamp: "2026-01-01T00:00:00Z" })])).toBe(false);
});

test("deployments of OCI artifacts are of one project if they have the same URL", () => {
  const artifact = (name: string, url: string): Deployment => {
    const { repo: _, ...other } = fresh();
    const source = { kind: "oci", url, ref: {}, path: "" } as const;
    return { ...other, key: { namespace: "shop", name }, spec: { ...other.spec, source } };
  };
  const mine = artifact("mine", "oci://registry.example.com/shop");
  const copy = artifact("copy", "oci://registry.example.com/shop");
  const foreign = artifact("foreign", "oci://registry.example.com/another");
  expect(findRivals(mine, [copy, foreign, fresh()])).toEqual([copy]);
});

test("a deployment that has deployed is no rival for the first deploy", () => {
  const copy = aDeployment({ key: { namespace: "shop", name: "copy" } });
  expect(findRivals(fresh(), [first, copy])).toEqual([copy]);
});

test("a claim counts once the watch shows it, for the same deployment and key", () => {
  const mine = fresh();
  const shown = (status: DeploymentStatus) => hasClaimed(mine, key, [first, { ...mine, status }]);
  expect(hasClaimed(mine, key, [first])).toBe(false);
  expect(shown(aStatus())).toBe(false);
  expect(shown(aStatus({ targetKey: key }))).toBe(true);
  expect(shown(aStatus({ targetKey: { ...key, discriminator: "another" } }))).toBe(false);
  expect(shown(aStatus({ targetKey: key, lastObjectsHash: "hash" }))).toBe(false); // it has only compared
});

test("a deployment of another project is not waited for, unless it is about to delete objects", () => {
  const source = { url: "https://git.example.com/org/another", ref: {}, path: "" };
  const foreign = (over: Over = {}) => deployed("foreign", { ...over, spec: { source, delete: true } });
  expect(findFirst(fresh(), key, [foreign()])).toEqual([]);
  expect(findSharing(fresh(), key, [foreign()])).toHaveLength(1);
  expect(findFirst(fresh(), key, [foreign({ deletionTimestamp: "2026-01-01T00:00:00Z" })])).toHaveLength(1);
});

test("comparing comes first as well if a deployment of the same directory was never deployed either", () => {
  const copy = (over: Over = {}) => aDeployment({ key: { namespace: "shop", name: "copy" }, ...over });
  expect(mayCollide(fresh(), [copy()])).toBe(true);
  const source = { url: fresh().spec.source.url, ref: {}, path: "another" };
  expect(mayCollide(fresh(), [copy({ spec: { source } })])).toBe(false);
  expect(mayCollide(fresh(), [copy({ spec: { dryRun: true } })])).toBe(false);
  expect(mayCollide(fresh(), [copy({ deletionTimestamp: "2026-01-01T00:00:00Z" })])).toBe(false);
});

test("of two deployments that begin at the same moment the older one goes first, or that with the smaller UID", () => {
  const at = (creationTimestamp: string, uid: string, over: Over = {}) =>
    aDeployment({ creationTimestamp, uid, ...over });
  expect(isOlder(at("2026-01-01T00:00:00Z", "b"), [at("2026-01-01T00:00:01Z", "a")])).toBe(true);
  expect(isOlder(at("2026-01-01T00:00:01Z", "a"), [at("2026-01-01T00:00:00Z", "b")])).toBe(false);
  expect(isOlder(at("2026-01-01T00:00:00Z", "a"), [at("2026-01-01T00:00:00Z", "b")])).toBe(true);
  expect(isOlder(at("2026-01-01T00:00:00Z", "a"), [at("2026-01-01T00:00:00Z", "a")])).toBe(false);
  const others = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z"].map((time) => at(time, "b"));
  expect(isOlder(at("2026-01-01T00:00:01Z", "a"), others)).toBe(false);
  const status = { lastDeployResult: aSummary() };
  expect(isOlder(at("2026-01-01T00:00:00Z", "a"), [at("2026-01-01T00:00:01Z", "b", { status })])).toBe(false);
});

test("a new deployment waits for a deleted one that removes its objects, and others do not wait", () => {
  const going = deployed("first", { spec: { delete: true }, deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(findFirst(fresh(), key, [going])).toHaveLength(1);
  expect(mayCollide(fresh(), [going])).toBe(true);
  expect(findSharing(fresh(), key, [going])).toEqual([]);
  const leaving = deployed("first", { deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(findFirst(fresh(), key, [leaving])).toEqual([]);
});

test("a deployment that creates no objects, as in a dry run, cannot collide", () => {
  expect(mayCollide(fresh({ dryRun: true }), [first])).toBe(false);
  expect(mayCollide(fresh({ deployMode: "poke-images" }), [first])).toBe(false);
});

test("no deployment waits for a deleted one that keeps its objects", () => {
  const leaving = { deletionTimestamp: "2026-01-01T00:00:00Z" };
  expect(mayCollide(fresh(), [deployed("first", leaving)])).toBe(false);
  const suspended = deployed("first", { ...leaving, spec: { delete: true, suspend: true } });
  expect(mayCollide(fresh(), [suspended])).toBe(false);
  expect(findFirst(fresh(), key, [suspended])).toEqual([]);
  expect(findFirst(fresh(), key, [deployed("first", { spec: { delete: true } })])).toHaveLength(1);
});

test("a resource that cannot be read shares nothing", () => {
  const { spec: _spec, repo: _repo, ...identity } = first;
  const malformed = { ...identity, problem: "spec.interval is missing" };
  expect(findSharing(fresh(), key, [malformed])).toEqual([]);
  expect(mayCollide(fresh(), [malformed])).toBe(false);
  expect(findRelieved(first, [malformed])).toEqual([]);
});

test("when a deployment is deleted, those with the same discriminator and cluster are reconciled", () => {
  const [same, another] = [deployed("same"), deployed("x", { status: { targetKey: { ...key, discriminator: "x" } } })];
  expect(findRelieved(first, [same, another, fresh()])).toEqual([same]);
  expect(findRelieved(fresh(), [same, fresh()])).toEqual([]); // it never deployed
  const { discriminator: _, ...bare } = key;
  const without = deployed("without", { status: { targetKey: bare } });
  expect(findRelieved(without, [without])).toEqual([]);
});

test("the message names at most three deployments that share the discriminator", () => {
  const names = ["a", "b", "c", "d", "e"].map((name) => deployed(name));
  expect(sharingNote("shop-prod", names.slice(0, 3))).toContain('"shop-prod" with shop/a, shop/b, shop/c: nothing');
  expect(sharingNote("shop-prod", names)).toContain("with shop/a, shop/b, shop/c and 2 more: nothing");
  expect(refusal("shop-prod", [first])).toMatch(/^not deployed: shop\/first is older/);
  expect(refusal("shop-prod", [])).toMatch(/^not deployed: another deployment is older/);
});
