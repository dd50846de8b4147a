import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ApiError, KilledError, PrepareError, RemoteBusyError, SourceError } from "../../../src/errors.ts";
import {
  annotation,
  type Cause,
  type CommandResult,
  type Deployment,
  type DeploymentSpec,
  finalizer,
  requestAnnotation,
  type StatusPatch,
} from "../../../src/model.ts";
import { monotonicNow } from "../../../src/kit/monotonic.ts";
import { aDeployment, anObject, aResult } from "../../support/deployments.ts";
import { fakeKluctl, fakeSources } from "../../support/fakes.ts";
import { aWorld, key, push, ready, upToDate } from "../../support/reconciling.ts";

test("a push that changes the rendered objects is compared, deployed and recorded", async () => {
  const changed = aResult({
    objectsHash: "hash-2",
    objects: [anObject({ changes: [{ type: "update", jsonPath: "data.a" }] })],
  });
  const world = aWorld(
    aDeployment({ status: upToDate }),
    fakeKluctl({ diff: changed, deploy: changed }),
    fakeSources({ "refs/heads/main": "c2" }),
  );

  expect(await world.reconcile(push, world.attempt())).toEqual({ kind: "done", deployed: true, commit: "c2" });

  expect(world.kluctl.commands()).toEqual(["diff", "deploy"]);
  expect(world.status()).toMatchObject({ observedCommit: "c2", lastObjectsHash: "hash-2" });
  expect(world.status()?.conditions).toMatchObject([
    { type: "Ready", status: "True", message: "deploy succeeded. 1 changed objects." },
  ]);
  expect(world.results.commands).toMatchObject([{ command: { initiator: "KluctlDeployment" }, kluctlDeployment: key }]);
  expect(world.deployments.events).toMatchObject([
    { type: "Normal", message: "full-deploy succeeded. 1 changed objects." },
  ]);
  expect(world.applied).toHaveLength(1);
  expect(world.live).toEqual(world.applied);
  expect(world.sources.released).toEqual(["c2"]);
  expect(world.leases.held.size).toBe(0);
});

test("a push that renders the same objects is not deployed", async () => {
  const world = aWorld(aDeployment({ status: upToDate }), fakeKluctl(), fakeSources({ "refs/heads/main": "c2" }));
  expect(await world.reconcile(push, world.attempt())).toEqual({ kind: "done", deployed: false, commit: "c2" });
  expect(world.kluctl.commands()).toEqual(["diff"]);
  expect(world.results.commands).toEqual([]);
  expect([world.applied.length, world.live.length]).toEqual([0, 1]);
});

test("git gets the previous commit as a minimum, unless a changed spec may want an older one", async () => {
  const sources = fakeSources({ "refs/heads/main": "c2" });
  const world = aWorld(aDeployment({ status: upToDate }), fakeKluctl(), sources);
  await world.reconcile(push, world.attempt());
  expect(sources.seen).toEqual(["c1"]);
  const changed = aWorld(aDeployment({ generation: 2, status: upToDate }), fakeKluctl(), sources);
  await changed.reconcile(push, changed.attempt());
  expect(sources.seen).toEqual(["c1", undefined]);
});

test("a repeated delivery causes no work", async () => {
  const world = aWorld(aDeployment({ status: upToDate }));
  expect(await world.reconcile(push, world.attempt())).toEqual({ kind: "skipped", why: "already at c1" });
  expect(world.kluctl.runs).toEqual([]);
});

test("an interval requested right after the end of another reconciliation causes no work", async () => {
  const world = aWorld(aDeployment({ status: upToDate }), fakeKluctl(), fakeSources({ "refs/heads/main": "c2" }));
  await world.reconcile(push, world.attempt());
  const late = { ...push, cause: "interval" } as const;
  expect(await world.reconcile(late, world.attempt())).toEqual({ kind: "skipped", why: "no longer due" });
  expect(world.kluctl.commands()).toEqual(["diff"]);

  expect(await world.comesRound()).toMatchObject({ kind: "done" });
  expect(world.kluctl.commands()).toEqual(["diff", "diff"]);
});

test("an interval check writes the status once, and records its start only if it takes long", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kluctl = fakeKluctl();
  const slow = Promise.withResolvers<void>();
  const world = aWorld(aDeployment({ spec: { validate: false }, status: upToDate }), {
    ...kluctl,
    diff: (...asked) => slow.promise.then(() => kluctl.diff(...asked)),
  });
  const isTold = ({ conditions }: StatusPatch) => JSON.stringify(conditions).includes("Initializing");
  const looking = world.comesRound();
  await vi.advanceTimersByTimeAsync(900);
  expect(world.deployments.patches).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(world.deployments.patches.map(isTold)).toEqual([true]);
  slow.resolve();
  expect(await looking).toMatchObject({ kind: "done" });
  expect(world.deployments.patches.map(isTold)).toEqual([true, false]);

  expect(await world.comesRound()).toMatchObject({ kind: "done" });
  await vi.advanceTimersByTimeAsync(5_000);
  expect(world.deployments.patches.map(isTold)).toEqual([true, false, false]);
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "True" }]);
});

