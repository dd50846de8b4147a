/** A deployment with health checks, from its deploy until it is healthy or not. */
import { expect, test } from "vitest";
import { annotation, type DeploymentSpec, requestAnnotation } from "../../../src/model.ts";
import { aDeployment, anObject, aResult, aSummary } from "../../support/deployments.ts";
import { fakeKluctl, fakeSources } from "../../support/fakes.ts";
import { aWorld, key, push, ready, upToDate } from "../../support/reconciling.ts";

const flag = { apiVersion: "v1", kind: "ConfigMap", metadata: { namespace: "shop", name: "flag", generation: 1 } };
const check = {
  apiVersion: "v1",
  kind: "ConfigMap",
  name: "flag",
  current: "data.state == 'good'",
  failed: "data.state == 'bad'",
};
const interval = { ...push, cause: "interval" } as const;

/** A deployment whose next commit changes what is deployed. */
function useWorld(annotations: Record<string, string> = {}, spec: Partial<DeploymentSpec> = {}) {
  const changed = aResult({ objectsHash: "hash-2", objects: [anObject({ new: true })] });
  const refs = { "refs/heads/main": "c2" };
  const deployment = aDeployment({
    annotations: { [annotation.healthChecks]: JSON.stringify([check]), ...annotations },
    spec,
    status: { ...upToDate, targetKey: { clusterId: "cluster-1", discriminator: "shop-prod" } },
  });
  const world = aWorld(deployment, fakeKluctl({ diff: changed, deploy: changed }), fakeSources(refs));
  world.objects.existing.set("ConfigMap flag", flag);
  return {
    ...world,
    refs,
    becomes: (state: string) => void world.objects.existing.set("ConfigMap flag", { ...flag, data: { state } }),
    rendersDifferently() {
      const next = aResult({ objectsHash: "hash-3", objects: [anObject({ new: true })] });
      Object.assign(world.kluctl.answers, { diff: next, deploy: next });
    },
    run: (request: Parameters<typeof world.reconcile>[0]) => world.reconcile(request, world.attempt()),
    readyCondition: () => world.status()?.conditions.find(({ type }) => type === "Ready"),
  };
}

const pending = { status: "Unknown", reason: "HealthCheckPending" } as const;

test("what was deployed is Ready once its objects are healthy, and no kluctl runs until then", async () => {
  const world = useWorld();
  world.becomes("starting");

  expect(await world.run(push)).toEqual({ kind: "recheck", afterMs: 1_000 });
  expect(world.readyCondition()).toMatchObject({
    ...pending,
    message: "deploy succeeded. 1 new objects. Waiting until ConfigMap shop/flag is healthy.",
  });
  expect([world.leases.held.size, world.live.length]).toEqual([0, 0]);
  const [runs, writes] = [world.kluctl.commands().length, world.deployments.patches.length];

  world.time.now += 30_000;
  expect(await world.run(interval)).toEqual({ kind: "recheck", afterMs: 3_000 });
  expect(world.deployments.patches).toHaveLength(writes);

  world.becomes("good");
  expect(await world.run(interval)).toEqual({ kind: "done" });
  expect(world.readyCondition()).toMatchObject({ status: "True", message: "deploy succeeded. 1 new objects." });
  expect(world.deployments.events.at(-1)).toMatchObject({ type: "Normal", message: "Health check passed." });
  expect(world.kluctl.commands()).toHaveLength(runs);
  expect(world.live).toEqual([world.time.now / 1_000]);
});

test("an object whose `failed` is true ends the wait, and the message names it", async () => {
  const world = useWorld();
  await world.run(push);
  world.becomes("bad");
  expect(await world.run(interval)).toMatchObject({ kind: "failed", retry: "person" });
  const message = "Health check failed: ConfigMap shop/flag (`failed` is true).";
  expect(world.readyCondition()).toMatchObject({
    ...{ status: "False", reason: "HealthCheckFailed" },
    message: `deploy succeeded. 1 new objects. ${message}`,
  });
  expect(world.deployments.events.at(-1)).toEqual({ type: "Warning", reason: "HealthCheckFailed", message });
});

test("the wait ends after its time-out, counted from the deploy, and an object may become healthy later", async () => {
  const world = useWorld({ [annotation.healthTimeout]: "2m" });
  await world.run(push);
  world.time.now += 119_000;
  expect(await world.run(interval)).toEqual({ kind: "recheck", afterMs: 1_000 });
  world.time.now += 1_000;
  expect(await world.run(interval)).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.readyCondition()).toMatchObject({
    status: "False",
    message: expect.stringContaining(
      "timed out: ConfigMap shop/flag (`current` cannot be evaluated: unknown variable)",
    ),
  });

  world.kluctl.answers.diff = aResult({ objectsHash: "hash-2" });
  await world.comesRound();
  expect(world.readyCondition()).toMatchObject({ status: "False" });
  world.becomes("good");
  await world.comesRound();
  expect(world.readyCondition()).toMatchObject({ status: "True" });
  expect(world.kluctl.commands().filter((command) => command === "deploy")).toHaveLength(1);
});

