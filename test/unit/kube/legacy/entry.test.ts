import { parseResource } from "../../../../src/apis/resource.ts";
import { expect, test } from "vitest";
import { type EntryContext, toEntry } from "../../../../src/apis/flux-kluctl/entry.ts";
import { toLegacyPatch, toNewerStatus, parseLegacyStatus } from "../../../../src/apis/flux-kluctl/translate-status.ts";
import { applyMergePatch } from "../../../../src/kit/merge-patch.ts";
import { type AnyDeployment, type Deployment, isMalformed } from "../../../../src/model.ts";

const commit = "a".repeat(40);
const spec = {
  interval: "5m",
  deployInterval: "never",
  source: { url: "https://git.test/org/shop.git", ref: { branch: "main" } },
};

const helmSecrets: EntryContext = { helmSecrets: new Map([["charts", { url: "https://charts.test/stable" }]]) };

function entry(
  over: { spec?: object; status?: object; annotations?: object; finalizers?: string[] } = {},
  context: EntryContext = {},
  known?: AnyDeployment,
) {
  const { annotations, finalizers } = over;
  const metadata = {
    namespace: "shop",
    name: "prod",
    uid: "u",
    resourceVersion: "5",
    generation: 2,
    annotations,
    finalizers,
  };
  const raw = { metadata, spec: { ...spec, ...over.spec }, status: over.status };
  const found = toEntry(parseResource(raw)!, context, known);
  if (found === undefined) throw new Error("cannot be named");
  return found;
}

const sound = (...given: Parameters<typeof entry>): Deployment => {
  const found = entry(...given);
  if (isMalformed(found)) throw new Error(found.problem);
  return found;
};

test("a legacy deployment is read like any other, under its own API and with the current finalizer", () => {
  const deployment = sound({ finalizers: ["finalizers.flux.kluctl.io"], spec: { deployOnChanges: false } });
  expect(deployment).toMatchObject({
    key: { namespace: "shop", name: "prod" },
    apiVersion: "flux.kluctl.io/v1alpha1",
    finalizers: ["finalizers.gitops.kluctl.io"],
    repo: "git.test/org/shop",
    deployRequest: undefined,
    spec: { intervalMs: 300_000, deployOnChanges: false, validate: true },
  });
  expect(sound().spec.deployOnChanges).toBe(true);
});

test("annotations of the legacy API are requests until the status answers them, unless the deployment is suspended", () => {
  const reconcile = { "reconcile.fluxcd.io/requestedAt": "1" };
  const deploy = { "deploy.flux.kluctl.io/requestedAt": "2" };
  const request = (over: Parameters<typeof entry>[0]) => sound(over).annotations["kluctl.io/request-reconcile"];
  expect(request({ annotations: reconcile })).toBe("1");
  expect(request({ annotations: reconcile, status: { lastHandledReconcileAt: "1" } })).toBeUndefined();
  expect(request({ annotations: reconcile, spec: { suspend: true } })).toBeUndefined();
  expect(sound({ annotations: deploy })).toMatchObject({ deployRequest: "2" });
  expect(request({ annotations: { ...reconcile, ...deploy } })).toBe("deploy 2");
  expect(sound({ annotations: deploy, status: { lastHandledDeployAt: "2" } })).toMatchObject({
    deployRequest: undefined,
  });
});

test("Helm repository logins are named even if their Secrets have not been read", () => {
  const helmCredentials = [{ secretRef: { name: "charts" } }];
  const [named, read] = [sound({ spec: { helmCredentials } }), sound({ spec: { helmCredentials } }, helmSecrets)];
  expect(named.spec.helmCredentials).toEqual([{ secretName: "charts", bySecret: true }]);
  expect(read.spec.helmCredentials).toEqual([{ host: "charts.test", path: "stable", secretName: "charts" }]);
  expect(entry({ spec: { helmCredentials: [{}] } })).toMatchObject({
    problem: expect.stringContaining("spec.helmCredentials.0: references no Secret") as unknown,
  });
});

test("a resource that cannot be read is reported with the field names of its own API", () => {
  const bad = entry({ spec: { source: { url: "nonsense" } } });
  expect(bad).toMatchObject({ problem: expect.stringMatching(/^spec\.source\.url: is not the URL/) as unknown });
  expect(entry({ spec: { source: undefined } })).toMatchObject({
    problem: expect.stringContaining("spec.source: has no url") as unknown,
  });
});