test("an interval check that fails records its start, so that its end is visible", async () => {
  const kluctl = fakeKluctl();
  const failing = { ...kluctl, diff: () => Promise.reject(new PrepareError("no such target")) };
  const world = aWorld(aDeployment({ spec: { validate: false }, status: upToDate }), failing);
  for (let look = 1; look <= 2; look++) {
    world.deployments.patches.length = 0;
    expect(await world.comesRound()).toMatchObject({ kind: "failed" });
    const conditions = world.deployments.patches.map((patch) => patch.conditions);
    expect(conditions).toMatchObject([
      [{ type: "Ready" }, { type: "Reconciling", status: "True" }],
      [{ type: "Ready", status: "False" }],
    ]);
  }
});

test("a resource is read again once the Lease is held, unless no other server can have changed it", async () => {
  const world = aWorld(aDeployment({ status: upToDate }));
  const { get } = world.deployments;
  let reads = 0;
  world.replace({ deployments: { get: (key) => (reads++, get(key)) } });
  await world.comesRound();
  expect(reads).toBe(2);
  world.leases.untouchedSince = monotonicNow();
  await world.comesRound();
  expect(reads).toBe(3);
  world.leases.untouchedSince = monotonicNow() + 3_600_000; // later than the read
  await world.comesRound();
  expect(reads).toBe(5);
});

test("a new deployment is deployed without a comparison", async () => {
  const world = aWorld(aDeployment());
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  expect(world.kluctl.commands()).toEqual(["deploy"]);
});

test("a deployment gets its finalizer before anything is deployed", async () => {
  const world = aWorld(aDeployment({ finalizers: [] }));
  await world.reconcile(push, world.attempt());
  expect(world.deployments.objects.get("shop/prod")?.finalizers).toEqual(["finalizers.gitops.kluctl.io"]);
});

test("with manual approval changes wait, and the status names the hash to approve", async () => {
  const spec = { manual: true };
  const world = aWorld(
    aDeployment({ spec, status: upToDate }),
    fakeKluctl({ diff: aResult({ objectsHash: "hash-2" }) }),
    fakeSources({ "refs/heads/main": "c2" }),
  );
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "done", deployed: false });
  expect(world.deployments.events).toMatchObject([{ type: "Normal", reason: "WaitingForApproval" }]);
  expect(world.deployments.events[0]?.message).toContain("hash-2");
});

test("a project that cannot be rendered fails permanently, with kluctl's error", async () => {
  const broken = new PrepareError("deploy.yml:14: 'replicas' is undefined");
  const world = aWorld(
    aDeployment({ status: upToDate }),
    fakeKluctl({ diff: broken }),
    fakeSources({ "refs/heads/main": "c2" }),
  );
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.status()).toMatchObject({
    lastPrepareError: broken.message,
    observedCommit: "c2",
    observedGeneration: 1,
  });
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "False", reason: "PrepareFailed" }]);
  expect(world.sources.released).toEqual(["c2"]);
});

test("a new project that cannot be rendered is reported as PrepareFailed, not as a failed deploy", async () => {
  const world = aWorld(aDeployment(), fakeKluctl({ deploy: new PrepareError("target prod not found") }));
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "False", reason: "PrepareFailed" }]);
  expect(world.status()?.lastPrepareError).toBe("target prod not found");
});

test("after an interrupted deploy everything is applied again, even if nothing renders differently", async () => {
  const spec = { prune: true };
  const timeout = new KilledError("timeout", "kluctl deploy was ended because it took longer than 30 s");
  const answers = { deploy: timeout as Error | undefined };
  const world = aWorld(aDeployment({ spec, status: upToDate, generation: 2 }), {
    ...fakeKluctl(),
    deploy: () => (answers.deploy ? Promise.reject(answers.deploy) : Promise.resolve(aResult())),
  });
  expect(await world.reconcile({ ...push, cause: "change" }, world.attempt())).toMatchObject({ kind: "failed" });
  expect(world.status()?.conditions).toMatchObject([
    { status: "False", reason: "DeployFailed", message: timeout.message },
  ]);

  answers.deploy = undefined;
  expect(await world.comesRound()).toMatchObject({ deployed: true });
  expect(world.status()).toMatchObject({ lastObjectsHash: "hash-1", observedGeneration: 2 });
});

test("a missing branch changes nothing in the cluster", async () => {
  const sources = fakeSources();
  sources.failing.error = new SourceError("ref-not-found", "branch main does not exist");
  const world = aWorld(aDeployment({ spec: { prune: true }, status: upToDate }), fakeKluctl(), sources);
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "soon" });
  expect(world.kluctl.runs).toEqual([]);
  expect(world.status()?.lastPrepareError).toBe("branch main does not exist");
});

test("a deploy with errors is a failed deploy, and its retry deploys again", async () => {
  const errors = [{ ref: { kind: "Deployment", name: "web" }, message: "connection refused" }];
  const failing = fakeKluctl({ deploy: aResult({ errors }) });
  const world = aWorld(aDeployment(), failing);
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "soon" });
  expect(world.status()?.conditions).toMatchObject([{ status: "False", reason: "DeployFailed" }]);
  expect(world.deployments.events[0]?.message).toContain("Deployment/web: connection refused");
  await world.reconcile(push, world.attempt({ attempt: 2 }));
  expect(failing.commands()).toEqual(["deploy", "deploy"]);
  expect(world.live).toEqual([]);
});

