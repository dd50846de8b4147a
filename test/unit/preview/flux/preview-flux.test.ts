import { expect, test } from "vitest";
import type { JsonObject } from "../../../../src/kit/json.ts";
import { renderComment } from "../../../../src/comment/comment.ts";
import { aPreviewWorld, base } from "../../../support/preview.ts";
import {
  aConfigMap,
  aFluxResource,
  fakeFluxPreviews,
  ownedBy,
  type PlayedRenders,
} from "../../../support/flux-previews.ts";

type World = ReturnType<typeof aFluxWorld>;

/** A pull request into the repository of the GitRepository `shop`, and nothing of kluctl's. */
function aFluxWorld(
  resources: readonly JsonObject[],
  renders: PlayedRenders,
  options: Parameters<typeof aPreviewWorld>[1] = {},
) {
  const flux = fakeFluxPreviews(resources, renders);
  const world = aPreviewWorld([], {
    ...options,
    flux: flux.deps,
    settings: { serviceAccount: "dry-run", ...options.settings },
  });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: ["README.md"] };
  return { ...world, flux };
}

function commentOf({ told }: World): string {
  const report = told.at(-1);
  return report === undefined ? "" : renderComment(report, { maxLength: 60_000, marker: "" });
}

const settings = (level: string) => ownedBy("apps", aConfigMap("settings", { level }));

