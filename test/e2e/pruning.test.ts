/** Large prunes need confirmation, and prunes that cannot finish do not block others. */
import { expect, test } from "vitest";
import { annotation } from "../../src/model.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { readyOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";
import { useWorld } from "../support/world.ts";

const names = Array.from({ length: 11 }, (_, i) => `old-${i}`);

test("a push that would prune most of what is deployed deploys the rest, and prunes once it is confirmed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const configMap = (name: string, more: object = {}) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace, ...more },
    data: { a: "b" },
  });
  const olds = Object.fromEntries(names.map((name) => [`${name}.yml`, configMap(name)]));
  const gone = Object.fromEntries(names.map((name) => [`app/${name}.yml`, undefined]));
  const large = await world.repo("large");
  await large.push(aProject({ namespace, objects: olds }));
  const stuck = await world.repo("stuck");
  const held = configMap("held", { finalizers: ["example.com/never"] });
  await stuck.push(
    aProject({ namespace, name: "beside-held", objects: { "held.yml": held, "free.yml": configMap("free") } }),
  );
  const towline = await useTowline(world);
  const shrinking = cluster.deployment("shrinking");
  const waiting = cluster.deployment("waiting");
  await shrinking.create(aSpec(large.url, { prune: true }));
  await waiting.create(aSpec(stuck.url, { prune: true, timeout: "10m" }));
  await Promise.all([shrinking.reaches("Ready"), waiting.reaches("Ready")]);

  const without = await large.push({ ...aProject({ namespace, data: { color: "blue" } }), ...gone });
  await sendPush(towline.webhooksUrl, { repo: large.url, after: without });
  const freed = await stuck.push({ "app/held.yml": undefined, "app/free.yml": undefined });
  await sendPush(towline.webhooksUrl, { repo: stuck.url, after: freed });

  const told = readyOf(await shrinking.settles(without));
  expect(told).toMatchObject({ status: "True", reason: "ReconciliationSucceeded" });
  expect(told.message).toMatch(
    /^deploy succeeded\. 1 changed objects\. 11 orphan objects\. 11 of 12 deployed objects /,
  );
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  expect(await cluster.data("old-0")).toEqual({ a: "b" });
  const hash = new RegExp(`${annotation.confirmPrune}=(\\w+)`).exec(told.message ?? "")?.[1] ?? "";
  await expect
    .poll(async () => (await shrinking.events()).map(({ type, reason, message }) => [type, reason, message]), patience)
    .toContainEqual(["Warning", "PruneWaits", expect.stringContaining(hash) as unknown]);

  // Objects that cannot be deleted block neither their own deploy nor the objects next to them.
  const pruned = await waiting.settles(freed);
  expect(readyOf(pruned)).toMatchObject({ status: "True", message: "deploy succeeded. 2 deleted objects." });
  expect(await cluster.data("free")).toBeUndefined();
  expect((await cluster.find("v1", "ConfigMap", "held"))?.metadata?.deletionTimestamp).toBeDefined();
  await cluster.patch({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "held", finalizers: null as never } });

  await shrinking.patch({ metadata: { annotations: { [annotation.confirmPrune]: hash } } });
  const done = await shrinking.until(
    "the end of the prune",
    (now) => readyOf(now).message?.includes("deleted") ?? false,
  );
  expect(readyOf(done)).toMatchObject({ status: "True", message: "deploy succeeded. 11 deleted objects." });
  for (const name of names) expect(await cluster.data(name), name).toBeUndefined();
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
  expect(done.metadata?.annotations ?? {}).toEqual({});

  // A project that renders no objects at all is treated as a mistake, not as the removal of everything.
  const nothing = await large.push({ "deployment.yaml": "deployments: []\n" });
  await sendPush(towline.webhooksUrl, { repo: large.url, after: nothing });
  expect(readyOf(await shrinking.settles(nothing)).message).toContain("renders no objects at all");
  expect(await cluster.data("settings")).toEqual({ color: "blue" });
});