test("a failed change is retried when its job returns, whatever its remaining attempts", async () => {
  const world = aWorld(aDeployment(), fakeKluctl({ deploy: new KilledError("signal", "kluctl deploy was killed") }));
  const change = { ...push, cause: "change" } as const;
  await world.reconcile(change, world.attempt());
  await world.reconcile(change, world.attempt());
  expect(world.kluctl.commands()).toEqual(["deploy", "deploy"]);
});

test("permanent errors are not retried until a user acts", async () => {
  const errors = [{ ref: { kind: "Service", name: "web" }, message: "spec.clusterIP: field is immutable" }];
  const world = aWorld(aDeployment(), fakeKluctl({ deploy: aResult({ errors }) }));
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "person" });
});

test("a worker that lost the Lease writes nothing more", async () => {
  const killed = new KilledError("lease-lost", "the lease was lost");
  const kluctl = fakeKluctl();
  const world = aWorld(aDeployment(), { ...kluctl, deploy: () => (world.leases.lose(), Promise.reject(killed)) });
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "soon" });
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready" }, { type: "Reconciling" }]);
  expect(world.deployments.events).toEqual([]);
});

test("a deployment that another worker reconciles is busy", async () => {
  const world = aWorld(aDeployment());
  world.leases.held.add("shop/prod");
  expect(await world.reconcile(push, world.attempt())).toBe("busy");
});

test("a suspended deployment is not reconciled, but its generation is observed", async () => {
  const world = aWorld(aDeployment({ spec: { suspend: true }, status: upToDate, generation: 2 }));
  expect(await world.reconcile({ ...push, cause: "change" }, world.attempt())).toMatchObject({
    kind: "skipped",
    why: "suspended",
  });
  expect(world.status()?.observedGeneration).toBe(2);
  expect(world.kluctl.runs).toEqual([]);
});

test("a malformed resource reports its problem, once", async () => {
  const { spec: _spec, repo: _repo, ...identity } = aDeployment();
  const world = aWorld({ ...identity, problem: "spec.interval: missing" });
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "person" });
  await world.reconcile(push, world.attempt());
  expect(world.deployments.events).toMatchObject([{ type: "Warning", message: "spec.interval: missing" }]);
});

test("a request that cannot even be recorded as failed is kept: nothing else would repeat it", async () => {
  const world = aWorld(aDeployment({ status: upToDate }));
  world.replace({ deployments: { patchStatus: () => Promise.reject(new ApiError(403, "denied by a webhook")) } });
  const include = { ...push, cause: "include" } as const;
  expect(await world.reconcile(include, world.attempt({ attempt: 4 }))).toMatchObject({
    kind: "failed",
    retry: "soon",
  });
  expect(await world.reconcile(include, world.attempt({ attempt: 5, lastAttempt: true }))).toMatchObject({
    kind: "later",
    afterMs: 60_000,
    afresh: true,
  });
});

test("a spec that keeps changing right before each deploy is left alone for a while", async () => {
  const world = aWorld(aDeployment());
  const { patchStatus } = world.deployments;
  let generation = 1;
  world.replace({
    deployments: {
      async patchStatus(ref, patch, signal) {
        await patchStatus(ref, patch, signal);
        if ("lastObjectsHash" in patch) generation = Math.min(generation + 1, 50);
        const deployment = world.deployments.objects.get("shop/prod") as Deployment;
        world.deployments.objects.set("shop/prod", { ...deployment, generation });
        return generation;
      },
    },
  });
  expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "later", afterMs: 10_000 });
  expect(world.kluctl.commands()).not.toContain("deploy");
  expect(world.leases.held.size).toBe(0);
});

test("an interrupted reconciliation of a malformed resource is marked as ended", async () => {
  const problem = "spec.interval: missing";
  const conditions = [{ ...ready, status: "False" } as const, { ...ready, type: "Reconciling" }];
  const { spec: _spec, repo: _repo, ...identity } = aDeployment({ status: { lastPrepareError: problem, conditions } });
  const world = aWorld({ ...identity, problem });
  await world.reconcile(push, world.attempt());
  expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "False" }]);
});

test("a deleted deployment deletes its objects only if spec.delete is set", async () => {
  const status = { ...upToDate, targetKey: { clusterId: "cluster-1", targetName: "prod", discriminator: "shop-prod" } };
  const deleted = { status, deletionTimestamp: "2026-01-01T00:00:00Z" };
  const keeps = aWorld(aDeployment(deleted));
  await keeps.reconcile({ ...push, cause: "change" }, keeps.attempt());
  expect(keeps.kluctl.commands()).toEqual([]);
  expect(keeps.deployments.objects.get("shop/prod")?.finalizers).toEqual([]);

  const deletes = aWorld(aDeployment({ ...deleted, spec: { delete: true } }));
  await deletes.reconcile({ ...push, cause: "change" }, deletes.attempt());
  expect(deletes.kluctl.commands()).toEqual(["delete"]);
  expect(deletes.deployments.objects.get("shop/prod")?.finalizers).toEqual([]);
});

