import { expect, test } from "vitest";
import { ApiError, PreviewRefusedError } from "../../../../src/errors.ts";
import type { JsonObject } from "../../../../src/kit/json.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import { Report } from "../../../../src/model/report.ts";
import { toReport } from "../../../../src/preview/findings.ts";
import { fakeForge } from "../../../support/fake-forge.ts";
import { createClusterPool } from "../../../../src/preview/flux/clusters.ts";
import { aPreviewWorld, base } from "../../../support/preview.ts";
import {
  aConfigMap,
  aFluxResource,
  fakeFluxPreviews,
  ownedBy,
  type PlayedRenders,
} from "../../../support/flux-previews.ts";

function aFluxWorld(resources: readonly JsonObject[], renders: PlayedRenders) {
  const flux = fakeFluxPreviews(resources, renders);
  const world = aPreviewWorld([], { flux: flux.deps, settings: { serviceAccount: "dry-run" } });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: [] };
  return { ...world, flux, names: () => world.previews().map(({ deployment }) => deployment.name) };
}

const child = (name: string, spec: JsonObject = {}) => aFluxResource(name, { spec, owner: "root" });
const inCluster = (name: string, spec: JsonObject = {}, inventory: readonly JsonObject[] = []) =>
  aFluxResource(name, { spec, owner: "root", applied: base, inventory });
const root = (inventory: readonly JsonObject[] = []) => aFluxResource("root", { applied: base, inventory });

test("a Kustomization that another one contains is rendered with the spec of the merge, not the cluster's", async () => {
  const specs: unknown[] = [];
  const world = aFluxWorld([root(), inCluster("apps")], {
    base: { root: [child("apps")], apps: [] },
    merged: { root: [child("apps", { targetNamespace: "new" })], apps: [] },
    render(resource) {
      const { name } = resource["metadata"] as { name: string };
      if (name !== "apps") return undefined;
      const { targetNamespace: namespace = "shop" } = resource["spec"] as { targetNamespace?: string };
      specs.push(namespace);
      return { objects: [ownedBy("apps", aConfigMap("a", {}, { namespace }))], files: [] };
    },
  });
  world.flux.has(child("apps"), ownedBy("apps", aConfigMap("a", {})));

  await world.run();

  expect(specs.toSorted()).toEqual(["new", "shop"]);
  expect(world.previews()).toMatchObject([
    { deployment: { name: "apps" }, counts: { new: 1 } },
    { deployment: { name: "root" }, counts: { changed: 1 } },
  ]);
});

test("one that applies itself is rendered with the spec that it has in the repository", async () => {
  const own = (interval: string) => aFluxResource("root", { spec: { interval }, owner: "root", applied: base });
  const world = aFluxWorld([own("1m")], { base: { root: [own("1m")] }, merged: { root: [own("2m")] } });
  world.flux.has(own("1m"));
  await world.run();
  expect(world.flux.rendered.map(({ root: at, names }) => `${at} ${names.join()}`).toSorted()).toEqual([
    "/base/ root",
    "/merge/ root",
    "/merge/ root",
  ]);
  expect(world.previews()).toMatchObject([{ counts: { changed: 1 } }]);
});

test("a new one shows what it creates, as the account of the one that contains it", async () => {
  const world = aFluxWorld([root()], {
    base: { root: [] },
    merged: { root: [child("apps", { serviceAccountName: "admin" })], apps: [aConfigMap("a", { a: "b" })] },
  });
  await world.run();
  expect(world.previews()).toMatchObject([
    { deployment: { name: "apps" }, counts: { new: 1 } },
    { deployment: { name: "root" }, counts: { new: 1 } },
  ]);
  expect(world.flux.accounts).toEqual(["system:serviceaccount:flux-system:dry-run"]);
});

test("a pull request cannot choose the account", async () => {
  const spec = { serviceAccountName: "cluster-admin" };
  const flux = fakeFluxPreviews([aFluxResource("root", { spec: { serviceAccountName: "tenant" } })], {
    base: { root: [] },
    merged: { root: [child("apps", spec)], apps: [aConfigMap("a", {})] },
  });
  const world = aPreviewWorld([], { flux: flux.deps });
  world.sources.nextMerge.inBase = true;
  await world.run();
  expect(new Set(flux.accounts)).toEqual(new Set(["system:serviceaccount:flux-system:tenant"]));
});

