import { expect, test } from "vitest";
import { KilledError, PrepareError } from "../../../src/errors.ts";
import {
  type Condition,
  type ManualKind,
  manualKinds,
  type ManualResult,
  manualResultField,
  requestAnnotation,
} from "../../../src/model.ts";
import { aDeployment, anObject, aResult } from "../../support/deployments.ts";
import { fakeKluctl, fakeSources } from "../../support/fakes.ts";
import { aWorld, push, upToDate } from "../../support/reconciling.ts";

const manual = { ...push, cause: "manual" } as const;
const now = "2026-01-01T00:00:10Z";
const before = { startTime: "2026-01-01T00:00:00Z", reconcileId: "before" };

/** The annotations of these requests, as the command line writes them. */
function asking(kinds: readonly ManualKind[], overridesPatch?: object): Record<string, string> {
  const ask = (kind: ManualKind) => JSON.stringify({ requestValue: `${kind}-1`, overridesPatch });
  return Object.fromEntries(kinds.map((kind) => [requestAnnotation(kind), ask(kind)]));
}

function answerOf(world: ReturnType<typeof aWorld>, kind: ManualKind): ManualResult | undefined {
  return world.status()?.[manualResultField(kind)];
}

function readyOf(world: ReturnType<typeof aWorld>): Partial<Condition> | undefined {
  return world.status()?.conditions.find(({ type }) => type === "Ready");
}

/** All values that `Ready` has had. */
function allReady(world: ReturnType<typeof aWorld>): readonly string[] {
  return world.deployments.patches.flatMap(({ conditions }) =>
    ((conditions ?? []) as Condition[]).flatMap(({ type, status }) => (type === "Ready" ? [status] : [])),
  );
}

const anError = { ref: { kind: "ConfigMap", name: "settings" }, message: "no" };

test("all requests are carried out in kluctl's order, one by one, and the reconciliation follows", async () => {
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(manualKinds) }));
  await world.reconcile(manual, world.attempt());
  expect(world.kluctl.commands()).toEqual(["diff", "deploy", "prune", "validate", "diff"]);
  for (const kind of manualKinds) {
    expect(answerOf(world, kind), kind).toMatchObject({ request: { requestValue: `${kind}-1` }, endTime: now });
    expect(answerOf(world, kind), kind).not.toHaveProperty("commandError");
  }
  expect(world.deployments.objects.get("shop/prod")?.annotations).toEqual({});
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "True" }]);
});

test("a request is in the status before its annotation is removed, and its result is stored before its end is reported", async () => {
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["deploy"]) }));
  const seen: unknown[] = [];
  const { removeAnnotation } = world.deployments;
  const { storeCommand } = world.results;
  world.replace({
    deployments: {
      removeAnnotation(...args) {
        seen.push(answerOf(world, "deploy"));
        return removeAnnotation(...args);
      },
    },
    results: {
      storeCommand(...args) {
        seen.push(answerOf(world, "deploy"));
        return storeCommand(...args);
      },
    },
  });
  await world.reconcile(manual, world.attempt());
  const begun = { request: { requestValue: "deploy-1" }, startTime: now, reconcileId: "id-1" };
  expect(seen).toEqual([begun, begun]);
  expect(world.results.commands).toMatchObject([{ id: answerOf(world, "deploy")?.resultId, reconcileId: "id-1" }]);
});

test("a diff with overrides shows what they would change, and the deployment stays ready", async () => {
  const overridesPatch = { spec: { args: { color: "pink" } } };
  const annotations = asking(["diff"], overridesPatch);
  const { document } = aResult();
  const diff = aResult({ document: { ...document, command: { ...(document["command"] as object), dryRun: true } } });
  const world = aWorld(aDeployment({ status: upToDate, annotations }), fakeKluctl({ diff }));
  await world.reconcile(manual, world.attempt());
  expect(world.kluctl.runs.map(({ run }) => run.args)).toEqual([{ color: "pink" }, undefined]);
  expect(world.results.commands).toMatchObject([{ overridesPatch }]);
  expect(world.results.commands[0]?.["command"]).not.toHaveProperty("dryRun"); // although the diff was a dry run
  expect(world.deployments.patches.some((patch) => "lastDiffResult" in patch)).toBe(true);
  expect(new Set(allReady(world))).toEqual(new Set(["True"]));
});

