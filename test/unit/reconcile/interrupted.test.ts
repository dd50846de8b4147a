import { expect, test } from "vitest";
import { ApiError, KilledError } from "../../../src/errors.ts";
import { requestAnnotation } from "../../../src/model.ts";
import type { Deployment, DeploymentSpec } from "../../../src/model.ts";
import { pendingHash } from "../../../src/requests/actions.ts";
import { aDeployment, anObject, aResult, aSummary } from "../../support/deployments.ts";
import { fakeKluctl } from "../../support/fakes.ts";
import { aWorld, push, upToDate } from "../../support/reconciling.ts";

const changed = aResult({ objectsHash: "hash-2", objects: [anObject({ new: true })] });
const remote = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "old", uid: "1" } });
const orphan = aResult({ objects: [anObject({ orphan: true, remote })] });
const asking = (kind: "deploy" | "prune") => ({
  [requestAnnotation(kind)]: JSON.stringify({ requestValue: "now" }),
});

interface Mutation {
  readonly spec?: Partial<DeploymentSpec>;
  readonly annotations?: Record<string, string>;
  readonly by: "deploy" | "pokeImages" | "delete";
}

const mutations: [string, Mutation][] = [
  ["a deploy", { by: "deploy" }],
  ["poking images", { by: "pokeImages", spec: { deployMode: "poke-images" } }],
  ["a requested deploy", { by: "deploy", spec: { suspend: true }, annotations: asking("deploy") }],
  ["a requested prune", { by: "delete", spec: { suspend: true }, annotations: asking("prune") }],
];

/** A deployment whose cluster is changed, with the status during the change and, if `breaksOff`, after an interruption. */
function aMutation({ spec, annotations = {}, by }: Mutation, { breaksOff }: { breaksOff: boolean }) {
  const kluctl = fakeKluctl({ diff: changed, deploy: changed, pokeImages: changed, prune: orphan });
  const world = aWorld(aDeployment({ status: upToDate, annotations, ...(spec && { spec }) }), kluctl);
  const seen: unknown[] = [];
  const look = () => {
    seen.push(world.status()?.lastObjectsHash);
    if (breaksOff) throw new KilledError("signal", "it was killed");
  };
  const { deploy, pokeImages } = kluctl;
  const { delete: remove } = world.objects;
  Object.assign(kluctl, {
    deploy: async (...args: Parameters<typeof deploy>) => (look(), deploy(...args)),
    pokeImages: async (...args: Parameters<typeof pokeImages>) => (look(), pokeImages(...args)),
  });
  Object.assign(world.objects, { delete: async (...args: Parameters<typeof remove>) => (look(), remove(...args)) });
  return { ...world, seen, reconciled: () => world.reconcile({ ...push, cause: "drift" }, world.attempt()), by };
}

test.each(mutations)("while %s runs, the status has no hash of applied objects", async (_, mutation) => {
  const world = aMutation(mutation, { breaksOff: false });
  await world.reconciled();
  expect(world.seen).toEqual([undefined]);
  expect(world.status()?.lastObjectsHash).toBe(mutation.by === "delete" ? "hash-1" : "hash-2");
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "True" }]);
});

test.each(mutations)(
  "after %s was interrupted the hash stays empty, and the deployment is not ready",
  async (_, mutation) => {
    const world = aMutation(mutation, { breaksOff: true });
    await world.reconciled();
    expect(world.status()?.lastObjectsHash).toBeUndefined();
    expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "False" }]);
  },
);

test("a dry run keeps the hash, because it applies nothing", async () => {
  const world = aMutation({ by: "deploy", spec: { dryRun: true } }, { breaksOff: false });
  await world.reconciled();
  expect(world.seen).toEqual(["hash-1"]);
});

test("the cluster is not changed if the status cannot be written before", async () => {
  const world = aMutation({ by: "deploy" }, { breaksOff: false });
  world.replace({ deployments: { patchStatus: () => Promise.reject(new ApiError(500, "no etcd leader")) } });
  expect(await world.reconciled()).toMatchObject({ kind: "failed", retry: "soon" });
  expect(world.kluctl.commands()).toEqual(["diff"]);
});