test.each([
  ["contains itself", { c: [child("c", { interval: "2m" })] }],
  ["contains one that contains it", { c: [child("d")], d: [child("c", { interval: "2m" })] }],
] as const)("a new one that %s, with another spec, has the account of the one in the cluster", async (_, added) => {
  const variables = { postBuild: { substituteFrom: [{ kind: "ConfigMap", name: "vars", optional: true }] } };
  const merged = { root: [child("c", { interval: "1m", ...variables })], ...added };
  const withMaps = Object.entries(merged).map(([name, objects]) => [name, [...objects, aConfigMap(name, {})]]);
  const world = aFluxWorld([root()], {
    base: { root: [] },
    merged: Object.fromEntries(withMaps) as PlayedRenders["merged"],
  });
  await world.run();
  expect(world.names()).toEqual([...Object.keys(added), "root"]);
  expect(world.previews().every(({ state }) => state === "done")).toBe(true);
  expect(world.flux.accounts).toEqual(["system:serviceaccount:flux-system:dry-run"]);
});

test("nothing is compared with the server's own login because no Kustomization in the cluster is known", async () => {
  const opened: unknown[] = [];
  const open = (run: unknown) => {
    opened.push(run);
    return Promise.reject(new Error("not reached"));
  };
  const pool = createClusterPool({ open }, new Map(), { account: "dry-run" });
  await expect(pool.of({ name: "Kustomization a/b" }, ["Kustomization a/c"])).rejects.toThrow(PreviewRefusedError);
  expect(opened).toEqual([]);
});

test.each([
  ["is deleted with its objects", {}, "deleted"],
  ["leaves its objects if it does not prune", { prune: false }, "orphan"],
  ["leaves them by its policy", { deletionPolicy: "Orphan" }, "orphan"],
  ["leaves them while it is suspended", { suspend: true }, "orphan"],
  ["takes them by its policy", { prune: false, deletionPolicy: "Delete" }, "deleted"],
] as const)("one that the merge removes %s", async (_, spec, action) => {
  const object = ownedBy("apps", aConfigMap("a", {}));
  const world = aFluxWorld([root([child("apps")]), inCluster("apps", spec, [object])], {
    base: { root: [child("apps", spec)], apps: [object] },
    merged: { root: [] },
  });
  world.flux.has(child("apps", spec), object);
  await world.run();
  expect(world.previews()).toMatchObject([
    { deployment: { name: "apps" }, objects: [{ ref: { name: "a" }, action }] },
    { deployment: { name: "root" }, objects: [{ ref: { name: "apps" }, action: "deleted" }] },
  ]);
});

test.each([
  ["has another source", { sourceRef: { kind: "OCIRepository", name: "shop" } }, "it has another source"],
  ["has no source", { sourceRef: undefined }, "its spec cannot be read"],
])("one that %s in the merge is not taken for removed", async (_, spec, reason) => {
  const object = ownedBy("apps", aConfigMap("a", {}));
  const world = aFluxWorld([root([child("apps")]), inCluster("apps", {}, [object])], {
    base: { root: [child("apps")], apps: [object] },
    merged: { root: [child("apps", spec)] },
  });
  world.flux.has(child("apps"), object);
  await world.run();
  expect(world.previews()).toMatchObject([{ deployment: { name: "root" }, counts: { changed: 1, deleted: 0 } }]);
  expect(world.told.at(-1)?.unshown).toMatchObject([{ deployment: "Kustomization flux-system/apps", reason }]);
});

test("one that has another source in the base branch already is not mentioned", async () => {
  const elsewhere = child("apps", { sourceRef: { kind: "OCIRepository", name: "shop" } });
  const world = aFluxWorld([root([child("apps")]), inCluster("apps")], {
    base: { root: [elsewhere] },
    merged: { root: [elsewhere] },
  });
  await world.run();
  expect(world.previews()).toEqual([]);
  expect(world.told.at(-1)?.unshown).toBeUndefined();
});

test("one that stays in the cluster, because what contains it does not prune, loses nothing", async () => {
  const object = ownedBy("apps", aConfigMap("a", {}));
  const stays = aFluxResource("root", { applied: base, spec: { prune: false }, inventory: [child("apps")] });
  const world = aFluxWorld([stays, inCluster("apps", {}, [object])], {
    base: { root: [child("apps")], apps: [object] },
    merged: { root: [] },
  });
  world.flux.has(child("apps"), object);
  await world.run();
  expect(world.previews()).toMatchObject([{ deployment: { name: "root" }, counts: { orphan: 1, deleted: 0 } }]);
});

test("an object that moves to another Kustomization is not deleted", async () => {
  const [before, after] = [ownedBy("one", aConfigMap("a", {})), ownedBy("two", aConfigMap("a", {}))];
  const one = aFluxResource("one", { applied: base, inventory: [before] });
  const world = aFluxWorld([one, aFluxResource("two", { applied: base })], {
    base: { one: [before], two: [] },
    merged: { one: [], two: [after] },
  });
  world.flux.has(before);
  await world.run();
  expect(world.previews()).toMatchObject([
    { deployment: { name: "one" }, counts: { deleted: 0 } },
    { deployment: { name: "two" }, counts: { changed: 1 } },
  ]);
});