test.each([
  ["fails", new PrepareError("no variable color")],
  ["was killed", new KilledError("timeout", "it took longer than 30 s")],
])("a diff that %s is reported to the requester, and the deployment stays ready", async (_, diff) => {
  const status = { ...upToDate };
  const world = aWorld(
    aDeployment({ spec: { suspend: true }, status, annotations: asking(["diff"]) }),
    fakeKluctl({ diff }),
  );
  await world.reconcile(manual, world.attempt());
  expect(answerOf(world, "diff")).toMatchObject({ endTime: now, commandError: diff.message });
  expect(answerOf(world, "diff")).not.toHaveProperty("resultId");
  expect(new Set(allReady(world))).toEqual(new Set(["True"]));
  expect(world.status()?.lastPrepareError).toBeUndefined();
});

test("a requested deploy runs without approval and while suspended, and nothing else does", async () => {
  const changed = aResult({ objectsHash: "hash-2", objects: [anObject({ new: true })] });
  const spec = { suspend: true, manual: true };
  const world = aWorld(
    aDeployment({ spec, status: upToDate, generation: 2, annotations: asking(["deploy"]) }),
    fakeKluctl({ deploy: changed }),
    fakeSources({ "refs/heads/main": "c2" }),
  );
  await world.reconcile(manual, world.attempt());
  expect(world.kluctl.commands()).toEqual(["deploy"]);
  expect(world.status()).toMatchObject({ observedCommit: "c2", observedGeneration: 2, lastObjectsHash: "hash-2" });
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "True" }]);
  expect(world.deployments.patches.some((patch) => "targetKey" in patch)).toBe(false);
  expect(world.deployments.events).toMatchObject([{ type: "Normal", message: "deploy succeeded. 1 new objects." }]);
});

test("a revert right after a requested deploy is deployed", async () => {
  const changed = aResult({ objectsHash: "hash-2", objects: [anObject({ new: true })] });
  const kluctl = fakeKluctl({ diff: aResult(), deploy: changed });
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["deploy"]) }), kluctl);
  await world.reconcile(manual, world.attempt());
  expect(kluctl.commands()).toEqual(["deploy", "diff", "deploy"]); // git is back at the commit that renders to hash-1
});

test("the reconciliation after a requested deploy compares and finds nothing to deploy", async () => {
  const changed = aResult({ objectsHash: "hash-2" });
  const kluctl = fakeKluctl({ diff: changed, deploy: changed });
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["deploy"]) }), kluctl);
  await world.reconcile(manual, world.attempt());
  expect(kluctl.commands()).toEqual(["deploy", "diff"]);
});

test("errors are reported to the requester, with the result", async () => {
  const world = aWorld(
    aDeployment({ status: upToDate, annotations: asking(["deploy"]) }),
    fakeKluctl({ deploy: aResult({ errors: [anError] }) }),
  );
  await world.reconcile(manual, world.attempt());
  expect(answerOf(world, "deploy")).toMatchObject({
    commandError: "deploy failed with 1 errors.",
    resultId: expect.any(String) as string,
  });
});

test("a result that cannot be stored has no id", async () => {
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["deploy"]) }));
  world.replace({ results: { storeCommand: () => Promise.resolve(false) } });
  await world.reconcile(manual, world.attempt());
  expect(answerOf(world, "deploy")).toMatchObject({ endTime: now });
  expect(answerOf(world, "deploy")).not.toHaveProperty("resultId");
});

test("a prepare error makes the deployment unready only if the deployment itself causes it", async () => {
  const kluctl = () => fakeKluctl({ deploy: new PrepareError("no variable color") });
  const suspended = { spec: { suspend: true }, status: upToDate };
  const own = aWorld(aDeployment({ ...suspended, annotations: asking(["deploy"]) }), kluctl());
  await own.reconcile(manual, own.attempt());
  expect(readyOf(own)).toMatchObject({ status: "False", reason: "PrepareFailed" });
  expect(own.status()?.lastPrepareError).toBe("no variable color");

  const annotations = asking(["deploy"], { spec: { args: {} } });
  const theirs = aWorld(aDeployment({ ...suspended, annotations }), kluctl());
  await theirs.reconcile(manual, theirs.attempt());
  expect(answerOf(theirs, "deploy")).toMatchObject({ commandError: "no variable color" });
  expect(readyOf(theirs)).toMatchObject({ status: "True" });
  expect(theirs.status()?.lastPrepareError).toBeUndefined();
});

test.each(manualKinds)("a %s with forbidden overrides is refused, and the reconciliation continues", async (kind) => {
  const annotations = asking([kind], { metadata: { name: "other" } });
  const world = aWorld(aDeployment({ status: upToDate, annotations }));
  await world.reconcile(manual, world.attempt());
  expect(answerOf(world, kind)).toMatchObject({ endTime: now, commandError: "not the spec" });
  expect(world.kluctl.commands()).toEqual(["diff"]); // the reconciliation's
  expect(readyOf(world)).toMatchObject({ status: "True" });
});