test("objects that may remain after a deletion are reported", async () => {
  const status = { ...upToDate, targetKey: { clusterId: "cluster-1", discriminator: "shop-prod" } };
  const deployment = aDeployment({ status, spec: { delete: true }, deletionTimestamp: "2026-01-01T00:00:00Z" });
  const warnings = [{ ref: { kind: "", name: "" }, message: "at least one permission error was encountered" }];
  const world = aWorld(deployment, fakeKluctl({ delete: aResult({ warnings }) }));
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  expect(world.deployments.objects.get("shop/prod")?.finalizers).toEqual([]);
  expect(world.deployments.events).toMatchObject([
    { type: "Warning", reason: "DeleteFailed", message: expect.stringContaining("permission error") as unknown },
  ]);
});

describe("two copies of a deployment that are deployed for the first time at the same moment", () => {
  const targetKey = { clusterId: "cluster-1", targetName: "prod", discriminator: "shop-prod" };
  const copy = (seconds: number, status = {}) =>
    aDeployment({
      key: { namespace: "shop", name: "copy" },
      uid: "uid-copy",
      creationTimestamp: `2026-01-01T00:00:0${seconds}Z`,
      status,
    });
  const ours = aDeployment({ creationTimestamp: "2026-01-01T00:00:05Z" });
  const worldWith = (other: Deployment) => aWorld(ours, fakeKluctl(), fakeSources(), undefined, [other]);

  test("a deployment claims its discriminator before it is deployed", async () => {
    const world = worldWith(copy(0));
    expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "done", deployed: true });
    expect(world.kluctl.commands()).toEqual(["diff", "deploy"]);
    const claimed = world.deployments.patches.findIndex((patch) => patch.targetKey !== undefined);
    expect(world.deployments.patches[claimed]).toMatchObject({ targetKey });
    expect(world.deployments.patches.slice(0, claimed + 1)).not.toContainEqual(
      expect.objectContaining({ lastDeployResult: expect.anything() as unknown }),
    );
  });

  test.each([
    { which: "younger", created: 0, retry: "person" },
    { which: "older", created: 9, retry: "soon" },
  ])("the $which one withdraws if it sees the claim of the other", async ({ created, retry }) => {
    const world = worldWith(copy(created));
    const { patchStatus } = world.deployments;
    world.replace({
      deployments: {
        async patchStatus(ref, patch, signal) {
          if ("targetKey" in patch) world.deployments.objects.set("shop/copy", copy(created, { targetKey }));
          return patchStatus(ref, patch, signal);
        },
      },
    });
    expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry });
    expect(world.kluctl.commands()).toEqual(["diff"]);
    expect(world.status()).toMatchObject({ lastObjectsHash: "hash-1", conditions: [{ status: "False" }] });
  });

  test("a deployment that an earlier version has refused claims it as well", async () => {
    const message = "not deployed: shop/first is older";
    const refused = { ...ready, status: "False", reason: "DeployFailed", message } as const;
    const status = { targetKey, conditions: [refused] };
    const world = aWorld({ ...ours, status }, fakeKluctl(), fakeSources(), undefined, [copy(0, status)]);
    expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "done", deployed: true });
  });

  test.each([
    { why: "may have been written, and was not confirmed" },
    { why: "the watch does not show", passesMs: 11_000 },
  ])("a claim that $why is withdrawn: nothing was applied", async ({ passesMs }) => {
    const world = worldWith(copy(0));
    const { all, patchStatus } = world.deployments;
    const claims: unknown[] = [];
    const atFirst = all();
    const now = vi.spyOn(performance, "now");
    onTestFinished(() => now.mockRestore());
    world.replace({
      deployments: {
        all: () => (passesMs ? atFirst : all()),
        async patchStatus(ref, patch, signal) {
          if (claims.length > 0 || !patch.targetKey) return patchStatus(ref, patch, signal);
          claims.push(patch.targetKey);
          await patchStatus(ref, patch, signal);
          if (passesMs === undefined) throw new ApiError(0, "no response");
          let passed = 0;
          now.mockImplementation(() => (passed += passesMs));
          return 1;
        },
      },
    });
    expect(await world.reconcile(push, world.attempt())).toMatchObject({ kind: "failed", retry: "soon" });
    expect(world.kluctl.commands()).toEqual(["diff"]);
    expect(claims).toEqual([targetKey]);
    expect(world.status()?.targetKey).toBeUndefined();
    expect(world.status()?.conditions).toMatchObject([{ type: "Ready", status: "False" }]);
  });

  test("what the first deploy of one is about to create is neither pruned nor deleted by the other", async () => {
    const status = { ...upToDate, targetKey };
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    const deleted = aDeployment({ status, spec: { delete: true }, deletionTimestamp });
    const world = aWorld(deleted, fakeKluctl(), fakeSources(), undefined, [copy(0, { targetKey })]);
    await world.reconcile({ ...push, cause: "change" }, world.attempt());
    expect(world.kluctl.commands()).toEqual([]);
    expect(world.deployments.events).toMatchObject([{ reason: "SharedDiscriminator" }]);
  });
});

const minute = 60_000;