test("while what contains it cannot be built, it is not taken for removed", async () => {
  const object = ownedBy("apps", aConfigMap("a", {}));
  const world = aFluxWorld([root([child("apps")]), inCluster("apps", {}, [object])], {
    base: { root: [child("apps")], apps: [object] },
    merged: { root: "broken" },
  });
  world.flux.has(child("apps"), object);
  await world.run();
  expect(world.previews()).toMatchObject([{ deployment: { name: "root" }, state: "failed" }]);
});

test("what nests without end is left out in words, and so is what is too much", async () => {
  const deep = aFluxWorld([root()], {
    base: { root: [] },
    merged: { root: [child("n0")] },
    render(resource) {
      const [, at] = /^n(\d+)$/.exec((resource["metadata"] as { name: string }).name) ?? [];
      return at === undefined ? undefined : { objects: [child(`n${Number(at) + 1}`)], files: [] };
    },
  });
  const many = aFluxWorld([root()], {
    base: { root: [] },
    merged: { root: Array.from({ length: 250 }, (_, at) => child(`n${at}`)) },
  });
  await Promise.all([deep.run(), many.run()]);
  expect(deep.names()).toHaveLength(10);
  expect(deep.previews().filter(({ state }) => state === "failed")).toMatchObject([
    { failure: "Not compared: it is nested more than 8 deep." },
  ]);
  expect(many.names()).toHaveLength(210);
  expect(many.told.at(-1)?.unshown?.[0]?.reason).toContain("more than 200");
  expect(many.told.at(-1)?.beyond).toBe(31);
});

test("one with a GitRepository that is not in the cluster is left out in words", async () => {
  const world = aFluxWorld([root()], {
    base: { root: [] },
    merged: { root: [child("apps", { sourceRef: { kind: "GitRepository", name: "new" } })] },
  });
  world.flux.deps.sources.find = () => undefined;
  await world.run();
  expect(world.names()).toEqual(["root"]);
  expect(world.told.at(-1)?.unshown).toMatchObject([{ deployment: "Kustomization flux-system/apps" }]);
});

const markup = "x\n\n## Approved\n\n<img src=https://example.com/a.png>";

test.each([
  ["name", aFluxResource(markup)],
  ["long name", aFluxResource("a".repeat(300))],
  ["namespace", aFluxResource("apps", { namespace: markup })],
  ["source", child("apps", { sourceRef: { kind: "GitRepository", name: markup } })],
  ["namespace of the source", child("apps", { sourceRef: { kind: "GitRepository", name: "a", namespace: markup } })],
])("one with a %s that Kubernetes does not accept is an object like others, and writes nothing", async (_, invalid) => {
  const world = aFluxWorld([root()], { base: { root: [] }, merged: { root: [invalid, child("good")] } });
  world.flux.deps.sources.find = () => undefined;
  await world.run();
  expect(world.names()).toEqual(["good", "root"]);
  expect(world.told.at(-1)?.unshown).toBeUndefined();
  expect(Report.safeParse(JSON.parse(JSON.stringify(world.told.at(-1)))).success).toBe(true);
});

test("a reason is one line without markup, and not longer than a reader reads", async () => {
  const reason = `${markup}\u202e ${"long ".repeat(1_000)}`;
  const report = toReport(
    { pullRequest: fakeForge().put(7), previous: undefined, repo: undefined },
    { previews: [], ignored: [], unshown: [{ deployment: "Kustomization a/b", reason }], secrets: [] },
    { startedAt: 1, finishedAt: 2 },
  );
  expect(report.unshown?.[0]?.reason.length).toBeLessThan(600);
  const comment = renderComment(report, { maxLength: 60_000, marker: "" });
  expect(comment).toContain(
    "`Kustomization a/b` is not compared: x `##` Approved `<img` `src=https://example.com/a.png>\\u202e`",
  );
});

test("what contains it may be anywhere above it", async () => {
  const object = ownedBy("apps", aConfigMap("a", {}));
  const infra = (spec: JsonObject = {}) => child("infra", spec);
  const apps = aFluxResource("apps", { owner: "infra", applied: base, inventory: [object] });
  const cluster = [root([infra()]), inCluster("infra", {}, [apps]), apps];
  const before = { root: [infra()], infra: [apps], apps: [object] };
  const broken = aFluxWorld(cluster, { base: before, merged: { root: "broken" } });
  const source = { sourceRef: { kind: "GitRepository", name: "new" } };
  const unshown = aFluxWorld(cluster, { base: before, merged: { root: [infra(source)] } });
  unshown.flux.deps.sources.find = () => undefined;
  for (const { flux } of [broken, unshown]) flux.has(infra(), apps, object);
  await Promise.all([broken.run(), unshown.run()]);
  expect([broken.names(), unshown.names()]).toEqual([["root"], ["root"]]);
});