test("a written status is read back unchanged", () => {
  const result = {
    id: "r1",
    commandInfo: { command: "deploy", endTime: "2026-01-01T00:00:01.500Z" },
    gitInfo: { commit },
    renderedObjectsHash: "hash-1",
    errors: [],
    warnings: [{ ref: { kind: "A", name: "b" }, message: "w" }],
    changedObjects: 2,
  };
  const ready = {
    type: "Ready",
    status: "True",
    reason: "ReconciliationSucceeded",
    message: "deploy succeeded. 2 changed objects.",
    lastTransitionTime: "2026-01-01T00:00:02Z",
  };
  const newer = {
    observedGeneration: 2,
    observedCommit: commit,
    lastObjectsHash: "hash-1",
    targetKey: { targetName: "prod", clusterId: "c", discriminator: "shop-prod" },
    lastDeployResult: result,
    lastDriftDetectionResult: { endTime: "x" },
    conditions: [ready],
  };
  const context = { ref: { branch: "main" }, target: "prod", prune: true, validate: false };
  const patch = toLegacyPatch(newer, newer, context);
  expect(patch).toMatchObject({
    observedGeneration: 2,
    lastAttemptedRevision: `refs/heads/main/${commit}`,
    discriminator: "shop-prod",
    lastDeployResult: {
      time: "2026-01-01T00:00:01Z",
      revision: `refs/heads/main/${commit}`,
      objectsHash: "hash-1",
      target: "prod",
      error: "",
    },
    lastPruneResult: { objectsHash: "hash-1" },
    conditions: [{ status: "True", message: "deploy: ok, prune: ok" }],
  });
  expect(patch).not.toHaveProperty("lastDriftDetectionResult");

  const status = applyMergePatch({}, patch) as object;
  expect(sound({ status }).status).toMatchObject({
    observedGeneration: 2,
    observedCommit: commit,
    lastObjectsHash: "hash-1",
    targetKey: { discriminator: "shop-prod" },
    lastDeployResult: { id: "r1", endTime: "2026-01-01T00:00:01Z", errors: 0, warnings: 1, changedObjects: 2 },
  });
});

test("an interrupted deploy leaves no hash, and a prepare error is reported in the condition", () => {
  const context = { ref: {}, prune: false, validate: true };
  const before = { lastDeployResult: { commandInfo: { endTime: "2026-01-01T00:00:00Z" }, renderedObjectsHash: "h" } };
  expect(toLegacyPatch({ lastObjectsHash: null }, before, context)).toEqual({
    lastDeployResult: { objectsHash: null },
  });
  const failed = {
    lastPrepareError: "template: line 3",
    conditions: [{ type: "Ready", status: "False", reason: "PrepareFailed", message: "prepare failed. Check …" }],
  };
  const patch = toLegacyPatch(failed, failed, context);
  expect(patch).toMatchObject({ conditions: [{ message: "template: line 3" }] });
  expect(toNewerStatus(parseLegacyStatus(patch))).toMatchObject({ lastPrepareError: "template: line 3" });
});

test("the status of the earlier controller is understood, whatever its results contain", () => {
  const status = {
    lastAttemptedRevision: `main@sha1:${commit}`,
    lastDeployResult: {
      time: "2023-01-01T00:00:00Z",
      objectsHash: "old",
      rawResult: "newObjects: []\nerrors:\n- ref: {}\n  error: x\n",
    },
    lastValidateResult: { time: "2023-01-01T00:00:00Z", rawResult: "ready: false\n", error: "" },
    conditions: [
      { type: "Ready", status: "False", reason: "DeployFailed", message: "deploy: failed", lastTransitionTime: "" },
    ],
  };
  expect(sound({ status }).status).toMatchObject({
    observedCommit: commit,
    lastObjectsHash: "old",
    lastDeployResult: { errors: 1, endTime: "2023-01-01T00:00:00Z" },
    lastValidateResult: { errors: 1 },
  });
  const broken = { lastDeployResult: { time: "2023-01-01T00:00:00Z", rawResult: "{ [", error: "boom" } };
  expect(sound({ status: broken }).status.lastDeployResult).toMatchObject({ errors: 1 });
});

test("a deploy in the future, by a clock that was ahead, is as old as its first sight, however often it is read", () => {
  const rawResult = JSON.stringify({ id: "r1" });
  const status = { lastDeployResult: { time: "2999-01-01T00:00:00Z", rawResult, objectsHash: "h" } };
  const first = sound({ status });
  const deployed = first.status.lastDeployResult!;
  expect(Date.parse(deployed.endTime)).toBeLessThan(Date.parse("2999-01-01"));
  const seenAt = "2026-01-01T00:00:00Z";
  const seen = { ...first, status: { ...first.status, lastDeployResult: { ...deployed, endTime: seenAt } } };
  expect(sound({ status }, {}, seen).status.lastDeployResult?.endTime).toBe(seenAt);
  // It is another resource of the same name.
  expect(sound({ status }, {}, { ...seen, uid: "other" }).status.lastDeployResult?.endTime).not.toBe(seenAt);
});
