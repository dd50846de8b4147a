import { expect, test } from "vitest";
import {
  failureOf,
  firstErrors,
  inProgress,
  isReconciling,
  pendingCommitOf,
  prepareError,
  readyCondition,
  resultMessage,
  toConditions,
  verdictOf,
  withHealth,
  withNotes,
  withPendingCommit,
} from "../../../src/reconcile/status/conditions.ts";
import { aSpec, aStatus, aSummary, aValidation } from "../../support/deployments.ts";

test("a note starts a new sentence after kluctl's message", () => {
  expect(withNotes("deployment status unknown", ["Shares it."])).toBe("deployment status unknown. Shares it.");
  expect(withNotes("deploy succeeded.", ["Shares it."])).toBe("deploy succeeded. Shares it.");
  expect(withNotes("deployment status unknown", [])).toBe("deployment status unknown"); // as kluctl has it
});

test("what was found about the health stays while a reconciliation only says what it does", () => {
  const healthy = { status: "True", reason: "ReconciliationSucceeded", message: "All objects are healthy." } as const;
  const before = toConditions([], 1, { ...inProgress, health: healthy }, undefined, "2026-01-01T00:00:00Z");
  const meanwhile = toConditions(before, 1, undefined, "Initializing", "2026-01-01T00:00:05Z");
  expect(meanwhile).toMatchObject([
    { type: "Ready" },
    { type: "Healthy", ...healthy, lastTransitionTime: "2026-01-01T00:00:00Z" },
    { type: "Reconciling", status: "True" },
  ]);
  expect(toConditions(meanwhile, 1, inProgress, undefined, "2026-01-01T00:00:06Z")).toMatchObject([{ type: "Ready" }]);
});

test("what failed to deploy is not called healthy, nor waited for", () => {
  const failed = verdictOf(aSpec(), aStatus({ lastObjectsHash: "h1", lastDeployResult: aSummary({ errors: 1 }) }));
  expect(withHealth(failed, { kind: "healthy" })).toEqual(failed);
  expect(withHealth(failed, { kind: "waiting", message: "Waits.", againMs: 1_000 })).toEqual(failed);
});

test("reasons and messages are those that kluctl's tools know", () => {
  const spec = aSpec({ validate: true });
  const verdict = (over: Parameters<typeof aSummary>[0], validate = aValidation()) =>
    verdictOf(spec, aStatus({ lastObjectsHash: "h1", lastDeployResult: aSummary(over), lastValidateResult: validate }));
  expect(verdict({ newObjects: 1, changedObjects: 2 })).toEqual({
    status: "True",
    reason: "ReconciliationSucceeded",
    message: "deploy succeeded. 1 new objects. 2 changed objects. validate succeeded.",
  });
  expect(verdict({ errors: 2, warnings: 1 })).toMatchObject({
    reason: "DeployFailed",
    message: "deploy failed with 2 errors and 1 warnings. validate succeeded.",
  });
  const errors = [{ ref: { kind: "Secret", name: "login", namespace: "shop" }, message: "data.key: illegal base64" }];
  expect(verdict({ errors: 1, document: { errors } })).toMatchObject({
    message:
      "deploy failed with 1 errors. validate succeeded. First error: Secret shop/login: data.key: illegal base64",
  });
  expect(verdict({ warnings: 1 }, aValidation({ errors: 1 }))).toMatchObject({
    reason: "ValidateFailed",
    message: "deploy succeeded with 1 warnings. validate failed with 1 errors.",
  });
  expect(verdictOf(spec, aStatus())).toMatchObject({ reason: "DeployFailed", message: "deployment status unknown" });
  expect(verdictOf(spec, aStatus({ lastObjectsHash: "h1", lastDeployResult: aSummary() }))).toMatchObject({
    reason: "ValidateFailed",
    message: "deploy succeeded. Validation status unknown.",
  });
});