test("a healthy deployment whose objects stop being healthy waits for them before it is not Ready", async () => {
  const world = useWorld();
  world.becomes("good");
  expect(await world.run(push)).toMatchObject({ kind: "done" });
  world.kluctl.answers.diff = aResult({ objectsHash: "hash-2" });
  world.becomes("restarting");
  expect(await world.comesRound()).toMatchObject({ kind: "recheck" });
  expect(world.readyCondition()).toMatchObject(pending);
  world.time.now += 5 * 60_000;
  expect(await world.run(interval)).toMatchObject({ kind: "failed" });
});

test("a newer commit ends the wait and is deployed, and the audit log says so", async () => {
  const world = useWorld();
  await world.run(push);
  world.time.now += 20_000;
  world.refs["refs/heads/main"] = "c3";
  world.rendersDifferently();
  world.becomes("good");

  expect(await world.run({ ...push, sender: "ada" })).toEqual({ kind: "done", deployed: true, commit: "c3" });
  expect(world.readyCondition()).toMatchObject({ status: "True" });
  expect(world.audit.map(({ action, result, commit, why }) => ({ action, result, commit, why }))).toEqual([
    { action: "deploy", result: "ok", commit: "c2", why: "objects-changed" },
    { action: "health-check", result: "superseded", commit: "c2", why: "superseded by c3" },
    { action: "deploy", result: "ok", commit: "c3", why: "objects-changed" },
  ]);
  expect(world.audit[1]).toMatchObject({ cause: "push", sender: "ada", deployment: key });
});

test("a request without a newer commit keeps the wait, and supersedes nothing", async () => {
  const world = useWorld();
  await world.run(push);
  world.kluctl.answers.diff = aResult({ objectsHash: "hash-2" });
  expect(await world.run({ ...push, cause: "sweep" })).toMatchObject({ kind: "recheck" });
  expect(world.readyCondition()).toMatchObject(pending);
  expect(world.audit).toHaveLength(1);
});

test("a changed annotation of a Ready deployment is read again", async () => {
  const world = useWorld();
  world.becomes("good");
  await world.run(push);
  world.kluctl.answers.diff = aResult({ objectsHash: "hash-2" });
  const checks = "[{apiVersion: v1, kind: ConfigMap, name: other}]";
  await world.deployments.setAnnotation({ key, uid: "uid-1" }, annotation.healthChecks, checks);
  expect(await world.run({ ...push, cause: "change" })).toMatchObject({ kind: "recheck" });
  expect(world.readyCondition()?.message).toContain("ConfigMap shop/other");
});

test("an invalid annotation is reported on the resource, does not hinder the deploy and is not retried", async () => {
  const wrong = JSON.stringify([check, { ...check, current: "data.state ==" }]);
  const world = useWorld({ [annotation.healthChecks]: wrong });
  expect(await world.run(push)).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.kluctl.commands()).toContain("deploy");
  expect(world.readyCondition()).toMatchObject({
    ...{ status: "False", reason: "HealthCheckInvalid" },
    message: expect.stringMatching(
      /^deploy succeeded\. 1 new objects\. Invalid annotation towline\.dev\/health-checks: entry 2 \(ConfigMap flag\): current is not a CEL expression.*\.$/s,
    ),
  });
  const events = world.deployments.events.length;
  world.kluctl.answers.diff = aResult({ objectsHash: "hash-2" });
  await world.comesRound();
  expect(world.deployments.events).toHaveLength(events);
});

test("the objects are read as the deployment's service account, and a refusal ends the wait", async () => {
  const world = useWorld({}, { serviceAccountName: "deployer" });
  world.objects.existing.set("ConfigMap flag", 'configmaps "flag" is forbidden');
  expect(await world.run(push)).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.readyCondition()?.message).toContain('it cannot be read: configmaps "flag" is forbidden');
  world.objects.existing.set("ConfigMap flag", flag);
  await world.run(push);
  await world.run(interval);
  expect(new Set(world.objects.readAs)).toEqual(new Set(["system:serviceaccount:shop:deployer"]));
});

test("an object that does not exist yet is waited for", async () => {
  const world = useWorld();
  world.objects.existing.delete("ConfigMap flag");
  expect(await world.run(push)).toMatchObject({ kind: "recheck" });
  expect(world.readyCondition()?.message).toContain("Waiting until ConfigMap shop/flag is healthy.");
});

test("without an expression the kind decides; without a name, the objects that the deployment applied", async () => {
  const world = useWorld({ [annotation.healthChecks]: "[{apiVersion: apps/v1, kind: Deployment}]" });
  const metadata = { namespace: "shop", name: "web", generation: 1 };
  world.objects.existing.set("Deployment web", { apiVersion: "apps/v1", kind: "Deployment", metadata });
  expect(await world.run(push)).toMatchObject({ kind: "recheck" });
  expect(world.readyCondition()?.message).toContain("Deployment shop/web");
  world.objects.existing.delete("Deployment web");
  expect(await world.run(interval)).toEqual({ kind: "done" });
});