test("a change is shown as Flux would apply it, as the account of previews, and as Flux's own", async () => {
  const world = aFluxWorld([aFluxResource("apps", { applied: base })], {
    base: { apps: [settings("1"), ownedBy("apps", aConfigMap("same", { a: "b" }))] },
    merged: { apps: [settings("2"), ownedBy("apps", aConfigMap("same", { a: "b" }))] },
  });
  world.flux.has(settings("1"));

  expect(await world.run()).toEqual({ kind: "done" });

  const [preview] = world.previews();
  expect(preview).toMatchObject({
    ...{ kind: "Kustomization", deployment: { namespace: "flux-system", name: "apps" }, state: "done", drift: 0 },
    counts: { changed: 1, new: 0, deleted: 0, errors: 0, warnings: 0 },
  });
  expect(preview?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(world.flux.accounts).toEqual(["system:serviceaccount:flux-system:dry-run"]);
  expect(world.flux.asked.join()).not.toContain("same");
  const comment = commentOf(world);
  expect(comment).toContain("merging changes 1 deployment");
  expect(comment).toContain("Kustomization flux-system/apps");
  expect(comment).toContain("applied by Flux");
  expect(world.sources.released).toEqual([`merge of ${"1".repeat(40)}`]);
});

test("a Kustomization in which the pull request changes nothing is not shown, and the cluster is not asked", async () => {
  const same = { apps: [settings("1")] };
  const world = aFluxWorld([aFluxResource("apps")], { base: same, merged: same });
  await world.run();
  expect(world.previews()).toEqual([]);
  expect(world.flux.asked).toEqual([]);
});

test("one whose files change, but no object, changes nothing", async () => {
  const same = { apps: [settings("1")] };
  const world = aFluxWorld([aFluxResource("apps")], { base: same, merged: same });
  world.sources.nextMerge.changed = { complete: true, paths: ["apps/a.yaml"] };
  await world.run();
  expect(world.previews()).toMatchObject([{ state: "done", counts: { changed: 0 } }]);
});

test("drift is told from the pull request's change", async () => {
  const world = aFluxWorld([aFluxResource("apps", { applied: base })], {
    base: { apps: [ownedBy("apps", aConfigMap("settings", { level: "1", other: "1" }))] },
    merged: { apps: [ownedBy("apps", aConfigMap("settings", { level: "2", other: "1" }))] },
  });
  world.flux.has(ownedBy("apps", aConfigMap("settings", { level: "1", other: "by hand" })));
  await world.run();
  const [preview] = world.previews();
  expect(preview?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(preview?.drifted?.objects[0]?.diff).toContain("by hand");
  expect(preview?.drift).toBe(1);
});

test("what the base branch has and Flux has not applied yet is not the pull request's change either", async () => {
  const world = aFluxWorld([aFluxResource("apps", { applied: "e".repeat(40) })], {
    base: { apps: [ownedBy("apps", aConfigMap("settings", { level: "1", other: "2" }))] },
    merged: { apps: [ownedBy("apps", aConfigMap("settings", { level: "2", other: "2" }))] },
  });
  world.flux.has(ownedBy("apps", aConfigMap("settings", { level: "1", other: "1" })));
  await world.run();
  const [preview] = world.previews();
  expect(preview?.objects[0]?.diff).toBe(" data.level:\n-  1\n+  2");
  expect(preview?.undeployed?.objects).toHaveLength(1);
});

test.each([
  { prune: true, counts: { deleted: 1, orphan: 0 } },
  { prune: false, counts: { deleted: 0, orphan: 1 } },
])("what leaves the repository is deleted if Flux prunes: $prune", async ({ prune, counts }) => {
  const old = settings("1");
  const kept = ownedBy(
    "apps",
    aConfigMap("kept", {}, { annotations: { "kustomize.toolkit.fluxcd.io/prune": "Disabled" } }),
  );
  const foreign = ownedBy("others", aConfigMap("foreign", {}));
  const resource = aFluxResource("apps", { applied: base, spec: { prune }, inventory: [old, kept, foreign] });
  const world = aFluxWorld([resource], { base: { apps: [old, kept, foreign] }, merged: { apps: [] } });
  world.flux.has(old, kept, foreign);
  await world.run();
  expect(world.previews()).toMatchObject([{ counts }]);
});

test.each([
  ["an object that Flux ignores", { "kustomize.toolkit.fluxcd.io/ssa": "Ignore" }, 0],
  ["one that it does not reconcile", { "kustomize.toolkit.fluxcd.io/reconcile": "disabled" }, 0],
  ["one that it only creates", { "kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent" }, 0],
  ["one that it merges", { "kustomize.toolkit.fluxcd.io/ssa": "Merge" }, 1],
])("%s", async (_, annotations, changed) => {
  const of = (level: string) => ownedBy("apps", aConfigMap("settings", { level }, { annotations }));
  const world = aFluxWorld([aFluxResource("apps", { applied: base })], {
    base: { apps: [of("1")] },
    merged: { apps: [of("2")] },
  });
  world.flux.has(of("1"));
  await world.run();
  expect(world.previews()).toMatchObject([{ counts: { changed, errors: 0 } }]);
});

const immutable = { status: 422, message: 'ConfigMap "settings" is invalid: data: Forbidden: field is immutable' };

test("a field that cannot be changed fails, unless Flux may replace the object", async () => {
  const renders = { base: { apps: [settings("1")] }, merged: { apps: [settings("2")] } };
  const fails = aFluxWorld([aFluxResource("apps", { applied: base })], renders);
  const replaces = aFluxWorld([aFluxResource("apps", { applied: base, spec: { force: true } })], renders);
  for (const { flux } of [fails, replaces]) {
    flux.has(settings("1"));
    flux.refuse(settings("2"), immutable);
  }
  await Promise.all([fails.run(), replaces.run()]);
  expect(fails.previews()).toMatchObject([{ counts: { errors: 1, deleted: 0 } }]);
  expect(fails.previews()[0]?.errors[0]?.message).toContain("dry-run failed (Invalid)");
  expect(replaces.previews()).toMatchObject([{ counts: { errors: 0, deleted: 1 } }]);
  expect(replaces.previews()[0]?.warnings[0]?.message).toContain("creates it again");
});

test("objects of a new namespace, and of a new kind, are new and not validated", async () => {
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: "new" } };
  const definition = {
    ...{
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: "things.example.com" },
    },
    spec: { group: "example.com", names: { kind: "Thing" } },
  };
  const inside = aConfigMap("inside", { a: "b" }, { namespace: "new" });
  const thing = { apiVersion: "example.com/v1", kind: "Thing", metadata: { name: "one", namespace: "shop" } };
  const unknown = { apiVersion: "example.com/v1", kind: "Other", metadata: { name: "one", namespace: "shop" } };
  const world = aFluxWorld([aFluxResource("apps")], {
    base: { apps: [] },
    merged: { apps: [namespace, definition, inside, thing, unknown] },
  });
  world.flux.refuse(inside, { status: 404, message: 'namespaces "new" not found' });
  for (const kind of ["Thing", "Other"]) world.flux.unserved.add(kind);
  await world.run();
  const [preview] = world.previews();
  expect(preview?.counts).toMatchObject({ new: 4, errors: 1 });
  expect(preview?.errors[0]?.message).toBe('no matches for kind "Other" in version "example.com/v1"');
  expect(preview?.warnings[0]?.message).toContain("2 objects were not validated");
});

