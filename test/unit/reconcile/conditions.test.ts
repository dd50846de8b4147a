import { expect, test } from "vitest";
import { inProgress, prepareError, toConditions, verdictOf, withNotes } from "../../../src/reconcile/conditions.ts";
import { aSpec, aStatus, aSummary, aValidation } from "../../support/deployments.ts";

test("what we add begins a sentence, whatever kluctl's words end with", () => {
  expect(withNotes("deployment status unknown", ["Shares it."])).toBe("deployment status unknown. Shares it.");
  expect(withNotes("deploy succeeded.", ["Shares it."])).toBe("deploy succeeded. Shares it.");
  expect(withNotes("deployment status unknown", [])).toBe("deployment status unknown"); // as kluctl has it
});

test("the words are those that kluctl's tools know", () => {
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

test("a condition's transition time moves only when its status does", () => {
  const first = toConditions([], 1, { status: "True", reason: "A", message: "" }, undefined, "t1");
  const second = toConditions(first, 2, { status: "True", reason: "B", message: "" }, undefined, "t2");
  expect(second[0]).toMatchObject({ reason: "B", lastTransitionTime: "t1", observedGeneration: 2 });
  expect(toConditions(second, 2, inProgress, undefined, "t3")[0]?.lastTransitionTime).toBe("t3");
});

test("conditions of others stay, and Reconciling is there only while work goes on", () => {
  const theirs = { type: "Theirs", status: "True", reason: "X", message: "", lastTransitionTime: "t0" } as const;
  const working = toConditions([theirs], 1, undefined, "Performing reconcile", "t1");
  expect(working.map(({ type }) => type)).toEqual(["Theirs", "Ready", "Reconciling"]);
  expect(toConditions(working, 1, undefined, undefined, "t2").map(({ type }) => type)).toEqual(["Theirs", "Ready"]);
});

test("a project that cannot be prepared is told in the words of the kluctl that is run", () => {
  const pointer = "prepare failed. Check status.lastPrepareError for details: target x not existent";
  const of = (version: string | undefined) => prepareError("target x not existent", undefined, version);
  expect(of("2.22.1").ready.message).toBe("target x not existent");
  for (const version of ["2.23.0", "2.28.2", "3.0.0", undefined]) {
    const { ready, error } = of(version);
    expect([ready.reason, ready.message, error]).toEqual(["PrepareFailed", pointer, "target x not existent"]);
  }
  expect(prepareError("2 errors occurred:\n\t* a\n\t* b\n", undefined, "2.28.2").ready.message).toBe(
    "prepare failed with 2 errors. Check status.lastPrepareError for details: a (and 1 more)",
  );
});

test("what kluctl's controller says of a failure comes first, and what we know of it after that", () => {
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
