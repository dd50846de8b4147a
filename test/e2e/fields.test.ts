/** Changes that only add or only remove something: kluctl's results contain one value for such a change, not two. */
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, test } from "vitest";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { readyOf } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

test("pushes that only add fields, only remove them, or do both are deployed", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const configMap = (name: string, annotations: Record<string, string> = {}) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace, annotations },
    data: { size: "10" },
  });
  const annotated = { "limits.yml": configMap("limits", { "example.com/owner": "ada" }) };
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, objects: annotated }));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));
  await deployment.reaches("Ready");

  async function deploy(project: Omit<Parameters<typeof aProject>[0], "namespace">) {
    const after = await repo.push(aProject({ namespace, ...project }));
    await sendPush(towline.webhooksUrl, { repo: repo.url, after });
    return readyOf(await deployment.settles(after));
  }
  const annotations = async () =>
    (await cluster.find<KubernetesObject>("v1", "ConfigMap", "limits"))?.metadata?.annotations ?? {};
  expect(await annotations()).toMatchObject({ "example.com/owner": "ada" });

  const both = { color: "red", shape: "round" };
  expect(await deploy({ data: both, objects: annotated })).toMatchObject({
    status: "True",
    message: "deploy succeeded. 1 changed objects.",
  });
  expect(await cluster.data("settings")).toEqual(both);

  expect(await deploy({ data: { shape: "round" }, objects: annotated })).toMatchObject({
    status: "True",
    message: "deploy succeeded. 1 changed objects.",
  });
  expect(await cluster.data("settings")).toEqual({ shape: "round" });

  const objects = { "limits.yml": configMap("limits"), "more.yml": configMap("more") };
  expect(await deploy({ data: { shape: "round" }, objects })).toMatchObject({
    status: "True",
    message: "deploy succeeded. 1 new objects. 1 changed objects.",
  });
  expect(await cluster.data("more")).toEqual({ size: "10" });
  expect(await annotations()).not.toHaveProperty(["example.com/owner"]);
});

test("a pull request that only adds a key is shown, and so is one that only removes it", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const pulls = await usePullRequests(world);
  await pulls.repo.push(aProject({ namespace, data: { color: "red", shape: "round" } }));
  await world.cluster.deployment("shop").create(aSpec(pulls.repo.url));
  await world.cluster.deployment("shop").reaches("Ready");

  const adds = await pulls.open(aProject({ namespace, data: { color: "red", shape: "round", size: "10" } }));
  const added = await adds.comment("merging changes 1 deployment: 1 object changed");
  expect(added).toMatch(/data\.size.*\n\+ +"?10"?\n/);

  const removes = await pulls.open(aProject({ namespace, data: { color: "red" } }));
  const removed = await removes.comment("merging changes 1 deployment: 1 object changed");
  expect(removed).toMatch(/data\.shape.*\n- +round\n/);
});