test("a Kustomization that cannot be built fails with Flux's words, and the others are shown", async () => {
  const world = aFluxWorld([aFluxResource("apps", { applied: base }), aFluxResource("infra", { applied: base })], {
    base: { apps: [settings("1")], infra: [] },
    merged: { apps: [settings("2")], infra: 'kustomize build failed: no such file "a.yaml"' },
  });
  world.flux.has(settings("1"));
  await world.run();
  expect(world.previews()).toMatchObject([
    { deployment: { name: "apps" }, state: "done" },
    { deployment: { name: "infra" }, state: "failed", failed: "render" },
  ]);
});

test("an error that the base branch has, too, is not the pull request's fault", async () => {
  const world = aFluxWorld([aFluxResource("apps")], {
    base: { apps: "broken" },
    merged: { apps: "broken in another way" },
  });
  await world.run();
  expect(world.previews()).toMatchObject([{ state: "failed", failed: "run" }]);
});

test("a pull request that mends the build is compared with the cluster", async () => {
  const world = aFluxWorld([aFluxResource("apps")], { base: { apps: "broken" }, merged: { apps: [settings("2")] } });
  world.flux.has(settings("1"));
  await world.run();
  expect(world.previews()).toMatchObject([{ state: "done", counts: { changed: 1 }, unattributed: "broken" }]);
});

test("nothing of a fork is rendered", async () => {
  const world = aFluxWorld(
    [aFluxResource("apps")],
    { base: { apps: [settings("1")] }, merged: { apps: [settings("2")] } },
    { pullRequest: { fork: true } },
  );
  expect(await world.run()).toEqual({ kind: "done" });
  expect(world.flux.rendered).toEqual([]);
  expect(world.told.at(-1)?.obstacle).toMatchObject({ kind: "fork" });
});

test("nor of a head that is on no branch", async () => {
  const world = aFluxWorld(
    [aFluxResource("apps")],
    { base: {}, merged: {} },
    { pullRequest: { head: "7".repeat(40) } },
  );
  delete world.sources.refs["refs/heads/feature"];
  await world.run({ lastAttempt: true });
  expect(world.flux.rendered).toEqual([]);
  expect(world.told.at(-1)?.obstacle).toMatchObject({ kind: "no-branch" });
});

test("suspended Kustomizations are shown as such, also if their source is suspended", async () => {
  const renders = { base: { apps: [settings("1")] }, merged: { apps: [settings("2")] } };
  const own = aFluxWorld([aFluxResource("apps", { spec: { suspend: true } })], renders);
  const source = aFluxWorld([aFluxResource("apps")], renders);
  source.flux.gitRepository.spec = { suspend: true };
  await Promise.all([own.run(), source.run()]);
  expect([own, source].map((world) => world.previews()[0]?.suspended)).toEqual([true, true]);
});

test("a source that is not the files of the repository alone is not compared", async () => {
  const world = aFluxWorld([aFluxResource("apps")], { base: {}, merged: { apps: [settings("1")] } });
  world.flux.gitRepository.spec = { include: [{}] };
  await world.run();
  expect(world.previews()).toEqual([]);
  expect(commentOf(world)).toContain("includes other repositories");
});

test("a changed HelmRelease says that its chart is not rendered", async () => {
  const release = (version: string) => ({
    ...{ apiVersion: "helm.toolkit.fluxcd.io/v2", kind: "HelmRelease", metadata: { name: "web", namespace: "shop" } },
    spec: { chart: { spec: { version } } },
  });
  const world = aFluxWorld([aFluxResource("apps", { applied: base })], {
    base: { apps: [release("1.0.0")] },
    merged: { apps: [release("1.1.0")] },
  });
  world.flux.has(release("1.0.0"));
  await world.run();
  expect(world.previews()[0]?.warnings[0]?.message).toContain("its chart is not rendered");
});

test("a cluster that does not answer is asked again", async () => {
  const world = aFluxWorld([aFluxResource("apps")], { base: { apps: [] }, merged: { apps: [settings("1")] } });
  world.flux.deps.clusters.open = () => Promise.reject(new Error("no response"));
  expect(await world.run()).toMatchObject({ kind: "failed", retry: "soon" });
  expect(world.previews()).toMatchObject([{ state: "failed", failed: "run" }]);
});

test("one that mends the build shows what is deleted, too", async () => {
  const old = ownedBy("apps", aConfigMap("old", {}));
  const world = aFluxWorld([aFluxResource("apps", { applied: base, inventory: [settings("1"), old] })], {
    base: { apps: "broken" },
    merged: { apps: [settings("1")] },
  });
  world.flux.has(settings("1"), old);
  await world.run();
  expect(world.previews()).toMatchObject([{ state: "done", counts: { deleted: 1 } }]);
});