test("one that Flux is not to prune stays with its objects", async () => {
  const annotations = { "kustomize.toolkit.fluxcd.io/prune": "disabled" };
  const object = ownedBy("apps", aConfigMap("a", {}));
  const apps = aFluxResource("apps", { owner: "root", applied: base, inventory: [object], annotations });
  const world = aFluxWorld([root([apps]), apps], {
    base: { root: [apps], apps: [object] },
    merged: { root: [] },
  });
  world.flux.has(apps, object);
  await world.run();
  expect(world.previews()).toMatchObject([{ deployment: { name: "root" }, counts: { deleted: 0 } }]);
});

test.each([
  ["stays so", {}, {}, true],
  ["is resumed by a spec that says so", {}, { suspend: false }, false],
  ["is resumed by a spec that does not say it any more", { suspend: true }, {}, false],
] as const)("one that is suspended in the cluster %s", async (_, before, after, suspended) => {
  const world = aFluxWorld([root(), inCluster("apps", { suspend: true })], {
    base: { root: [child("apps", before)], apps: [] },
    merged: { root: [child("apps", after)], apps: [aConfigMap("a", {})] },
  });
  await world.run();
  expect(world.previews()[0]).toMatchObject({ deployment: { name: "apps" }, suspended });
});

test("a new one is not created while what contains it is suspended", async () => {
  const suspended = aFluxResource("root", { applied: base, spec: { suspend: true } });
  const world = aFluxWorld([suspended], { base: { root: [] }, merged: { root: [child("apps")] } });
  await world.run();
  expect(world.previews()).toMatchObject([{ deployment: { name: "apps" }, suspended: true }, { suspended: true }]);
});

test.each([
  ["is not allowed", new ApiError(403, "configmaps is forbidden"), "configmaps is forbidden"],
  ["has no account", new PreviewRefusedError("there is no account"), "there is no account"],
])(
  "one whose variables cannot be read, because that %s, does not keep others from being compared",
  async (...given) => {
    const [, error, words] = given;
    const spec = { postBuild: { substituteFrom: [{ kind: "ConfigMap", name: "vars" }] } };
    const apps = (level: string) => [ownedBy("apps", aConfigMap("a", { level }))];
    const world = aFluxWorld(
      [aFluxResource("apps", { applied: base }), aFluxResource("other", { spec, applied: base })],
      {
        base: { apps: apps("1") },
        merged: { apps: apps("2") },
      },
    );
    const { open } = world.flux.deps.clusters;
    world.flux.deps.clusters.open = async (run) => {
      const cluster = await open(run);
      const isVars = (object: JsonObject) => (object["metadata"] as { name: string }).name === "vars";
      return {
        ...cluster,
        find: (object, signal) => (isVars(object) ? Promise.reject(error) : cluster.find(object, signal)),
      };
    };
    await world.run();
    expect(world.previews()).toMatchObject([{ deployment: { name: "apps" }, state: "done" }]);
    expect(world.told.at(-1)).toMatchObject({
      unshown: [{ deployment: "Kustomization flux-system/other", reason: `its variables cannot be read: ${words}` }],
      mendable: true,
    });
  },
);

test("an object whose name no request can have is an error of that object alone", async () => {
  const world = aFluxWorld([aFluxResource("apps", { applied: base })], {
    base: { apps: [] },
    merged: { apps: [aConfigMap("a", {}), aConfigMap("a/b", {})] },
  });
  const { open } = world.flux.deps.clusters;
  world.flux.deps.clusters.open = async (run) => {
    const cluster = await open(run);
    const isInvalid = (object: JsonObject) => (object["metadata"] as { name: string }).name === "a/b";
    return {
      ...cluster,
      find: (object, signal) =>
        isInvalid(object) ? Promise.resolve({ problem: "unnamed" as const }) : cluster.find(object, signal),
    };
  };
  await world.run();
  expect(world.previews()).toMatchObject([{ state: "done", counts: { new: 1, errors: 1 } }]);
  expect(world.previews()[0]?.errors).toMatchObject([{ ref: { name: "a/b" } }]);
  expect(world.previews()[0]?.errors[0]?.message).toContain("not valid");
});