test.each<{ what: string; answer: CommandResult | Error; retry: string; forMs: number }>([
  { what: "kluctl is killed", answer: new KilledError("signal", "killed"), retry: "soon", forMs: 60 * minute },
  { what: "the cluster is down", answer: failing("connection refused"), retry: "soon", forMs: 60 * minute },
  { what: "a permission is missing", answer: failing("forbidden"), retry: "person", forMs: 5 * minute },
  { what: "a login is gone", answer: new PrepareError("no such Secret"), retry: "person", forMs: 5 * minute },
])("a deletion is repeated while $what, and the finalizer never blocks forever", async ({ answer, retry, forMs }) => {
  const status = { ...upToDate, targetKey: { clusterId: "cluster-1", discriminator: "shop-prod" } };
  const deployment = aDeployment({ status, spec: { delete: true }, deletionTimestamp: "2026-01-01T00:00:00Z" });
  const world = aWorld(deployment, fakeKluctl({ delete: answer }));
  const finalizers = () => world.deployments.objects.get("shop/prod")?.finalizers;
  const tried = () => world.reconcile({ ...push, cause: "change" }, world.attempt({ attempt: 5, lastAttempt: true }));
  for (const passed of [10_000, forMs - 1]) {
    world.time.now = Date.parse("2026-01-01T00:00:00Z") + passed;
    expect(await tried()).toMatchObject({ kind: "failed", retry });
    expect(finalizers()).toEqual([finalizer]);
  }
  expect(world.deployments.events.at(-1)).toMatchObject({ type: "Warning", reason: "DeleteFailed" });
  world.time.now = Date.parse("2026-01-01T00:00:00Z") + forMs;
  await tried();
  expect(finalizers()).toEqual([]);
});

test("a deletion that succeeds after failures removes the finalizer at once", async () => {
  const status = { ...upToDate, targetKey: { clusterId: "cluster-1", discriminator: "shop-prod" } };
  const deployment = aDeployment({ status, spec: { delete: true }, deletionTimestamp: "2026-01-01T00:00:00Z" });
  const world = aWorld(deployment, fakeKluctl({ delete: failing("connection refused") }));
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  delete world.kluctl.answers.delete;
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  expect(world.deployments.objects.get("shop/prod")?.finalizers).toEqual([]);
});

function failing(message: string): CommandResult {
  return aResult({ errors: [{ ref: { kind: "", name: "" }, message }] });
}

function orphanOf(name: string) {
  const ref = { version: "v1", kind: "ConfigMap", name, namespace: "shop" };
  const remote = JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { ...ref, uid: `uid-${name}` } });
  return anObject({ ref, orphan: true, remote });
}

test("objects that git no longer has are pruned after a deploy without errors, and a failed prune is an error", async () => {
  const deploy = aResult({
    objectsHash: "hash-2",
    objects: [orphanOf("one"), orphanOf("two"), anObject({ rendered: "{}" })],
  });
  const world = aWorld(aDeployment({ spec: { prune: true } }), fakeKluctl({ deploy }));
  world.objects.refused.set("two", "forbidden");
  expect(await world.reconcile({ ...push, cause: "change" }, world.attempt())).toMatchObject({ kind: "failed" });
  expect(world.objects.deleted).toEqual(["one"]);
  expect(world.status()?.conditions).toMatchObject([
    {
      status: "False",
      message:
        "deploy failed with 1 errors. 1 deleted objects. 1 orphan objects. First error: ConfigMap shop/two: forbidden",
    },
  ]);

  const errors = [{ ref: { kind: "Service", name: "web" }, message: "refused" }];
  const failing = aWorld(aDeployment({ spec: { prune: true } }), fakeKluctl({ deploy: { ...deploy, errors } }));
  await failing.reconcile({ ...push, cause: "change" }, failing.attempt());
  expect(failing.objects.deleted).toEqual([]);
});

test("without a discriminator nothing can be pruned, and the error is kluctl's", async () => {
  const plain = aResult();
  const deploy = { ...plain, document: { ...plain.document, target: {}, targetKey: { clusterId: "cluster-1" } } };
  const world = aWorld(aDeployment({ spec: { prune: true } }), fakeKluctl({ deploy }));
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  expect(world.deployments.events[0]?.message).toContain("pruning without a discriminator is not supported");
});

test("a large prune waits for confirmation, reports it once, and runs when it is confirmed", async () => {
  const orphans = Array.from({ length: 12 }, (_, i) => orphanOf(`old-${i}`));
  const rendered = aResult({ objects: [...orphans, anObject({ rendered: "{}" })] });
  const spec = { prune: true };
  const world = aWorld(
    aDeployment({ spec, status: upToDate, generation: 2 }),
    fakeKluctl({ deploy: rendered, diff: rendered }),
  );
  const change = { ...push, cause: "change" } as const;

  expect(await world.reconcile(change, world.attempt())).toMatchObject({ kind: "done", deployed: true });
  expect(world.objects.deleted).toEqual([]);
  const [ready] = world.status()?.conditions ?? [];
  expect(ready).toMatchObject({ status: "True" });
  const hash = /towline\.dev\/confirm-prune=(\w+)/.exec(ready?.message ?? "")?.[1];
  expect(hash).toMatch(/^[0-9a-f]{16}$/);
  const waits = { type: "Warning", reason: "PruneWaits", message: expect.stringContaining(hash!) as unknown };
  expect(world.deployments.events).toContainEqual(waits);

  await world.comesRound();
  expect(world.status()?.conditions[0]?.message).toContain(hash);
  expect(world.deployments.events.filter(({ reason }) => reason === "PruneWaits")).toHaveLength(1);

  const now = world.deployments.objects.get("shop/prod") as Deployment;
  world.deployments.objects.set("shop/prod", { ...now, annotations: { [annotation.confirmPrune]: hash! } });
  expect(await world.reconcile(change, world.attempt())).toMatchObject({ deployed: true });
  expect(world.objects.deleted).toHaveLength(12);
  expect(world.deployments.objects.get("shop/prod")?.annotations).toEqual({});
  expect(world.status()?.conditions[0]?.message).toBe("deploy succeeded. 12 deleted objects.");
});