test("a reconcile request with overrides reconciles the overridden deployment", async () => {
  const annotations = asking(["reconcile"], { spec: { dryRun: true } });
  const kluctl = fakeKluctl({ diff: aResult({ objectsHash: "hash-2" }), deploy: aResult({ errors: [anError] }) });
  const world = aWorld(aDeployment({ status: upToDate, annotations }), kluctl);
  await world.reconcile(manual, world.attempt());
  expect(world.kluctl.commands()).toEqual(["diff", "deploy"]);
  expect(world.results.commands).toMatchObject([{ overridesPatch: { spec: { dryRun: true } } }]);
  expect(answerOf(world, "reconcile")).toMatchObject({ commandError: "deploy failed with 1 errors." });
});

test.each([false, true])(
  "requests that a crashed server left are answered by the next one (suspended: %s)",
  async (suspend) => {
    const left = (kind: ManualKind) => ({ [manualResultField(kind)]: { request: { requestValue: kind }, ...before } });
    const status = { ...upToDate, ...(Object.assign({}, ...manualKinds.map(left)) as object) };
    const world = aWorld(aDeployment({ spec: { suspend }, status }));
    await world.reconcile(manual, world.attempt());
    expect(world.kluctl.commands()).toEqual(["diff", "validate", "diff"]); // the last is the reconciliation's
    for (const kind of manualKinds) expect(answerOf(world, kind)).toMatchObject({ endTime: now });
    for (const kind of ["deploy", "prune"] as const)
      expect(answerOf(world, kind)?.commandError).toMatch(`the server that ran this ${kind} ended`);
  },
);

test("an aborted request is left for the next worker", async () => {
  const stopping = new AbortController();
  const kluctl = fakeKluctl();
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["deploy"]) }), {
    ...kluctl,
    deploy() {
      stopping.abort();
      return Promise.reject(new KilledError("stopped", "stopped"));
    },
  });
  expect(await world.reconcile(manual, world.attempt({ signal: stopping.signal }))).toMatchObject({ kind: "failed" });
  expect(answerOf(world, "deploy")).not.toHaveProperty("endTime");
  expect(readyOf(world)).not.toMatchObject({ status: "False" });
});

test("requests for a malformed resource are answered with its problem", async () => {
  const { spec: _spec, repo: _repo, ...identity } = aDeployment({ annotations: asking(manualKinds) });
  const world = aWorld({ ...identity, problem: "spec.interval: missing" });
  await world.reconcile(manual, world.attempt());
  for (const kind of manualKinds)
    expect(answerOf(world, kind)).toMatchObject({ endTime: now, commandError: "spec.interval: missing" });
  expect(world.deployments.objects.get("shop/prod")?.annotations).toEqual({});
});

test("a request that was already answered causes no reconciliation", async () => {
  const world = aWorld(aDeployment({ status: upToDate }));
  expect(await world.reconcile(manual, world.attempt())).toMatchObject({ kind: "skipped" });
  expect(world.kluctl.runs).toEqual([]);
});

test("a prune deletes objects that are no longer in the project, and reports those that it could not delete", async () => {
  const orphan = (name: string) =>
    anObject({
      ref: { kind: "ConfigMap", name },
      orphan: true,
      remote: JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "shop", uid: name } }),
    });
  const found = aResult({ objects: [anObject(), orphan("old"), orphan("kept")] });
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["prune"]) }), fakeKluctl({ prune: found }));
  world.objects.refused.set("kept", "may not delete it");
  await world.reconcile(manual, world.attempt());
  expect(world.objects.deleted).toEqual(["old"]);
  expect(answerOf(world, "prune")).toMatchObject({ commandError: "prune failed with 1 errors." });
  expect(world.deployments.events[0]).toMatchObject({
    type: "Warning",
    reason: "PruneFailed",
    message: expect.stringContaining("ConfigMap/kept: may not delete it") as string,
  });
});

test("a prune deletes nothing while another deployment has the same discriminator", async () => {
  const targetKey = { clusterId: "cluster-1", discriminator: "shop-prod" };
  const other = aDeployment({
    key: { namespace: "shop", name: "copy" },
    uid: "copy",
    status: { ...upToDate, targetKey },
  });
  const remote = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "old", uid: "old" } });
  const found = aResult({ objects: [anObject({ orphan: true, remote })] });
  const world = aWorld(aDeployment({ status: upToDate, annotations: asking(["prune"]) }), fakeKluctl({ prune: found }));
  world.deployments.objects.set("shop/copy", other);
  await world.reconcile(manual, world.attempt());
  expect(world.objects.deleted).toEqual([]);
  expect(answerOf(world, "prune")).toMatchObject({ commandError: "prune failed with 1 errors." });
});
