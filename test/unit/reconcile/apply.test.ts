import { expect, test } from "vitest";
import { PrepareError } from "../../../src/errors.ts";
import { type CommandResult, requestAnnotation, type StatusPatch } from "../../../src/model.ts";
import { type AroundReconcileDeps, skipsWithin } from "../../../src/skipping/around-reconcile.ts";
import { aDeployment, anObject, aResult } from "../../support/deployments.ts";
import { fakeKluctl, fakeSources } from "../../support/fakes.ts";
import { aWorld, push, upToDate } from "../../support/reconciling.ts";

const edited = anObject({ changes: [{ type: "update", jsonPath: "data.a" }] });

/** A push to a deployment whose applied objects are known to be untouched, or not (`why`). */
function pushTo(deploy: CommandResult | Error, why?: string, annotations: Record<string, string> = {}) {
  const asked: string[] = [];
  const skipping: AroundReconcileDeps["skipping"] = {
    during: (_, work) => work(),
    begin: () => Promise.resolve({ at: 0, secrets: "", cluster: "", kluctl: "", heads: new Map() }),
    learn: () => Promise.resolve(),
    whyCompare: (_, commit) => (asked.push(commit), Promise.resolve(why)),
    forget: () => undefined,
    skipJob: () => Promise.resolve("check"),
  };
  const world = aWorld(
    aDeployment({ spec: { validate: true }, status: upToDate, annotations }),
    fakeKluctl({ deploy, diff: aResult({ objectsHash: "hash-2" }) }),
    fakeSources({ "refs/heads/main": "c2" }),
    {},
    [],
    skipsWithin({ skipping, kluctl: () => Promise.resolve("2.22.1"), clock: { now: () => 0 } }),
  );
  const told = () => Object.assign({}, ...world.deployments.patches) as StatusPatch;
  return { ...world, told, whyAsked: asked, reconciled: () => world.reconcile(push, world.attempt()) };
}

test("a push to an untouched deployment is deployed without a comparison", async () => {
  const world = pushTo(aResult({ objectsHash: "hash-2", objects: [edited] }));
  expect(await world.reconciled()).toEqual({ kind: "done", deployed: true, commit: "c2" });
  expect(world.whyAsked).toEqual(["c2"]);
  expect(world.kluctl.commands()).toEqual(["deploy", "validate"]);
  expect(world.told()).toMatchObject({
    observedCommit: "c2",
    lastObjectsHash: "hash-2",
    lastDriftDetectionResultMessage: "no drift",
  });
  expect(world.deployments.events).toMatchObject([{ message: "full-deploy succeeded. 1 changed objects." }]);
  expect(world.audit).toMatchObject([{ action: "deploy", why: "objects-changed", objects: { changed: 1 } }]);
  expect(world.applied).toHaveLength(1);
});

test("a deploy that changed no object counts as a comparison", async () => {
  const world = pushTo(aResult());
  expect(await world.reconciled()).toEqual({ kind: "done", deployed: false, commit: "c2" });
  expect(world.kluctl.commands()).toEqual(["deploy", "validate"]); // it has not been validated before
  expect(world.told()).toMatchObject({ observedCommit: "c2", lastDriftDetectionResultMessage: "no drift" });
  expect(world.told()).not.toHaveProperty("lastDeployResult");
  expect(world.status()?.lastObjectsHash).toBe("hash-1");
  expect(world.deployments.events).toEqual([]);
  expect(world.results.commands).toEqual([]);
  expect(world.applied).toEqual([]);
  // kluctl was told to deploy, so the audit log has a line even without a change.
  expect(world.audit).toMatchObject([{ action: "deploy", objects: { new: 0, changed: 0, deleted: 0, errors: 0 } }]);
});

test.each<[string, Partial<CommandResult>]>([
  ["it put something right", { objects: [edited] }],
  ["it could not apply something", { errors: [{ ref: { kind: "Service", name: "web" }, message: "no" }] }],
])("a deploy of the same objects is reported if %s", async (_, result) => {
  const world = pushTo(aResult(result));
  await world.reconciled();
  expect(world.told()).toHaveProperty("lastDeployResult");
  expect(world.results.commands).toHaveLength(1);
  expect(world.deployments.events).toHaveLength(1);
});

test("a deployment that may have been touched is compared first", async () => {
  const world = pushTo(aResult({ objectsHash: "hash-2", objects: [edited] }), "it has hooks");
  expect(await world.reconciled()).toMatchObject({ deployed: true });
  expect(world.kluctl.commands()).toEqual(["diff", "deploy", "validate"]);
});

test("a commit that cannot be rendered is reported as PrepareFailed, not as a failed deploy", async () => {
  const world = pushTo(new PrepareError("deploy.yml:14: 'replicas' is undefined"));
  expect(await world.reconciled()).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.status()).toMatchObject({
    lastObjectsHash: "hash-1",
    lastPrepareError: "deploy.yml:14: 'replicas' is undefined",
    conditions: [{ type: "Ready", status: "False", reason: "PrepareFailed" }],
  });
  expect(world.audit).toEqual([]);
});

test("a requested reconciliation deploys a new commit in the same way, unless it has overrides", async () => {
  const request = (value: unknown) => ({ [requestAnnotation("reconcile")]: JSON.stringify(value) });
  const changed = aResult({ objectsHash: "hash-2", objects: [edited] });

  const plain = pushTo(changed, undefined, request({ requestValue: "now" }));
  await plain.reconciled();
  expect(plain.kluctl.commands()).toEqual(["deploy", "validate"]);
  expect(plain.told()).toMatchObject({ reconcileRequestResult: { request: { requestValue: "now" } } });

  const overridesPatch = { spec: { args: { replicas: 2 } } };
  const overridden = pushTo(changed, undefined, request({ requestValue: "now", overridesPatch }));
  await overridden.reconciled();
  expect(overridden.whyAsked).toEqual([]);
  expect(overridden.kluctl.commands()).toEqual(["diff", "deploy", "validate"]);
});

test("the commit that is already deployed is compared", async () => {
  const world = pushTo(aResult());
  world.sources.refs["refs/heads/main"] = "c1";
  await world.comesRound();
  expect(world.whyAsked).toEqual([]);
  expect(world.kluctl.commands()[0]).toBe("diff");
});
