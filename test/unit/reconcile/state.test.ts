import { expect, test } from "vitest";
import type { Condition, DeploymentStatus } from "../../../src/model.ts";
import { stateOf } from "../../../src/views/state.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

const now = Date.parse("2026-01-02T12:00:00Z");

function condition(type: string, status: Condition["status"], message = ""): Condition {
  return { type, status, reason: "", message, lastTransitionTime: "" };
}

function status(more: Partial<DeploymentStatus> = {}): Partial<DeploymentStatus> {
  return { observedGeneration: 1, conditions: [condition("Ready", "True")], ...more };
}

test("a healthy deployment shows when it was deployed and when its next check is", () => {
  const lastDeployResult = aSummary({
    endTime: "2026-01-02T11:00:00Z",
    document: { gitInfo: { commit: "3".repeat(40) } },
  });
  const drift = { document: {}, endTime: "2026-01-02T11:58:00Z" };
  const state = stateOf(
    aDeployment({
      generation: 1,
      status: status({
        observedCommit: "4".repeat(40),
        lastDeployResult,
        lastDriftDetectionResult: drift,
        lastDriftDetectionResultMessage: "no drift",
      }),
    }),
    now,
  );
  expect(state).toMatchObject({
    ready: "True",
    commit: "4".repeat(40),
    deployedCommit: "3".repeat(40),
    deployedAt: now - 3_600_000,
    drift: "none",
    nextCheckAt: now + 180_000,
    why: undefined,
  });
});

test("an object that the API server refused is drift, though kluctl does not count it", () => {
  const lastDriftDetectionResult = { document: { errors: [{ message: "refused" }] }, endTime: "2026-01-02T11:58:00Z" };
  const refused = status({ lastDriftDetectionResult, lastDriftDetectionResultMessage: "no drift" });
  expect(stateOf(aDeployment({ status: refused }), now).drift).toBe("1 err");
});

test.each<[why: string, deployment: Parameters<typeof aDeployment>[0]]>([
  ["suspended", { spec: { suspend: true } }],
  ["is being deleted", { deletionTimestamp: "2026-01-02T11:00:00Z", spec: { suspend: true } }],
  ["in progress: Deploying", { status: status({ conditions: [condition("Reconciling", "True", "Deploying\nmore")] }) }],
  ["waiting for approval of abcdef01", { spec: { manual: true }, status: status({ lastObjectsHash: "abcdef0123" }) }],
  ["waiting for reconciliation: the spec changed", { generation: 2, status: status() }],
  ["deploy.yml:14: x", { status: status({ lastPrepareError: "deploy.yml:14: x\n1", conditions: [] }) }],
  ["a.yml: x", { status: status({ lastPrepareError: "1 error occurred:\n\t* a.yml: x\n\n", conditions: [] }) }],
  [
    "a.yml: x (and 1 more)",
    { status: status({ lastPrepareError: "2 errors occurred:\n\t* a.yml: x\n\t* b\n", conditions: [] }) },
  ],
  ["deploy failed", { status: status({ conditions: [condition("Ready", "False", "deploy failed")] }) }],
  [
    "deploy failed with 1 errors. First error: Secret shop/login: illegal base64",
    {
      status: status({
        conditions: [condition("Ready", "False", "deploy failed with 1 errors.")],
        lastDeployResult: aSummary({
          document: {
            errors: [{ ref: { kind: "Secret", namespace: "shop", name: "login" }, message: "illegal base64\nmore" }],
          },
        }),
      }),
    },
  ],
  [
    "dry run: nothing is applied",
    { status: status({ lastDeployResult: aSummary({ document: { commandInfo: { dryRun: true } } }) }) },
  ],
  ["not reconciled yet", { status: status({ conditions: [] }) }],
])("why: %s", (why, deployment) => {
  expect(stateOf(aDeployment({ generation: 1, ...deployment }), now).why).toContain(why);
});

test("a failure before the comparison is not overdue, because the server knows the time of the next retry", () => {
  const conditions = [condition("Ready", "False", "no such target")];
  const failed = aDeployment({ generation: 1, status: { observedGeneration: 1, conditions, lastPrepareError: "x" } });
  expect(stateOf(failed, now).nextCheckAt).toBeUndefined();
  expect(stateOf(failed, now, now + 30_000).nextCheckAt).toBe(now + 30_000);
  expect(stateOf({ ...failed, generation: 2 }, now).nextCheckAt).toBe(now);
});

test("a failing template is reported with file, line and error", () => {
  const whyOf = (lastPrepareError: string) =>
    stateOf(aDeployment({ generation: 1, status: status({ lastPrepareError, conditions: [] }) }), now).why;
  const syntax = `  File "api.yml", line 2, in template
    kind: {% if %}
TemplateSyntaxError: Expected an expression, got 'end of statement block'`;
  const nested = `failed rendering template 'a.yml':   File "a.yml", line 9, in top-level template code
    {% include "inc/b.yml" %}
  File "inc/b.yml", line 2, in top-level template code
    kind: {{ a.b }}
UndefinedError: 'a' is undefined`;
  expect(whyOf(`failed to load vars: failed to render vars file x.yaml: ${syntax}`)).toBe(
    "api.yml:2: TemplateSyntaxError: Expected an expression, got 'end of statement block'",
  );
  expect(whyOf(`2 errors occurred:\n\t* ${nested}\n\n\t* failed rendering template 'api.yml': ${syntax}\n`)).toBe(
    "inc/b.yml:2: UndefinedError: 'a' is undefined (and 1 more)",
  );
  expect(whyOf("1 error occurred:\n\t* a.yml: x\n")).toBe("a.yml: x");
  expect(whyOf("two\nlines")).toBe("two");
});

test("a resource that cannot be read is reported with the field", () => {
  const { key, uid, generation, resourceVersion, annotations, finalizers } = aDeployment();
  const identity = { key, uid, generation, resourceVersion, annotations, finalizers, status: { conditions: [] } };
  const state = stateOf({ ...identity, problem: "spec.interval: is missing\nand more" }, now);
  expect(state).toMatchObject({ why: "spec.interval: is missing", ready: undefined, source: undefined });
});
