import { expect, test } from "vitest";
import { KilledError, PrepareError } from "../../../src/errors.ts";
import { aDeployment, aResult } from "../../support/deployments.ts";
import { fakeKluctl, fakeSources } from "../../support/fakes.ts";
import { aWorld, key, push, upToDate } from "../../support/reconciling.ts";

const moved = () => fakeSources({ "refs/heads/main": "c2" });

test("a change by a push is audited with its sender, commit, target and result", async () => {
  const objects = [
    { ref: { kind: "ConfigMap", name: "a" }, changes: [], new: true, orphan: false, deleted: false, hook: false },
    { ref: { kind: "ConfigMap", name: "b" }, changes: [], new: false, orphan: false, deleted: true, hook: false },
  ];
  const kluctl = fakeKluctl({
    diff: aResult({ objectsHash: "hash-2" }),
    deploy: aResult({
      objectsHash: "hash-2",
      objects,
      document: { target: { name: "prod", discriminator: "shop-prod" }, targetKey: { clusterId: "cluster-1" } },
    }),
  });
  const world = aWorld(aDeployment({ status: upToDate }), kluctl, moved());
  await world.reconcile({ ...push, sender: "jane", delivery: "d-1" }, world.attempt());
  expect(world.audit).toMatchObject([
    {
      action: "deploy",
      why: "objects-changed",
      cause: "push",
      sender: "jane",
      delivery: "d-1",
      deployment: key,
      cluster: "cluster-1",
      target: "prod",
      discriminator: "shop-prod",
      commit: "c2",
      objectsHash: "hash-2",
      dryRun: false,
      result: "ok",
      objects: { new: 1, changed: 0, deleted: 1, errors: 0 },
    },
  ]);
});

test("a deploy that was interrupted may have changed something, and one that could not be rendered has not", async () => {
  const killed = fakeKluctl({
    diff: aResult({ objectsHash: "hash-2" }),
    deploy: new KilledError("timeout", "too long"),
  });
  const broken = aWorld(aDeployment({ status: upToDate }), killed, moved());
  await broken.reconcile(push, broken.attempt());
  expect(broken.audit).toMatchObject([{ result: "interrupted", commit: "c2" }]);
  expect(JSON.stringify(broken.audit)).not.toContain("too long");

  const unprepared = fakeKluctl({ deploy: new PrepareError("no such target") });
  const world = aWorld(aDeployment(), unprepared, moved());
  await world.reconcile(push, world.attempt());
  expect(world.audit).toEqual([]);
});

test("the creation of a resource is the cause, whichever request came first", async () => {
  const world = aWorld(aDeployment({ generation: 1 }), fakeKluctl(), moved());
  await world.reconcile({ ...push, cause: "interval" }, world.attempt());
  expect(world.audit).toMatchObject([{ why: "never-deployed", cause: "change" }]);
});

test("a reconciliation that changes nothing leaves no audit line", async () => {
  const world = aWorld(aDeployment({ status: upToDate }), fakeKluctl(), moved());
  await world.reconcile(push, world.attempt());
  expect(world.audit).toEqual([]);
});

test("objects deleted with their deployment are audited", async () => {
  const world = aWorld(
    aDeployment({
      deletionTimestamp: "2026-01-01T00:00:00Z",
      spec: { delete: true },
      status: { ...upToDate, targetKey: { targetName: "prod", clusterId: "cluster-1", discriminator: "shop-prod" } },
    }),
  );
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  expect(world.audit).toMatchObject([
    { action: "delete", cause: "change", deployment: key, target: "prod", discriminator: "shop-prod", result: "ok" },
  ]);
});

test.each([
  ["http://git.example.com:3000/org/shop.git", "http://git.example.com:3000/org/shop.git"],
  ["https://robot:secret@git.example.com/org/shop", "https://git.example.com/org/shop"],
  ["git@git.example.com:org/shop.git", "git@git.example.com:org/shop.git"],
  ["ssh://git@git.example.com:2222/org/shop", "ssh://git@git.example.com:2222/org/shop"],
])("the line names the repository as the deployment does, without a login: %s", async (url, repo) => {
  const kluctl = fakeKluctl({ diff: aResult({ objectsHash: "hash-2" }), deploy: aResult({ objectsHash: "hash-2" }) });
  const world = aWorld(
    aDeployment({ status: upToDate, spec: { source: { url, ref: { branch: "main" }, path: "" } } }),
    kluctl,
    moved(),
  );
  await world.reconcile(push, world.attempt());
  expect(world.audit).toMatchObject([{ repo, ref: "main", commit: "c2" }]);
});
