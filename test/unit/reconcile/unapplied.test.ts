/** What is not applied, or not validated, is never taken for what is. */
import { expect, test } from "vitest";
import { KilledError, SourceError } from "../../../src/errors.ts";
import { type Deployment, type DeploymentSpec, requestAnnotation } from "../../../src/model.ts";
import { aDeployment, anObject, aResult } from "../../support/deployments.ts";
import { fakeKluctl, fakeSources } from "../../support/fakes.ts";
import { aWorld, keepWholeStatus, push } from "../../support/reconciling.ts";

const day = 86_400_000;
const c2 = "c2".padEnd(40, "0");

/** What kluctl renders, one of several: all take one second, one minute after the other. */
function renders(number: number, { dryRun = false, errors = 0 } = {}) {
  const [startTime, endTime] = [`2026-01-01T00:0${number - 1}:00Z`, `2026-01-01T00:0${number - 1}:01Z`];
  const { document } = aResult();
  const failed = Array.from({ length: errors }, () => ({ ref: { kind: "Pod", name: "web" }, message: "refused" }));
  const command = { initiator: "CommandLine", startTime, endTime, ...(dryRun && { dryRun }) };
  return aResult({
    document: { ...document, command, errors: failed },
    objectsHash: `hash-${number}`,
    objects: [anObject({ new: true })],
    errors: failed,
  });
}

/** A deployment that is at its first commit, and Ready. */
async function aDeployed(spec: Partial<DeploymentSpec> = {}, settings: { dryRun: boolean } = { dryRun: false }) {
  const kluctl = fakeKluctl({ diff: renders(1), deploy: renders(1, settings) });
  const refs = { "refs/heads/main": "c1" };
  const sources = fakeSources(refs);
  const deployment = aDeployment({ spec: { intervalMs: day, ...spec } });
  const world = aWorld(deployment, kluctl, sources, settings);
  const edit = keepWholeStatus(world);
  await world.reconcile({ ...push, cause: "change" }, world.attempt());
  return {
    ...world,
    sources,
    edit,
    editSpec: (change: Partial<DeploymentSpec>) =>
      edit(({ generation, spec: before }) => ({ generation: generation + 1, spec: { ...before, ...change } })),
    /** A newer commit, and what it renders. */
    pushNext(number: number, deployed: Parameters<typeof renders>[1] = {}) {
      refs["refs/heads/main"] = c2;
      Object.assign(kluctl.answers, { diff: renders(number), deploy: renders(number, deployed) });
    },
    /** The commands of a reconciliation. */
    async commands(cause: (typeof push)["cause"], over = {}) {
      kluctl.runs.length = 0;
      await world.reconcile({ ...push, cause }, world.attempt(over));
      return kluctl.commands();
    },
    ask: (kind: Parameters<typeof requestAnnotation>[0], spec?: object) =>
      edit(() => ({
        annotations: {
          [requestAnnotation(kind)]: JSON.stringify({ requestValue: "x", ...(spec && { overridesPatch: { spec } }) }),
        },
      })),
    ready: () => world.status()?.conditions.find(({ type }) => type === "Ready"),
  };
}

test("a changed spec that renders the same is deployed, also if git was down at first", async () => {
  const { editSpec, sources, commands, ready } = await aDeployed();
  editSpec({ context: "another-cluster" });
  sources.failing.error = new SourceError("unreachable", "git is down");
  await commands("change");
  expect(ready()).toMatchObject({ status: "False", reason: "PrepareFailed" });

  delete sources.failing.error;

  expect(await commands("change", { attempt: 2 })).toContain("deploy");
  expect(ready()).toMatchObject({ status: "True" });
});

test("a change that waited for approval is deployed once none is needed, also if git was down at first", async () => {
  const { editSpec, sources, commands, pushNext, status } = await aDeployed();
  editSpec({ manual: true, manualObjectsHash: "hash-1" });
  await commands("change");
  pushNext(2);
  expect(await commands("push")).toEqual(["diff"]);
  editSpec({ manual: false, manualObjectsHash: undefined });
  sources.failing.error = new SourceError("unreachable", "git is down");
  await commands("change");

  delete sources.failing.error;

  expect(await commands("change", { attempt: 2 })).toContain("deploy");
  expect(status()?.lastObjectsHash).toBe("hash-2");
});