test("without the guard a large prune does not wait", async () => {
  const orphans = Array.from({ length: 12 }, (_, i) => orphanOf(`old-${i}`));
  const world = aWorld(
    aDeployment({ spec: { prune: true } }),
    fakeKluctl({ deploy: aResult({ objects: orphans }) }),
    undefined,
    {},
  );
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  expect(world.objects.deleted).toHaveLength(12);
});

const dependsOn = (names: string) => ({ [annotation.dependsOn]: names });
const db = (over: Parameters<typeof aDeployment>[0] = {}) =>
  aDeployment({ key: { namespace: "shop", name: "db" }, uid: "uid-db", status: upToDate, ...over });

test("a deployment waits for its dependencies, and reports which ones and why", async () => {
  const unready = db({
    status: { ...upToDate, conditions: [{ ...ready, status: "False", message: "deploy failed" }] },
  });
  const annotations = dependsOn("db, platform/dns");
  const world = aWorld(aDeployment({ annotations }), fakeKluctl(), fakeSources(), {}, [unready]);
  const message = "waiting for shop/db (deploy failed), platform/dns (there is no such KluctlDeployment)";

  await expect(world.reconcile(push, world.attempt())).resolves.toEqual({ kind: "skipped", why: message });
  expect(world.kluctl.runs).toEqual([]);
  expect(world.leases.held.size).toBe(0);
  expect(world.status()?.conditions).toMatchObject([{ status: "Unknown", reason: "DependencyNotReady", message }]);
  expect(world.status()?.observedGeneration).toBeUndefined();
  expect(world.deployments.events).toEqual([{ type: "Normal", reason: "DependencyNotReady", message }]);
  await world.reconcile(push, world.attempt());
  expect(world.deployments.patches).toHaveLength(1);
});

test("a deployment that stays blocked is checked without a lease, until the reason changes", async () => {
  const unready = (message: string) =>
    db({ status: { ...upToDate, conditions: [{ ...ready, status: "False", message }] } });
  const app = aDeployment({ annotations: dependsOn("db"), finalizers: [finalizer] });
  const world = aWorld(app, fakeKluctl(), fakeSources(), {}, [unready("deploy failed")]);
  const hold = vi.spyOn(world.leases, "hold");
  const outcomes = [await world.reconcile(push, world.attempt()), await world.comesRound(), await world.comesRound()];
  expect(outcomes).toEqual(Array(3).fill({ kind: "skipped", why: "waiting for shop/db (deploy failed)" }));
  expect(hold).toHaveBeenCalledTimes(1);

  world.deployments.objects.set("shop/db", unready("prune failed"));
  await world.comesRound();
  expect(world.status()?.conditions).toMatchObject([{ message: "waiting for shop/db (prune failed)" }]);
  expect(hold).toHaveBeenCalledTimes(2);

  world.deployments.objects.set("shop/db", db());
  expect(await world.comesRound()).toMatchObject({ kind: "done", deployed: true });
});

test("deployments of one push are deployed in order: the dependency has to reach the commit first", async () => {
  const sources = fakeSources({ "refs/heads/main": "c2" });
  const world = aWorld(aDeployment({ annotations: dependsOn("db"), status: upToDate }), fakeKluctl(), sources, {}, [
    db(),
  ]);
  await world.reconcile(push, world.attempt());
  expect(world.status()?.conditions).toMatchObject([{ message: "waiting for shop/db (it is not at commit c2 yet)" }]);
  expect(world.asked).toMatchObject([{ deployment: { name: "db" }, cause: "sweep" }]);

  world.deployments.objects.set("shop/db", db({ status: { ...upToDate, observedCommit: "c2" } }));
  await expect(world.reconcile(push, world.attempt())).resolves.toMatchObject({ kind: "done", commit: "c2" });
});

test("a ready deployment stays ready if its dependency is not ready at an interval check", async () => {
  const annotations = dependsOn("db");
  const world = aWorld(aDeployment({ annotations, status: upToDate }));
  await world.comesRound();
  expect(world.deployments.patches).toEqual([]);
  expect(world.kluctl.runs).toEqual([]);
});

test("a dependency cycle is reported as a permanent failure, without waiting", async () => {
  const annotations = dependsOn("db");
  const others = [db({ annotations: dependsOn("prod") })];
  const world = aWorld(aDeployment({ annotations }), fakeKluctl(), fakeSources(), {}, others);
  const outcome = await world.reconcile(push, world.attempt());
  expect(outcome).toMatchObject({ kind: "failed", retry: "person" });
  expect(world.status()?.conditions).toMatchObject([
    {
      status: "False",
      reason: "DependencyImpossible",
      message: expect.stringContaining("shop/prod → shop/db → shop/prod") as string,
    },
  ]);
});

