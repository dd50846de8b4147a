/** From a push to the cluster, with real parts. */
import type { KubernetesObject, V1ConfigMap } from "@kubernetes/client-node";
import { expect, onTestFinished, test, vi } from "vitest";
import { exposedMetrics } from "../support/exposition.ts";
import { useOtlpReceiver } from "../support/otlp-receiver.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { useWorld, type TestWorld } from "../support/world.ts";
import { patience } from "../support/patience.ts";

async function settings({ cluster }: TestWorld): Promise<V1ConfigMap["data"]> {
  return (await cluster.find<KubernetesObject & V1ConfigMap>("v1", "ConfigMap", "settings"))?.data;
}

test("a new KluctlDeployment is deployed, and a push changes it within seconds", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const repo = await world.repo("shop");
  const first = await repo.push(aProject({ namespace }));
  const collector = await useOtlpReceiver();
  vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const towline = await useTowline(world);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url));

  const ready = await deployment.reaches("Ready");
  expect(await settings(world)).toEqual({ color: "red" });
  expect(ready.status).toMatchObject({
    observedGeneration: 1,
    observedCommit: first,
    lastDriftDetectionResultMessage: "no drift",
  });
  expect(ready.status?.conditions).toHaveLength(1);

  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }), { message: "Paint it blue" });
  const answer = await sendPush(towline.webhooksUrl, { repo: repo.url, after: second });
  expect(answer.status).toBe(202);
  expect(await answer.json()).toMatchObject({ matched: 1, queued: 1, ignored: [] });
  await vi.waitFor(async () => expect(await settings(world)).toEqual({ color: "blue" }), patience);
  await vi.waitFor(
    async () => expect((await deployment.get())?.status).toMatchObject({ observedCommit: second }),
    patience,
  );
  const done = await deployment.reaches("Ready");
  expect(done.status?.conditions?.[0]).toMatchObject({ message: "deploy succeeded. 1 changed objects." });

  const audit = towline.lines.filter((line) => line["audit"] === true);
  expect(audit).toMatchObject([
    { msg: "deploy ok", why: "never-deployed", commit: first, objects: { new: 1, changed: 0 } },
    {
      msg: "deploy ok",
      cause: "push",
      sender: "somebody",
      name: "shop",
      namespace,
      why: "objects-changed",
      commit: second,
      dryRun: false,
      objects: { new: 0, changed: 1, deleted: 0, errors: 0 },
    },
  ]);
  expect(JSON.stringify(audit)).not.toContain("blue");

  const metrics = async () => (await fetch(`${towline.adminUrl}/metrics`)).text();
  await vi.waitFor(async () => expect(await metrics()).toContain("\ntowline_push_to_live_seconds_count 1\n"), patience);
  const told = await metrics();
  for (const stage of ["source", "deploy", "status", "result"]) {
    expect(told).toMatch(
      new RegExp(`^towline_stage_duration_seconds_count\\{stage="${stage}",result="ok"\\} [1-9]`, "m"),
    );
  }
  expect(told).toContain('towline_webhook_matched_total{forge="gitea",what="deployment"} 1');
  expect(told).toContain('towline_queue_jobs{lane="reconcile",state="waiting"} 0');
  expect(told).toContain("\ntowline_leader 1\n");
  const names = [...told.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name]) => name);
  expect(names.toSorted()).toEqual(
    exposedMetrics()
      .map(({ name }) => name)
      .toSorted(),
  );

  await towline.stop(); // sends the remaining traces
  const { traceId } = collector.spans.find(({ name }) => name === "receive") ?? {};
  const ofPush = collector.spans.filter((span) => span.traceId === traceId).map(({ name }) => name);
  const stages = ["receive", "match", "enqueue", "queue wait", "reconcile", "source", "deploy", "status", "result"];
  expect(ofPush).toEqual(expect.arrayContaining(stages));
  expect(JSON.stringify(collector.spans)).not.toMatch(/blue|secret/);
});