test("a commit whose dry run a user requested is deployed by its push", async () => {
  const { ask, commands, pushNext } = await aDeployed();
  pushNext(2, { dryRun: true });
  ask("reconcile", { dryRun: true });
  expect(await commands("manual")).toContain("deploy");

  pushNext(2);

  expect(await commands("push")).toContain("deploy");
});

test("a dry run that a user requested replaces no result, and nothing is deployed after it", async () => {
  const { ask, commands, pushNext, status } = await aDeployed();
  const { lastDeployResult, lastObjectsHash } = status() ?? {};
  pushNext(1, { dryRun: true });
  ask("deploy", { dryRun: true });
  expect(await commands("manual")).toEqual(["deploy", "diff"]);
  expect(status()).toMatchObject({ lastDeployResult, lastObjectsHash });
});

test("once the server deploys for real, what it only tried is deployed", async () => {
  const { deployments, status } = await aDeployed({}, { dryRun: true });
  expect(status()).toMatchObject({ lastObjectsHash: "hash-1", observedCommit: "c1" });
  const kluctl = fakeKluctl({ diff: renders(1), deploy: renders(1) });
  const world = aWorld(deployments.objects.get("shop/prod") as Deployment, kluctl);
  keepWholeStatus(world);
  world.time.now += 2 * day;

  await world.reconcile({ ...push, cause: "interval" }, world.attempt());

  expect(kluctl.commands()).toContain("deploy");
});

test("a push that finds only a dry run of its commit deploys it", async () => {
  const { deployments } = await aDeployed({}, { dryRun: true });
  const kluctl = fakeKluctl({ diff: renders(1), deploy: renders(1) });
  const world = aWorld(deployments.objects.get("shop/prod") as Deployment, kluctl);

  await world.reconcile(push, world.attempt());

  expect(kluctl.commands()).toContain("deploy");
});

test.each(["prune", "deploy"] as const)(
  "a failed deploy is repeated after a requested %s that did not repeat it",
  async (kind) => {
    const { ask, commands, pushNext, ready } = await aDeployed();
    pushNext(2, { errors: 1 });
    await commands("push");
    expect(ready()).toMatchObject({ status: "False" });
    const dryRun = kind === "deploy";
    pushNext(2, { dryRun });
    ask(kind, dryRun ? { dryRun } : undefined);
    const asked = await commands("manual");
    expect(asked[0]).toBe(kind);

    pushNext(2);

    expect([...asked.slice(1), ...(await commands("push", { attempt: 2 }))]).toContain("deploy");
    expect(ready()).toMatchObject({ status: "True" });
  },
);

test("a prune that failed and then succeeds is not followed by a deploy of what is deployed", async () => {
  const { ask, commands, kluctl, ready } = await aDeployed();
  const asPrune = (result: ReturnType<typeof renders>) => {
    const command = { ...(result.document["command"] as object), command: "prune" };
    return { ...result, document: { ...result.document, command } };
  };
  kluctl.answers.prune = asPrune(renders(1, { errors: 1 }));
  ask("prune");
  expect(await commands("manual")).toEqual(["prune", "diff"]);
  expect(ready()).toMatchObject({ status: "False" });

  kluctl.answers.prune = asPrune(renders(1));
  ask("prune");
  expect(await commands("manual")).toEqual(["prune", "diff"]);
  expect(ready()).toMatchObject({ status: "True" });
});

test.each([
  ["it is stopped", "stopped"],
  ["it takes too long", "timeout"],
] as const)("a deploy is validated by the next reconciliation if %s during its validation", async (_, why) => {
  const { commands, pushNext, kluctl, ready } = await aDeployed({ validate: true });
  pushNext(2);
  const { validate } = kluctl;
  const stop = new AbortController();
  kluctl.validate = () => {
    if (why === "stopped") stop.abort();
    return Promise.reject(new KilledError(why, "it was killed"));
  };
  await commands("push", { signal: stop.signal });
  kluctl.validate = validate;

  expect(await commands("push", { attempt: 2 })).toContain("validate");
  expect(ready()).toMatchObject({ status: "True" });
});

test("a requested deploy is validated", async () => {
  const { ask, commands, pushNext } = await aDeployed({ validate: true });
  pushNext(2);
  ask("deploy");
  expect(await commands("manual")).toEqual(["deploy", "diff", "validate"]);
});

