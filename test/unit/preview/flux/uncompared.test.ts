/** What of Flux's is not compared is never part of a success. */
import { expect, test } from "vitest";
import type { JsonObject } from "../../../../src/kit/json.ts";
import { statusesOf } from "../../../../src/reporting/statuses.ts";
import { aPreviewWorld, base, named } from "../../../support/preview.ts";
import { aConfigMap, aFluxResource, fakeFluxPreviews, type PlayedRenders } from "../../../support/flux-previews.ts";

const shop = named("shop");

function aMixedWorld(resources: readonly JsonObject[], renders: PlayedRenders, deployments = [shop]) {
  const flux = fakeFluxPreviews(resources, renders);
  const world = aPreviewWorld(deployments, { flux: flux.deps, settings: { serviceAccount: "dry-run" } });
  world.sources.nextMerge.changed = { complete: true, paths: ["a.yaml"] };
  world.sources.nextMerge.inBase = true;
  const statuses = () => {
    const [report] = world.told.slice(-1);
    return new Map(report && statusesOf(report, "").map(({ context, state }) => [context, state]));
  };
  return { ...world, flux, statuses };
}

test("if nothing of Flux's can be rendered, it fails, and the deployments of kluctl are shown", async () => {
  const off = aFluxResource("off", { annotations: { "towline.dev/preview": "false" } });
  const world = aMixedWorld([aFluxResource("apps"), aFluxResource("infra"), off], { base: {}, merged: {} });
  world.flux.deps.renderer.render = () => Promise.reject(new Error("needs more than 1024 MiB"));

  expect(await world.run({ lastAttempt: true })).toEqual({ kind: "done" });

  expect(world.previews()).toMatchObject([
    { deployment: { name: "shop" }, state: "done" },
    { kind: "Kustomization", deployment: { name: "apps" }, state: "failed", failure: "needs more than 1024 MiB" },
    { kind: "Kustomization", deployment: { name: "infra" }, state: "failed", failed: "run" },
  ]);
  expect(Object.fromEntries(world.statuses())).toEqual({
    towline: "failure",
    "towline/shop/shop": "success",
    "towline/kustomization/flux-system/apps": "failure",
    "towline/kustomization/flux-system/infra": "failure",
  });
});

test("a change cannot be hidden behind many others", async () => {
  const child = (name: string) => aFluxResource(name, { owner: "root" });
  const world = aMixedWorld(
    [aFluxResource("root", { applied: base })],
    {
      base: { root: [] },
      merged: { root: Array.from({ length: 250 }, (_, at) => child(`n${at}`)), n240: [aConfigMap("hidden", {})] },
    },
    [],
  );
  await world.run();
  expect(world.previews().filter(({ state }) => state === "failed")).toHaveLength(10);
  expect(world.statuses().get("towline")).toBe("failure");
});

test("of all Kustomizations together, only so many objects are compared, and the others are counted", async () => {
  const some = (name: string) => Array.from({ length: 900 }, (_, at) => aConfigMap(`${name}-${at}`, {}));
  const names = ["a", "b", "c"];
  const world = aMixedWorld(
    names.map((name) => aFluxResource(name)),
    { base: {}, merged: Object.fromEntries(names.map((name) => [name, some(name)])) },
    [],
  );
  await world.run();
  expect(world.flux.asked.filter((one) => one.startsWith("dry run"))).toHaveLength(2_000);
  expect(JSON.stringify(world.previews().map(({ warnings }) => warnings))).toContain("700 more objects");
});

test("what renders very much is not followed further", async () => {
  const objects = Array.from({ length: 50_000 }, (_, at) => aConfigMap(`a-${at}`, {}));
  const rendered = [aFluxResource("apps", { owner: "root" }), ...objects];
  const world = aMixedWorld([aFluxResource("root")], { base: { root: rendered }, merged: { root: rendered } }, []);
  await world.run();
  expect(world.previews()).toMatchObject([
    { state: "failed", failure: "Not compared: the Kustomizations that contain it render too many objects." },
  ]);
});
