/** A deployment over time: validation, intervals, timeouts, drift, and the events about them. */
import { expect, test } from "vitest";
import { aProject, aSpec } from "../support/project.ts";
import { useTowline } from "../support/towline.ts";
import { useWorld } from "../support/world.ts";
import { idOf, readyOf } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const podTemplate = { spec: { containers: [{ name: "main", image: "registry.example.com/main:v1" }] } };

function aWorkload(name: string, namespace: string) {
  const labels = { app: name };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, ...podTemplate } },
  };
}

test("validation waits for objects that are not ready yet, and reports those that never will be", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const sound = await world.repo("sound");
  await sound.push(aProject({ namespace, objects: { "web.yml": aWorkload("web", namespace) } }));
  const broken = await world.repo("broken");
  const claim = {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: "never", namespace },
    spec: {
      accessModes: ["ReadWriteOnce"],
      storageClassName: "there-is-none",
      resources: { requests: { storage: "1Gi" } },
    },
  };
  await broken.push(aProject({ namespace, name: "beside-never", objects: { "claim.yml": claim } }));
  await useTowline(world);
  const good = cluster.deployment("good");
  const bad = cluster.deployment("bad");
  await good.create(aSpec(sound.url, { validate: true, retryInterval: "1s" }));
  await bad.create(aSpec(broken.url, { validate: true }));

  const ready = await good.reaches("Ready");
  expect(readyOf(ready)).toMatchObject({ reason: "ReconciliationSucceeded" });
  expect(readyOf(ready).message).toMatch(/ validate succeeded\.$/);
  expect(ready.status?.["lastValidateResult"]).toMatchObject({ ready: true });

  const failed = await bad.settles();
  expect(readyOf(failed)).toMatchObject({ status: "False", reason: "ValidateFailed" });
  expect(readyOf(failed).message).toMatch(/ validate failed with 1 errors\. First error: .*never/);
  expect(failed.status?.["lastValidateResult"]).toMatchObject({
    ready: false,
    errors: [{ ref: { kind: "PersistentVolumeClaim", name: "never" } }],
  });

  await bad.patch({ spec: { validate: false } });
  const silent = await bad.reaches("Ready");
  expect(silent.status).not.toHaveProperty("lastValidateResult");
});

test("each interval has its own effect: comparing, deploying or validating", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace, name: "{{ args.name }}" }));
  const towline = await useTowline(world);
  const spec = (name: string, more: object) => aSpec(repo.url, { args: { name }, ...more });
  const compared = cluster.deployment("compared");
  const deployed = cluster.deployment("deployed");
  const validated = cluster.deployment("validated");
  await compared.create(spec("compared", { interval: "2s" }));
  await deployed.create(spec("deployed", { deployInterval: "2s" }));
  await validated.create(spec("validated", { validate: true, validateInterval: "2s" }));
  const first = await compared.reaches("Ready");
  const before = { deployed: await deployed.reaches("Ready"), validated: await validated.reaches("Ready") };
  expect(first.status).toMatchObject({ lastDriftDetectionResultMessage: "no drift" });

  await cluster.patch({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "compared" },
    data: { color: "theirs" },
  } as object);
  const drifted = await compared.until(
    "a report of the drift",
    ({ status }) => status?.["lastDriftDetectionResultMessage"] === "1 chg",
  );
  expect(idOf(drifted, "lastDeployResult")).toBe(idOf(first, "lastDeployResult"));
  expect(drifted.status).toMatchObject({
    lastDriftDetectionResult: {
      objects: [
        { ref: { name: "compared" }, changes: [{ jsonPath: "data.color", oldValue: "theirs", newValue: "red" }] },
      ],
    },
  });
  expect(await cluster.data("compared")).toEqual({ color: "theirs" });

  await cluster.patch({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "deployed" },
    data: { color: "theirs" },
  } as object);
  await expect.poll(() => cluster.data("deployed"), patience).toEqual({ color: "red" });
  await deployed.until(
    "another deploy",
    (now) => idOf(now, "lastDeployResult") !== idOf(before.deployed, "lastDeployResult"),
  );
  const revalidated = await validated.until(
    "another validation",
    (now) => idOf(now, "lastValidateResult") !== idOf(before.validated, "lastValidateResult"),
  );
  expect(idOf(revalidated, "lastDeployResult")).toBe(idOf(before.validated, "lastDeployResult"));

  // Reconciliations that find nothing new write no events.
  const loops = () => towline.lines.filter((line) => line.msg === "reconciled" && line["name"] === "compared").length;
  const soFar = loops();
  await expect.poll(loops, patience).toBeGreaterThanOrEqual(soFar + 3);
  const events = await compared.events();
  expect(events.map(({ type, reason, count }) => ({ type, reason, count }))).toEqual([
    { type: "Normal", reason: "ReconciliationSucceeded", count: 1 },
  ]);
});

test("a project that waits forever is ended at its timeout, and deployed once it no longer waits", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const hook = (name: string) => ({
    apiVersion: "batch/v1",
    kind: "Job",
    metadata: { name, namespace, annotations: { "kluctl.io/hook": "post-deploy" } },
    spec: { suspend: true, template: { spec: { ...podTemplate.spec, restartPolicy: "Never" } } },
  });
  const repo = await world.repo("shop");
  await repo.push(
    aProject({ namespace, name: "{{ args.name }}", objects: { "hook.yml": hook("{{ args.name }}-hook") } }),
  );
  const towline = await useTowline(world);
  const waiting = cluster.deployment("waiting");
  const hasty = cluster.deployment("hasty");
  await waiting.create(aSpec(repo.url, { args: { name: "waiting" }, timeout: "1s" }));
  await hasty.create(aSpec(repo.url, { args: { name: "hasty" }, noWait: true }));

  await hasty.reaches("Ready");
  const ended = await waiting.settles();
  expect(readyOf(ended)).toMatchObject({ status: "False", reason: "DeployFailed" });
  expect(await cluster.data("waiting")).toEqual({ color: "red" });
  const loop = towline.lines.find((line) => line.msg === "reconciled" && line["name"] === "waiting");
  expect(loop?.["ms"]).toBeGreaterThan(25_000);
  expect(loop?.["ms"]).toBeLessThan(120_000);
  await expect
    .poll(async () => (await waiting.events()).map(({ type, reason }) => ({ type, reason })), patience)
    .toContainEqual({ type: "Warning", reason: "DeployFailed" });

  await waiting.patch({ spec: { noWait: true } });
  await waiting.reaches("Ready");
});
