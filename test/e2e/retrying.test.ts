/** Failures are retried although git has not changed, and drift of any size is reported. */
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { readyOf } from "../support/world-cluster.ts";
import { useWorld } from "../support/world.ts";

test("a failed deploy is retried without a new commit, and a huge drift fits into the status", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace, core } = cluster;
  const elsewhere = `${namespace}-later`;
  const configMap = (name: string, more: object) => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name },
    ...more,
  });
  const inLater = { ...configMap("late", { data: { a: "b" } }), metadata: { name: "late", namespace: elsewhere } };
  const late = await world.repo("late");
  await late.push(aProject({ namespace, name: "beside-late", objects: { "late.yml": inLater } }));
  const large = await world.repo("large");
  const lines = (word: string) => Array.from({ length: 100 }, (_, i) => `${word} ${i} `.repeat(200)).join("\n");
  const names = ["one", "two", "three", "four"];
  const objects = Object.fromEntries(
    names.map((name) => [
      `${name}.yml`,
      { ...configMap(name, { data: { text: lines("ours") } }), metadata: { name, namespace } },
    ]),
  );
  await large.push(aProject({ namespace, name: "beside-large", objects }));
  await useTowline(world);
  const failing = cluster.deployment("failing");
  const drifting = cluster.deployment("drifting");
  await failing.create(aSpec(late.url, { retryInterval: "2s" }));
  await drifting.create(aSpec(large.url, { interval: "5s" }));

  const failed = await failing.settles();
  expect(readyOf(failed)).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(JSON.stringify(failed.status?.["lastDeployResult"])).toContain(elsewhere);
  await core.createNamespace({ body: { metadata: { name: elsewhere } } });
  onTestFinished(async () => void (await core.deleteNamespace({ name: elsewhere })));
  const mended = await failing.reaches("Ready");
  expect(mended.status?.["observedCommit"]).toBe(failed.status?.["observedCommit"]);

  await drifting.reaches("Ready");
  for (const name of names)
    await cluster.patch(configMap(name, { data: { text: lines("theirs") } }) as KubernetesObject);
  const drifted = await drifting.until(
    "a report of the drift",
    ({ status }) => status?.["lastDriftDetectionResultMessage"] === "4 chg",
  );
  const { lastDriftDetectionResult: drift } = drifted.status as { lastDriftDetectionResult: { objects: object[] } };
  expect(drift.objects).toMatchObject(names.map(() => ({ ref: { kind: "ConfigMap" }, changes: [{ type: "update" }] })));
  expect(JSON.stringify(drifted).length).toBeLessThan(800_000);
  expect(readyOf(await drifting.settles())).toMatchObject({ status: "True" });
});