test("a condition's transition time changes only with its status", () => {
  const first = toConditions([], 1, { status: "True", reason: "A", message: "" }, undefined, "t1");
  const second = toConditions(first, 2, { status: "True", reason: "B", message: "" }, undefined, "t2");
  expect(second[0]).toMatchObject({ reason: "B", lastTransitionTime: "t1", observedGeneration: 2 });
  expect(toConditions(second, 2, inProgress, undefined, "t3")[0]?.lastTransitionTime).toBe("t3");
});

test("other controllers' conditions stay, and Reconciling exists only while work is in progress", () => {
  const theirs = { type: "Theirs", status: "True", reason: "X", message: "", lastTransitionTime: "t0" } as const;
  const working = toConditions([theirs], 1, undefined, "Performing reconcile", "t1");
  expect(working.map(({ type }) => type)).toEqual(["Theirs", "Ready", "Reconciling"]);
  expect(toConditions(working, 1, undefined, undefined, "t2").map(({ type }) => type)).toEqual(["Theirs", "Ready"]);
});

test("a prepare error has the message format of the kluctl version that runs", () => {
  const pointer = "prepare failed. Check status.lastPrepareError for details: target x not existent";
  const of = (version: string | undefined) => prepareError("target x not existent", undefined, version);
  expect(of("2.22.1").ready.message).toBe("target x not existent");
  for (const version of ["2.23.0", "2.28.2", "3.0.0", undefined]) {
    const { ready, error } = of(version);
    expect([ready.reason, ready.message, error]).toEqual(["PrepareFailed", pointer, "target x not existent"]);
  }
  const several = (text: string) => prepareError(text, undefined, "2.28.2").ready.message;
  expect(several("2 errors occurred:\n\t* a\n\t* b\n")).toBe(
    "prepare failed with 2 errors. Check status.lastPrepareError for details: a (and 1 more)",
  );
  expect(several("12 errors occurred:\n\t* a\n\t* b\n")).toMatch(/^prepare failed with 12 errors\. /);
  expect(several("1 error occurred:\n\t* a\n")).toMatch(/^prepare failed with 1 errors\. /);
});

test("the message of kluctl's controller comes first, and our details after it", () => {
  const [message, words] = [
    "cannot read git/x: no login is given",
    "failed to clone git source: authentication required",
  ];
  expect(prepareError(message, words, "2.22.1")).toMatchObject({
    ready: { message: words },
    error: `${words} (${message})`,
  });
  expect(prepareError(message, words, "2.28.2").error).toBe(
    `failed to clone git source: http transport: authentication required (${message})`,
  );
});

test("Ready stays as it was while work is in progress, and is Unknown before the first result", () => {
  const [ready] = toConditions([], 1, { status: "False", reason: "A", message: "why" }, undefined, "t1");
  const [kept] = toConditions([ready!], 2, undefined, "Performing reconcile", "t2");
  expect(kept).toMatchObject({ status: "False", reason: "A", message: "why", lastTransitionTime: "t1" });
  expect(toConditions([], 1, undefined, "Performing reconcile", "t1")).toMatchObject([
    { type: "Ready", status: "Unknown", reason: "Progressing" },
    { type: "Reconciling", status: "True", reason: "Progressing", message: "Performing reconcile" },
  ]);
});

test("other controllers' conditions, in any order, are never taken for ours", () => {
  const of = (type: string, status: "True" | "False", reason: string) =>
    ({ type, status, reason, message: "", lastTransitionTime: `since ${reason}` }) as const;
  const conditions = [of("Theirs", "True", "A"), of("Ready", "False", "B"), of("Reconciling", "True", "C")];
  expect(readyCondition(aStatus({ conditions }))?.reason).toBe("B");
  expect(toConditions(conditions, 1, undefined, "Performing reconcile", "now")).toMatchObject([
    { type: "Theirs", reason: "A" },
    { type: "Ready", reason: "B", lastTransitionTime: "since B" },
    { type: "Reconciling", lastTransitionTime: "since C" },
  ]);
});

test("a reconciliation is in progress while Reconciling is True, whatever other conditions say", () => {
  const condition = (type: string, status: "True" | "False") =>
    aStatus({ conditions: [{ type, status, reason: "", message: "", lastTransitionTime: "" }] });
  expect(isReconciling(condition("Reconciling", "True"))).toBe(true);
  expect(isReconciling(condition("Reconciling", "False"))).toBe(false);
  expect(isReconciling(condition("Stalled", "True"))).toBe(false);
});