test.each([
  { change: { suspend: true }, outcome: { kind: "skipped", why: "suspended" }, commands: ["diff"] },
  { change: { manual: true }, outcome: { kind: "done", deployed: false }, commands: ["diff", "diff"] },
])("a spec that changes to $change right before the deploy stops it", async ({ change, outcome, commands }) => {
  const world = aMutation({ by: "deploy" }, { breaksOff: false });
  const { patchStatus, objects } = world.deployments;
  const edit = () => {
    const deployment = objects.get("shop/prod") as Deployment;
    if (deployment.generation > 1) return;
    objects.set("shop/prod", { ...deployment, generation: 2, spec: { ...deployment.spec, ...change } });
  };
  world.replace({
    deployments: {
      patchStatus(ref, patch, signal) {
        if (patch.lastObjectsHash === null) edit();
        return patchStatus(ref, patch, signal);
      },
    },
  });
  expect(await world.reconciled()).toMatchObject(outcome);
  expect(world.kluctl.commands()).toEqual(commands);
  expect(world.seen).toEqual([]);
  expect(world.status()).toMatchObject({ observedGeneration: 2, conditions: [{ type: "Ready", status: "True" }] });
  expect(world.status()?.lastObjectsHash).toBeDefined();
});

test("a deploy whose end could not be written is repeated, whatever is rendered by then", async () => {
  const world = aMutation({ by: "deploy" }, { breaksOff: false });
  const { patchStatus } = world.deployments;
  const full = () => world.seen.length > 0;
  world.replace({
    deployments: {
      patchStatus: (...args) => (full() ? Promise.reject(new ApiError(0, "no answer")) : patchStatus(...args)),
    },
  });
  expect(await world.reconciled()).toMatchObject({ kind: "failed", retry: "soon" });
  world.replace({ deployments: { patchStatus } });
  expect(world.status()?.conditions).toMatchObject([{ status: "Unknown" }, { type: "Reconciling", status: "True" }]);

  const [deploy, diff] = [aResult(), aResult()];
  Object.assign(world.kluctl.answers, { deploy, diff });
  expect(await world.reconciled()).toMatchObject({ kind: "done", deployed: true });
  expect(world.status()).toMatchObject({ lastObjectsHash: "hash-1", conditions: [{ status: "True" }] });
});

test("after an interrupted deploy, a revert to the earlier commit waits for approval and is not ready", async () => {
  const deployed = aSummary({ document: { renderedObjectsHash: "hash-1" } });
  const spec = { manual: true, manualObjectsHash: "hash-2" };
  const { lastObjectsHash: _, ...interrupted } = { ...upToDate, lastDeployResult: deployed };
  const world = aWorld(aDeployment({ spec, status: interrupted }), fakeKluctl());
  await world.comesRound();
  expect(world.kluctl.commands()).toEqual(["diff"]);
  expect(world.status()?.lastObjectsHash).toBeUndefined();
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "False", reason: "DeployFailed" }]);
  expect(world.deployments.events).toMatchObject([{ reason: "WaitingForApproval" }]);

  const compared = { document: { renderedObjectsHash: "hash-1" }, endTime: "2026-01-01T00:00:10Z" };
  const waiting = aDeployment({ spec, status: { ...interrupted, lastDriftDetectionResult: compared } });
  expect(pendingHash(waiting)).toBe("hash-1");
});

test.each([{}, asking("deploy")])(
  "a dry run does not show what an interrupted deploy applied (%j)",
  async (annotations) => {
    const { lastObjectsHash: _, ...interrupted } = upToDate;
    const world = aWorld(aDeployment({ spec: { dryRun: true }, status: interrupted, annotations }), fakeKluctl());
    await world.reconcile({ ...push, cause: "drift" }, world.attempt());
    expect(world.kluctl.commands()).toContain("deploy");
    expect(world.status()?.lastObjectsHash).toBeUndefined();
  },
);