test("a ready-expr decides in place of Ready whether a dependency is ready, and may compare it with the deployment", async () => {
  const readyExpr = "dep.metadata.labels.version == self.metadata.labels.version";
  const labelled = (version: string) => db({ status: {}, labels: { version } });
  const app = aDeployment({
    annotations: { ...dependsOn("db"), [annotation.readyExpr]: readyExpr },
    labels: { version: "2" },
  });
  const world = aWorld(app, fakeKluctl(), fakeSources(), {}, [labelled("1")]);
  await world.reconcile(push, world.attempt());
  expect(world.status()?.conditions).toMatchObject([
    { reason: "DependencyNotReady", message: "waiting for shop/db (towline.dev/ready-expr is false)" },
  ]);
  world.deployments.objects.delete("shop/db");
  await world.reconcile(push, world.attempt());
  expect(world.status()?.conditions).toMatchObject([{ message: expect.stringContaining("there is no such") }]);
  world.deployments.objects.set("shop/db", labelled("2"));
  await expect(world.reconcile(push, world.attempt())).resolves.toMatchObject({ kind: "done" });
});

test("a ready-expr sees neither the spec nor the annotations of a dependency in another namespace", async () => {
  const blockedBy = async (namespace: string, field: string) => {
    const annotations = { ...dependsOn(`${namespace}/db`), [annotation.readyExpr]: `has(dep.${field})` };
    const other = db({ key: { namespace, name: "db" }, annotations: { a: "b" } });
    const world = aWorld(aDeployment({ annotations }), fakeKluctl(), fakeSources(), {}, [other]);
    await world.reconcile(push, world.attempt());
    const [condition] = world.status()?.conditions ?? [];
    return condition?.reason === "DependencyNotReady";
  };
  expect(await blockedBy("shop", "spec.secret")).toBe(false);
  expect(await blockedBy("platform", "spec.secret")).toBe(true);
  expect(await blockedBy("platform", "metadata.annotations")).toBe(true);
  expect(await blockedBy("platform", "status.conditions")).toBe(false);
});

test.each([
  ["dep.status.ready ==", "DependencyImpossible", /ready-expr: it is not a CEL expression: Unexpected token/],
  ["dep.status.missing == 1", "DependencyNotReady", /ready-expr cannot be evaluated: no such key/],
])("a ready-expr that has no value, %s, is reported", async (readyExpr, reason, message) => {
  const annotations = { ...dependsOn("db"), [annotation.readyExpr]: readyExpr };
  const world = aWorld(aDeployment({ annotations }), fakeKluctl(), fakeSources(), {}, [db()]);
  await world.reconcile(push, world.attempt());
  expect(world.status()?.conditions).toMatchObject([{ reason, message: expect.stringMatching(message) as string }]);
  expect(world.kluctl.runs).toEqual([]);
});

test("a requested reconciliation does not wait for dependencies", async () => {
  const annotations = { ...dependsOn("db"), [requestAnnotation("reconcile")]: "now" };
  const world = aWorld(aDeployment({ annotations }));
  await expect(world.reconcile({ ...push, cause: "manual" }, world.attempt())).resolves.toMatchObject({ kind: "done" });
});

test("a recovery without a deploy is reported once", async () => {
  const failed = { ...ready, status: "False", reason: "PrepareFailed" } as const;
  const world = aWorld(aDeployment({ status: { ...upToDate, conditions: [failed], lastPrepareError: "no login" } }));
  await world.comesRound();
  await world.comesRound();
  expect(world.deployments.events).toEqual([
    { type: "Normal", reason: "ReconciliationSucceeded", message: "deploy succeeded." },
  ]);
});

test("interval checks share a recent answer of git, but none from before the last known move", async () => {
  const asking = (spec: Partial<DeploymentSpec>) => {
    const world = aWorld(aDeployment({ spec, status: upToDate }));
    const ask = async (cause: Cause, attempt = 1) => {
      if (attempt === 1) world.time.now += 3_600_000;
      await world.reconcile({ ...push, cause }, world.attempt({ attempt }));
      return world.sources.required.pop();
    };
    return { ask, known: world.known };
  };
  const { ask, known } = asking({ intervalMs: 60_000 });
  for (const cause of ["interval", "drift"] as const) {
    expect(await ask(cause)).toEqual({ since: "move-1", maxAgeMs: 18_000 });
  }
  // A second attempt follows a failure: the answer that the first one had may be the reason.
  for (const cause of ["interval", "drift", "push", "change"] as const) {
    expect(await ask(cause, 2)).toEqual({ since: "move-1", maxAgeMs: 2_000 });
  }

  // No move is recorded for a deployment that was blocked or that another one waits for, so it shares an answer too.
  const heldBack = aWorld(aDeployment({ status: { ...upToDate, observedGeneration: 0 } }));
  await heldBack.reconcile({ ...push, cause: "change" }, heldBack.attempt());
  expect(heldBack.sources.required.at(-1)).toEqual({ since: "move-1", maxAgeMs: 30_000 });

  known.move = undefined;
  expect(await ask("interval")).toEqual({ since: undefined, maxAgeMs: 18_000 });
  expect(await ask("interval", 2)).toEqual({ since: undefined, maxAgeMs: 2_000 });
  expect(await ask("change", 2)).toBeUndefined();

  // With an interval of a few seconds, a new commit has to be found within a few seconds.
  expect(await asking({ intervalMs: 10_000 }).ask("interval")).toMatchObject({ maxAgeMs: 3_000 });
  expect(await asking({ retryIntervalMs: 10_000 }).ask("interval")).toMatchObject({ maxAgeMs: 3_000 });
  expect(await asking({ intervalMs: 1 }).ask("interval")).toMatchObject({ maxAgeMs: 2_000 });
});