test("a message that the API server could reject is cut", () => {
  const messageOf = (length: number) =>
    toConditions([], 1, { status: "False", reason: "A", message: "x".repeat(length) }, undefined, "t1")[0]?.message;
  expect(messageOf(20_000)).toHaveLength(20_000);
  expect(messageOf(20_001)).toBe(`${"x".repeat(20_000)}...`);
});

test("an interrupted deploy is a failure, whatever its previous result", () => {
  expect(verdictOf(aSpec(), aStatus({ lastDeployResult: aSummary() }))).toMatchObject({
    status: "False",
    reason: "DeployFailed",
    message: expect.stringContaining("interrupted") as string,
  });
});

test("without validation, an earlier validation result does not count", () => {
  const status = aStatus({
    lastObjectsHash: "h1",
    lastDeployResult: aSummary(),
    lastValidateResult: aValidation({ errors: 1 }),
  });
  expect(verdictOf(aSpec({ validate: false }), status)).toMatchObject({ status: "True", message: "deploy succeeded." });
});

test("a result counts what happened, and omits zeros", () => {
  const all = { newObjects: 1, changedObjects: 2, appliedHookObjects: 3, deletedObjects: 4, orphanObjects: 5 };
  expect(resultMessage(aSummary({ warnings: 1, ...all }), "deploy")).toBe(
    "deploy succeeded with 1 warnings. 1 new objects. 2 changed objects. 3 hooks run. 4 deleted objects. 5 orphan objects.",
  );
  expect(resultMessage(aSummary({ errors: 1 }), "prune")).toBe("prune failed with 1 errors.");
  expect(resultMessage(aSummary(), "diff")).toBe("diff succeeded.");
});

test("a result with errors is a failure, and one with warnings only is not", () => {
  const told = { ref: { kind: "ConfigMap", name: "settings" }, message: "immutable" };
  expect(failureOf({ errors: [], warnings: [told] }, "deploy")).toBeUndefined();
  expect(failureOf({ errors: [told], warnings: [told] }, "deploy")).toBe("deploy failed with 1 errors and 1 warnings.");
});

test("an event names the first three errors, with their object if it is known", () => {
  const error = (name: string) => ({ ref: { kind: name && "ConfigMap", name }, message: "immutable" });
  expect(firstErrors(["a", "", "c", "d"].map(error))).toBe(
    "ConfigMap/a: immutable · immutable · ConfigMap/c: immutable",
  );
});

const [newer, older] = ["2".repeat(40), "1".repeat(40)];

test("a suspended deployment names the newer commit that is not deployed, once", () => {
  const told = withPendingCommit("deploy succeeded.", older);
  expect(told).toBe(`deploy succeeded. Suspended: commit ${older} is not deployed.`);
  expect(withPendingCommit(told, newer)).toBe(`deploy succeeded. Suspended: commit ${newer} is not deployed.`);
  expect(withPendingCommit(told, undefined)).toBe("deploy succeeded.");
  expect(withPendingCommit(`${told} It says so.`, undefined)).toBe(`${told} It says so.`); // not our sentence, or not the last
});

test("the pending commit is read from Ready, while the deployment is suspended and not yet at that commit", () => {
  const message = withPendingCommit("deploy succeeded.", newer);
  const status = aStatus({
    observedCommit: older,
    conditions: toConditions([], 1, { status: "True", reason: "A", message }, undefined, "t1"),
  });
  expect(pendingCommitOf({ spec: aSpec({ suspend: true }), status })).toBe(newer);
  expect(pendingCommitOf({ spec: aSpec({ suspend: false }), status })).toBeUndefined();
  expect(pendingCommitOf({ spec: aSpec({ suspend: true }), status: { ...status, observedCommit: newer } })).toBe(
    undefined,
  );
  expect(pendingCommitOf({ spec: aSpec({ suspend: true }), status: aStatus() })).toBeUndefined();
});
