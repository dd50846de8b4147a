/**
 * An approval applies to exactly the rendered objects that were shown: a deploy that renders something else is
 * reported.
 */
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, test, vi } from "vitest";
import { stringify } from "yaml";
import { useFaultServer } from "../support/faults.ts";
import { useJournal } from "../support/journal.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { readyOf } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

test("a deploy that renders another hash than the approved one is not ready, with an event and a line in the audit log", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const journal = await useJournal(world);
  const inputs = (color: string) => ({
    ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "inputs", namespace } },
    data: { values: stringify({ color }) },
  });
  await cluster.create<KubernetesObject>(inputs("red"));
  const repo = await world.repo("shop");
  await repo.push({
    ...aProject({ namespace, data: { color: "{{ color }}" } }),
    "deployment.yaml": stringify({
      vars: [{ clusterConfigMap: { name: "inputs", namespace, key: "values" } }],
      deployments: [{ path: "app" }],
    }),
  });
  const server = await useFaultServer(world, journal, "server");
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { manual: true }));
  const hashOf = async () => String((await deployment.settles()).status?.["lastObjectsHash"]);
  const approved = await hashOf();
  expect(approved).toMatch(/^[0-9a-f]{64}$/);

  // The variable changes after the approval, when no further comparison takes place.
  const release = await journal.hold('[ "$command" = deploy ]');
  await deployment.patch({ spec: { manualObjectsHash: approved } });
  await vi.waitFor(() => expect(journal.deploys()).toHaveLength(1), patience);
  await cluster.patch(inputs("blue"));
  await release();

  const deviated = await deployment.until(
    "the end of its deploy",
    ({ status }) => "lastDeployResult" in (status ?? {}),
  );
  const settled = await deployment.settles();
  expect(deviated.status?.["lastDeployResult"]).toMatchObject({ commandInfo: {} });
  expect(readyOf(settled)).toMatchObject({ status: "False", reason: "DeployFailed" });
  const applied = await hashOf();
  expect(applied).not.toBe(approved);
  expect(JSON.stringify(settled.status?.["lastDeployResult"])).toContain(`instead of the approved ${approved}: `);
  await expect
    .poll(async () => (await deployment.events()).map(({ type, message }) => [type, message]), patience)
    .toContainEqual(["Warning", expect.stringContaining(`${applied} instead of the approved ${approved}`) as unknown]);
  expect(server.lines).toContainEqual(
    expect.objectContaining({ action: "deploy", result: "errors", approved, objectsHash: applied }),
  );
  expect(await cluster.data("settings")).toEqual({ color: "blue" });

  // The deployment is ready once the objects that are rendered now are approved.
  await deployment.patch({ spec: { manualObjectsHash: applied } });
  await deployment.reaches("Ready");
});

test("images that are poked after an approval are the approved ones", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const journal = await useJournal(world);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  await useFaultServer(world, journal, "server");
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { manual: true, deployMode: "poke-images" }));
  const approved = (await deployment.settles()).status?.["lastObjectsHash"];
  await deployment.patch({ spec: { manualObjectsHash: approved } });
  const poked = await deployment.until("an end", ({ status }) => "lastDeployResult" in (status ?? {}));
  expect(JSON.stringify(poked.status?.["lastDeployResult"])).not.toContain("instead of");
});