test("all deployments of one push share an answer, however long the last of them waits", async () => {
  const world = aWorld(aDeployment({ status: { ...upToDate, observedCommit: "c0" } }));
  await world.reconcile(push, world.attempt());
  expect(world.sources.required.at(-1)).toStrictEqual({ since: "move-1" });
});

test("a request uses git's current state, and no later reconciliation uses an older one", async () => {
  const asks = { [requestAnnotation("reconcile")]: JSON.stringify({ requestValue: "1" }) };
  const world = aWorld(aDeployment({ annotations: asks, status: upToDate }));
  await world.reconcile({ ...push, cause: "interval" }, world.attempt());
  expect(world.known.move).toBe("move-1, asked");
  expect(world.sources.required.at(-1)?.since).toBe("move-1, asked");
  // The request is answered, so the next reconciliation asks no more than usual.
  world.sources.refs["refs/heads/main"] = "c2";
  await world.reconcile(push, world.attempt());
  expect(world.sources.required.at(-1)?.since).toBe("move-1, asked");
});

test("the longer a slow remote takes, the later a waiting reconciliation is tried again", async () => {
  const sources = fakeSources();
  sources.failing.error = new RemoteBusyError("git.example.com/org/shop", 20_000);
  const world = aWorld(aDeployment({ status: { ...upToDate, observedGeneration: 0 } }), fakeKluctl(), sources);
  const later = { kind: "later", why: sources.failing.error.message };
  const change = { ...push, cause: "change" } as const;
  expect(await world.reconcile(change, world.attempt())).toEqual({ ...later, afterMs: 4_000 });
  sources.failing.error = new RemoteBusyError("git.example.com/org/shop", 3_600_000);
  expect(await world.reconcile(change, world.attempt())).toEqual({ ...later, afterMs: 10_000 });
});

test("a slow remote delays neither requests nor deletions", async () => {
  const at = (over: Partial<Deployment>) => {
    const sources = { ...fakeSources(), slowForMs: () => 8_000 };
    const world = aWorld(aDeployment({ status: upToDate, ...over }), fakeKluctl(), sources);
    const request = { ...push, repo: aDeployment().repo } as const;
    return { world, outcome: world.reconcile(request, world.attempt()) };
  };
  expect(await at({}).outcome).toMatchObject({ kind: "later", afterMs: 1_600 });
  const asked = at({ annotations: { [requestAnnotation("deploy")]: JSON.stringify({ requestValue: "1" }) } });
  expect(await asked.outcome).toMatchObject({ kind: "done" });
  expect(asked.world.kluctl.commands()).toEqual(["deploy", "diff"]);
  const deleted = at({ deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: [finalizer] });
  expect(await deleted.outcome).not.toMatchObject({ kind: "later" });
  expect(deleted.world.deployments.objects.get("shop/prod")?.finalizers).toEqual([]);
});

test("a suspended deployment no longer names a commit that is not deployed once the branch is back", async () => {
  const note = `Suspended: commit ${"2".repeat(40)} is not deployed.`;
  const status = { ...upToDate, conditions: [{ ...ready, message: `deploy succeeded. ${note}` }] };
  const world = aWorld(aDeployment({ spec: { suspend: true }, status }));
  await world.reconcile({ ...push, cause: "sweep" }, world.attempt());
  expect(world.status()?.conditions).toMatchObject([{ status: "True", message: "deploy succeeded." }]);
});

test("a postponed reconciliation finishes its writes before it releases the Lease", async () => {
  const sources = fakeSources();
  sources.failing.error = new RemoteBusyError("git.example.com/org/shop", 20_000);
  const world = aWorld(aDeployment({ status: { ...upToDate, observedGeneration: 0 } }), fakeKluctl(), sources);
  const held: boolean[] = [];
  const { patchStatus } = world.deployments;
  world.replace({
    deployments: {
      async patchStatus(...args) {
        await new Promise(setImmediate);
        held.push(world.leases.held.size > 0);
        return patchStatus(...args);
      },
    },
  });
  expect(await world.reconcile({ ...push, cause: "change" }, world.attempt())).toMatchObject({ kind: "later" });
  expect(held).toEqual([true]);
});

test("a worker that lost the Lease writes nothing more, even if nothing is rendered", async () => {
  const { spec: _spec, repo: _repo, ...identity } = aDeployment();
  const all = [
    aDeployment({ spec: { suspend: true }, status: upToDate, generation: 2 }),
    aDeployment({ annotations: { [annotation.dependsOn]: "nobody" }, status: upToDate, generation: 2 }),
    { ...identity, problem: "spec.interval: missing" },
  ];
  for (const deployment of all) {
    const world = aWorld(deployment);
    const signals: (AbortSignal | undefined)[] = [];
    world.replace({ deployments: { patchStatus: async (_ref, _patch, signal) => void signals.push(signal) } });
    await world.reconcile({ ...push, cause: "change" }, world.attempt());
    world.leases.lose();
    expect(signals.map((signal) => signal?.aborted)).toEqual([true]);
  }
});