test("a commit that a user deployed with other arguments is deployed by its push", async () => {
  const { ask, commands, pushNext, ready, status } = await aDeployed();
  pushNext(3);
  ask("reconcile", { args: { region: "eu" } });
  expect(await commands("manual")).toContain("deploy");
  expect(status()).toMatchObject({ observedCommit: "c1", lastObjectsHash: "hash-3" });
  expect(ready()).toMatchObject({ status: "True" });

  pushNext(2);

  expect(await commands("push")).toContain("deploy");
  expect(status()).toMatchObject({ observedCommit: c2, lastObjectsHash: "hash-2" });
});

test.each(["diff", "validate"] as const)(
  "a requested %s of a suspended deployment does not hide its newer commit",
  async (kind) => {
    const { ask, commands, editSpec, pushNext, ready, status } = await aDeployed();
    editSpec({ suspend: true });
    await commands("change");
    pushNext(2);
    await commands("sweep");
    expect(ready()?.message).toContain(c2);
    ask(kind);
    await commands("manual");
    await commands("sweep");
    expect(ready()?.message).toContain(c2);
    expect(status()?.observedCommit).toBe("c1");
  },
);

test("a validation with other arguments says nothing about the deployment", async () => {
  const { ask, commands, status } = await aDeployed({ validate: true });
  const { lastValidateResult } = status() ?? {};
  ask("validate", { args: { region: "eu" } });
  await commands("manual");
  expect(status()?.lastValidateResult).toEqual(lastValidateResult);
});

test("what a user deploys to another target once is not taken for what is deployed", async () => {
  const { ask, commands, kluctl, pushNext, status } = await aDeployed();
  pushNext(2);
  const { document, ...elsewhere } = renders(2);
  const target = { name: "other", discriminator: "shop-other" };
  Object.assign(kluctl.answers, { deploy: { ...elsewhere, document: { ...document, target } } });
  ask("reconcile", { target: "other" });
  expect(await commands("manual")).toContain("deploy");
  expect(status()).toMatchObject({ lastObjectsHash: "hash-1", targetKey: { discriminator: "shop-prod" } });

  pushNext(2);

  expect(await commands("push")).toContain("deploy");
});

test("a dry run for once, before the first deploy, claims nothing", async () => {
  const world = aWorld(aDeployment({ spec: { suspend: true } }), fakeKluctl());
  const edit = keepWholeStatus(world);
  const request = { requestValue: "x", overridesPatch: { spec: { dryRun: true } } };
  edit(() => ({ annotations: { [requestAnnotation("reconcile")]: JSON.stringify(request) } }));
  await world.reconcile({ ...push, cause: "manual" }, world.attempt());
  expect(world.kluctl.commands()).toContain("deploy");
  expect(world.status()?.targetKey).toBeUndefined();
});

test("a dry run whose spec changed while git was down is tried once, and Ready", async () => {
  const { commands, editSpec, ready, sources, time } = await aDeployed({ dryRun: true }, { dryRun: true });
  editSpec({ context: "another-cluster" });
  sources.failing.error = new SourceError("unreachable", "git is down");
  await commands("change");
  delete sources.failing.error;
  expect(await commands("change", { attempt: 2 })).toContain("deploy");
  expect(ready()).toMatchObject({ status: "True" });
  time.now += 2 * day;
  expect(await commands("interval")).toEqual(["diff"]);
});

test("with manual approval, a spec that changed while git was down deploys what is approved, and asks for nothing more", async () => {
  const { commands, editSpec, ready, sources } = await aDeployed();
  editSpec({ manual: true });
  sources.failing.error = new SourceError("unreachable", "git is down");
  await commands("change");
  delete sources.failing.error;
  expect(await commands("change", { attempt: 2 })).toEqual(["diff"]);
  expect(ready()).toMatchObject({ status: "True" });

  editSpec({ manualObjectsHash: "hash-1", context: "another-cluster" });
  sources.failing.error = new SourceError("unreachable", "git is down");
  await commands("change");
  delete sources.failing.error;
  expect(await commands("change", { attempt: 2 })).toContain("deploy");
});

test("a commit whose deploy was stopped because the deployment was suspended is named as not deployed", async () => {
  const { commands, editSpec, kluctl, pushNext, ready, status } = await aDeployed();
  pushNext(2);
  const { diff } = kluctl;
  kluctl.diff = (...args) => {
    editSpec({ suspend: true });
    return diff(...args);
  };
  expect(await commands("push")).toEqual(["diff"]);
  expect(status()).toMatchObject({ observedCommit: "c1", lastObjectsHash: "hash-1" });
  await commands("sweep");
  expect(ready()?.message).toContain(c2);
});