test("a failed deploy, and a dry run, are not checked", async () => {
  const failing = useWorld();
  failing.kluctl.answers.deploy = aResult({
    objectsHash: "hash-2",
    errors: [{ ref: { kind: "ConfigMap", name: "flag" }, message: "is invalid" }],
  });
  await failing.run(push);
  expect(failing.readyCondition()).toMatchObject({ status: "False", reason: "DeployFailed" });
  const dry = useWorld({}, { dryRun: true });
  await dry.run(push);
  expect([failing.objects.readAs, dry.objects.readAs]).toEqual([[], []]);
});

test("a deployment that is suspended while it waits becomes healthy all the same", async () => {
  const pendingNow = {
    ...ready,
    ...pending,
    message: "deploy succeeded. Waiting until ConfigMap shop/flag is healthy.",
  };
  const healthy = { ...ready, ...pending, type: "Healthy", message: "Waiting until ConfigMap shop/flag is healthy." };
  const status = { ...upToDate, conditions: [pendingNow, healthy], lastDeployResult: aSummary() };
  const annotations = { [annotation.healthChecks]: JSON.stringify([check]) };
  const world = aWorld(aDeployment({ annotations, generation: 2, spec: { suspend: true }, status }));
  world.objects.existing.set("ConfigMap flag", { ...flag, data: { state: "good" } });
  expect(await world.reconcile({ ...push, cause: "change" }, world.attempt())).toEqual({ kind: "done" });
  expect(world.status()?.conditions).toMatchObject([
    { type: "Ready", status: "True", message: "deploy succeeded." },
    { type: "Healthy", status: "True", message: "All objects are healthy." },
  ]);
  expect(world.kluctl.commands()).toEqual([]);

  const requested = { ...annotations, [requestAnnotation("reconcile")]: "now" };
  const asked = aWorld(aDeployment({ annotations: requested, generation: 2, spec: { suspend: true }, status }));
  asked.objects.existing.set("ConfigMap flag", flag);
  await asked.reconcile({ ...push, cause: "manual" }, asked.attempt());
  expect(asked.kluctl.commands()).toEqual(["deploy"]);
});

test("what a user's request deploys of a suspended deployment becomes healthy too, or does not", async () => {
  const world = useWorld({ [requestAnnotation("deploy")]: "now" }, { suspend: true });
  expect(await world.run({ ...push, cause: "manual" })).toEqual({ kind: "recheck", afterMs: 1_000 });
  expect(world.kluctl.commands()).toEqual(["deploy"]);
  expect(world.readyCondition()).toMatchObject({
    ...pending,
    message: "deploy succeeded. Waiting until ConfigMap shop/flag is healthy.",
  });
  world.becomes("bad");
  expect(await world.run(interval)).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.readyCondition()).toMatchObject({ status: "False", reason: "HealthCheckFailed" });
  expect(world.kluctl.commands()).toEqual(["deploy"]);
});

test("the sentences beside the wait stay in Ready, whatever the names of the objects are", async () => {
  const wait = "Waiting until ConfigMap shop/is healthy. is healthy.";
  const message = `deploy succeeded. ${wait} Suspended: commit ${"c".repeat(40)} is not deployed.`;
  const conditions = [
    { ...ready, ...pending, message },
    { ...ready, ...pending, type: "Healthy", message: wait },
  ];
  const status = { ...upToDate, conditions, lastDeployResult: aSummary() };
  const annotations = { [annotation.healthChecks]: JSON.stringify([check]) };
  const world = aWorld(aDeployment({ annotations, spec: { suspend: true }, status }));
  world.objects.existing.set("ConfigMap flag", { ...flag, data: { state: "good" } });
  await world.reconcile(interval, world.attempt());
  expect(world.status()?.conditions[0]?.message).toBe(message.replace(` ${wait}`, ""));
});

test("a suspended deployment whose objects cannot be read does not count as healthy", async () => {
  const progressing = { ...ready, status: "Unknown", reason: "Progressing", message: "deploying" } as const;
  const status = { ...upToDate, conditions: [progressing], lastDeployResult: aSummary() };
  const spec = { suspend: true, kubeConfig: { secretName: "gone" } };
  const annotations = { [annotation.healthChecks]: JSON.stringify([check]) };
  const world = aWorld(aDeployment({ annotations, generation: 2, spec, status }));
  expect(await world.reconcile({ ...push, cause: "change" }, world.attempt())).toMatchObject({
    kind: "failed",
    retry: "person",
  });
  expect(world.status()?.conditions).toMatchObject([
    {
      type: "Ready",
      status: "False",
      reason: "HealthCheckFailed",
      message: expect.stringContaining("objects cannot be read") as string,
    },
    { type: "Healthy", status: "False" },
  ]);

  const unchecked = aWorld(aDeployment({ generation: 2, spec, status }));
  await unchecked.reconcile({ ...push, cause: "change" }, unchecked.attempt());
  expect(unchecked.status()?.conditions).toMatchObject([{ type: "Ready", status: "True" }]);
});
