import { expect, test } from "vitest";
import {
  changeWaits,
  decide,
  deployRegardless,
  hashToApprove,
  isInterrupted,
  keptDue,
  loopTimeoutMs,
  notApproved,
  type DecisionInput,
} from "../../../src/reconcile/decide.ts";
import type { DeploymentSpec, DeploymentStatus } from "../../../src/model.ts";
import { aDeployment, aSpec, aStatus, aSummary, aValidation } from "../../support/deployments.ts";

const now = Date.parse("2026-01-01T01:00:00Z");
const deployed = aStatus({ lastDeployResult: aSummary(), lastObjectsHash: "h1", observedGeneration: 1 });

interface Case {
  when: string;
  spec?: Partial<DeploymentSpec>;
  status?: DeploymentStatus;
  generation?: number;
  hash?: string;
  retrying?: boolean;
  retryAt?: number;
  deploy: ReturnType<typeof decide>["deploy"];
  waits?: boolean;
}

const table: Case[] = [
  { when: "nothing was ever deployed", status: aStatus(), deploy: "never-deployed" },
  { when: "nothing changed", deploy: undefined },
  { when: "the rendered objects changed", hash: "h2", deploy: "objects-changed" },
  { when: "the spec changed", generation: 2, deploy: "spec-changed" },
  { when: "the deploy interval has passed", spec: { deployIntervalMs: 60_000 }, deploy: "interval" },
  { when: "the deploy interval ends this very moment", spec: { deployIntervalMs: 3_600_000 }, deploy: "interval" },
  { when: "the deploy interval ends in a moment", spec: { deployIntervalMs: 3_600_001 }, deploy: undefined },
  { when: "the deploy interval has not passed", spec: { deployIntervalMs: 7_200_000 }, deploy: undefined },
  {
    when: "it is suspended, intervals do not count",
    spec: { deployIntervalMs: 60_000, suspend: true },
    deploy: undefined,
  },
  {
    when: "the last deploy failed and the retry interval has passed",
    spec: { retryIntervalMs: 60_000 },
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    deploy: "retry",
  },
  {
    when: "the last deploy failed just now",
    spec: { retryIntervalMs: 7_200_000 },
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    deploy: undefined,
  },
  {
    when: "the last deploy failed just now and this is its retry",
    spec: { retryIntervalMs: 7_200_000 },
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    retrying: true,
    deploy: "retry",
  },
  {
    when: "the last deploy failed and its pause is over, long before the interval is",
    spec: { intervalMs: 7_200_000 },
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    retryAt: now,
    deploy: "retry",
  },
  {
    when: "the last deploy failed and its pause is not over",
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    retryAt: now + 1,
    deploy: undefined,
  },
  { when: "a deploy that succeeded is not to be tried again", retryAt: now, deploy: undefined },
  { when: "a deploy that succeeded is not tried again by a retry either", retrying: true, deploy: undefined },
  {
    when: "the last deploy failed, and the retry interval ends this very moment",
    spec: { retryIntervalMs: 3_600_000 },
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    deploy: "retry",
  },
  {
    when: "the last deploy failed, and it is suspended",
    spec: { suspend: true },
    status: { ...deployed, lastDeployResult: aSummary({ errors: 1 }) },
    retrying: true,
    deploy: undefined,
  },
  {
    when: "it is suspended, what somebody asks for finds a change",
    spec: { suspend: true },
    hash: "h2",
    deploy: "objects-changed",
  },
  {
    when: "another approval was given, and nobody has to approve anything",
    spec: { manualObjectsHash: "h2" },
    status: { ...deployed, lastManualObjectsHash: "h1" },
    deploy: undefined,
  },
  { when: "manual and nothing changed", spec: { manual: true }, deploy: undefined, waits: false },
  { when: "manual and nobody approved", spec: { manual: true }, hash: "h2", deploy: undefined, waits: true },
  {
    when: "manual and something else was approved",
    spec: { manual: true, manualObjectsHash: "h1" },
    status: { ...deployed, lastManualObjectsHash: "h1" },
    hash: "h2",
    deploy: undefined,
    waits: true,
  },
  {
    when: "manual and exactly this was approved",
    spec: { manual: true, manualObjectsHash: "h2" },
    status: { ...deployed, lastObjectsHash: "h2" },
    hash: "h2",
    deploy: "approval-changed",
  },
  {
    when: "manual, approved, and already deployed",
    spec: { manual: true, manualObjectsHash: "h1" },
    status: { ...deployed, lastManualObjectsHash: "h1" },
    deploy: undefined,
  },
  { when: "manual and never deployed", spec: { manual: true }, status: aStatus(), deploy: undefined, waits: true },
];

test.each(table)(
  "$when → $deploy",
  ({ spec, status = deployed, generation = 1, hash = "h1", retrying = false, retryAt, deploy, waits = false }) => {
    const decision = decide({ spec: aSpec(spec), status, generation, now, retrying, retryAt }, hash);
    expect(decision.deploy).toBe(deploy);
    expect(decision.waitsForApproval).toBe(waits);
  },
);

const input = (over: Partial<DecisionInput>): DecisionInput => ({
  spec: aSpec(),
  status: deployed,
  generation: 1,
  now,
  retrying: false,
  ...over,
});

test("the comparison is skipped only if any hash would be deployed", () => {
  expect(deployRegardless(input({}))).toBeUndefined();
  expect(deployRegardless(input({ status: aStatus() }))).toBe("never-deployed");
  expect(deployRegardless(input({ generation: 2 }))).toBe("spec-changed");
  expect(deployRegardless(input({ generation: 2, spec: aSpec({ manual: true }) }))).toBeUndefined();
});

test("a deployment that deploys without a comparison would also be deployed for every hash", () => {
  for (const { spec, status = deployed, generation = 1, retrying = false } of table) {
    const one = input({ spec: aSpec(spec), status, generation, retrying });
    if (deployRegardless(one) === undefined) continue;
    for (const hash of ["h1", "h2"]) expect(decide(one, hash).deploy).toBeDefined();
  }
});

test("a failed validation is repeated after the retry interval", () => {
  const spec = aSpec({ validate: true, validateIntervalMs: 3_600_000, retryIntervalMs: 30_000 });
  const validated = (errors: number) => ({
    ...deployed,
    lastValidateResult: aValidation({ endTime: "2026-01-01T00:59:00Z", errors }),
  });
  expect(decide(input({ spec, status: validated(1) }), "h1")).toMatchObject({ deploy: undefined, validate: true });
  expect(decide(input({ spec, status: validated(0) }), "h1").validate).toBe(false);
  expect(decide(input({ spec: { ...spec, suspend: true }, status: validated(1) }), "h1").validate).toBe(false);
  expect(decide(input({ spec, status: validated(1), retryAt: now + 1 }), "h1").validate).toBe(false);
  expect(decide(input({ spec, status: validated(0), retryAt: now }), "h1").validate).toBe(false);
});

test("a validation follows every deploy, and has an interval of its own", () => {
  const spec = aSpec({ validate: true });
  const validated = { ...deployed, lastValidateResult: aValidation({ endTime: "2026-01-01T00:59:00Z" }) };
  expect(decide(input({ spec }), "h1").validate).toBe(true); // never validated
  expect(decide(input({ spec, status: validated }), "h1").validate).toBe(false);
  expect(decide(input({ spec, status: validated }), "h2").validate).toBe(true);
  expect(
    decide(input({ spec: aSpec({ validate: true, validateIntervalMs: 30_000 }), status: validated }), "h1").validate,
  ).toBe(true);
  expect(decide(input({ spec: aSpec({ validate: false }) }), "h2").validate).toBe(false);
  const inOneSecond = aValidation({ endTime: deployed.lastDeployResult!.endTime });
  const rarely = aSpec({ validate: true, validateIntervalMs: 86_400_000 });
  expect(decide(input({ spec: rarely, status: { ...deployed, lastValidateResult: inOneSecond } }), "h1").validate).toBe(
    false,
  );
});

test("a dry run applies nothing that would have to be validated", () => {
  const lastValidateResult = aValidation({ endTime: "2026-01-01T00:58:00Z" });
  const validates = (dryRun: boolean) => {
    const lastDeployResult = aSummary({ endTime: "2026-01-01T00:59:00Z", document: { commandInfo: { dryRun } } });
    const spec = aSpec({ validate: true, dryRun });
    return decide(input({ spec, dryRun, status: { ...deployed, lastDeployResult, lastValidateResult } }), "h1")
      .validate;
  };
  expect([true, false].map(validates)).toEqual([false, true]);
});

test("a changed spec that could not be rendered is deployed once it can be, with manual approval only if approved", () => {
  const observed = (spec: Partial<DeploymentSpec>, status = deployed, generation = 2): DeploymentStatus => {
    const deployment = { ...aDeployment({ status, generation }), spec: aSpec(spec) };
    return { ...status, ...keptDue(deployment), observedGeneration: generation };
  };
  const next = (spec: Partial<DeploymentSpec>, generation?: number) => {
    const status = observed(spec, { ...deployed, lastManualObjectsHash: "h1" }, generation);
    return decide(input({ spec: aSpec(spec), status, generation: status.observedGeneration ?? 0 }), "h1").deploy;
  };
  expect(next({})).toBe("objects-changed");
  expect(next({ manual: true, manualObjectsHash: "h1" })).toBe("approval-changed");
  expect(next({ manual: true, manualObjectsHash: "h2" })).toBeUndefined();
  expect(next({}, 1)).toBeUndefined(); // this spec was observed before
  // Without a hash it would count as a deployment that has begun its first deploy.
  expect(observed({}, aStatus({ lastObjectsHash: "h1" })).lastObjectsHash).toBe("h1");
});

test("a reconciliation times out after the user's timeout or an interval, but never in less than half a minute", () => {
  expect(loopTimeoutMs(aSpec({ timeoutMs: 90_000 }))).toBe(90_000);
  expect(loopTimeoutMs(aSpec({ timeoutMs: 1_000 }))).toBe(30_000);
  expect(loopTimeoutMs(aSpec({ deployIntervalMs: 3_600_000 }))).toBe(3_600_000);
  expect(loopTimeoutMs(aSpec({ intervalMs: 10_000 }))).toBe(30_000);
});

test("with deployOnChanges: false, an interval, an interrupted deploy and a request still deploy", () => {
  const spec = aSpec({ deployOnChanges: false });
  const input: DecisionInput = { spec, status: deployed, generation: 1, now, retrying: false };
  expect(decide(input, "h2").deploy).toBeUndefined();
  expect(decide({ ...input, spec: { ...spec, deployIntervalMs: 60_000 } }, "h2").deploy).toBe("interval");
  expect(decide({ ...input, status: { ...deployed, lastObjectsHash: undefined } }, "h2").deploy).toBe(
    "objects-changed",
  );
  expect(deployRegardless({ ...input, requested: true })).toBe("requested");
});

test("a confirmed prune is a reason to deploy, if the deployment prunes", () => {
  const confirmed = (spec: Partial<DeploymentSpec>, pruneConfirmed = true) =>
    decide(input({ spec: aSpec(spec), pruneConfirmed }), "h1").deploy;
  expect(confirmed({ prune: true })).toBe("prune-confirmed");
  expect(confirmed({ prune: false })).toBeUndefined();
  expect(confirmed({ prune: true }, false)).toBeUndefined();
  expect(confirmed({ prune: true, suspend: true })).toBeUndefined();
});

test("a validation is due when its interval ends, and a failed one when the retry interval ends", () => {
  const at = (msAgo: number) => new Date(now - msAgo).toISOString();
  const validates = (spec: Partial<DeploymentSpec>, msAgo: number, errors = 0) => {
    const status = { ...deployed, lastValidateResult: aValidation({ endTime: at(msAgo), errors }) };
    return decide(input({ spec: aSpec({ validate: true, ...spec }), status }), "h1").validate;
  };
  expect([59_999, 60_000].map((ms) => validates({ validateIntervalMs: 60_000 }, ms))).toEqual([false, true]);
  expect([299_999, 300_000].map((ms) => validates({}, ms))).toEqual([false, true]); // as often as the deployment is checked
  expect([29_999, 30_000].map((ms) => validates({ retryIntervalMs: 30_000 }, ms, 1))).toEqual([false, true]);
});

test("if the end of the last deploy or validation is not a valid time, its interval has ended", () => {
  const status = {
    ...deployed,
    lastDeployResult: aSummary({ endTime: "yesterday" }),
    lastValidateResult: aValidation({ endTime: "yesterday" }),
  };
  const spec = aSpec({ deployIntervalMs: 86_400_000, validate: true });
  expect(decide(input({ spec, status }), "h1").deploy).toBe("interval");
  expect(decide(input({ spec: aSpec({ validate: true }), status }), "h1")).toMatchObject({ validate: true });
});

test("a deploy without a recorded end was interrupted, and before the first deploy nothing was", () => {
  expect(isInterrupted(aStatus({ lastDeployResult: aSummary() }))).toBe(true);
  expect(isInterrupted(deployed)).toBe(false);
  expect(isInterrupted(aStatus())).toBe(false);
});

const applied = (hash: string, errors = 0) => aSummary({ errors, document: { renderedObjectsHash: hash } });
const compared = (hash: unknown) => ({ document: { renderedObjectsHash: hash }, endTime: "2026-01-01T00:30:00Z" });

test.each<{ when: string; spec?: Partial<DeploymentSpec>; status: Partial<DeploymentStatus>; approve?: string }>([
  { when: "nothing was ever rendered", status: {} },
  { when: "it was rendered and never applied", status: { lastObjectsHash: "h2" }, approve: "h2" },
  {
    when: "what was rendered is what was approved",
    spec: { manualObjectsHash: "h2" },
    status: { lastObjectsHash: "h2" },
  },
  {
    when: "what was rendered is what is applied",
    status: { lastObjectsHash: "h2", lastDeployResult: applied("h2") },
  },
  {
    when: "what was rendered is something else than what is applied",
    status: { lastObjectsHash: "h2", lastDeployResult: applied("h1") },
    approve: "h2",
  },
  {
    when: "what was rendered was applied, and not all of it went well",
    status: { lastObjectsHash: "h2", lastDeployResult: applied("h2", 1) },
    approve: "h2",
  },
  {
    when: "a deploy was interrupted, and what it applied was compared since",
    status: { lastDeployResult: applied("h2"), lastDriftDetectionResult: compared("h2") },
    approve: "h2",
  },
  {
    when: "another version of kluctl's controller compared it, and left no hash",
    status: { lastDriftDetectionResult: compared(7) },
  },
  { when: "nobody has to approve it", spec: { manual: false }, status: { lastObjectsHash: "h2" } },
])("$when → waits for the approval of $approve", ({ spec, status, approve }) => {
  const manual = aSpec({ manual: true, ...spec });
  expect(hashToApprove(manual, aStatus(status))).toBe(approve);
  expect(changeWaits(manual, aStatus(status))).toBe(approve !== undefined);
});

test("a deploy that applied another hash than the approved one is an error without an object, and names both hashes", () => {
  const { ref, message } = notApproved("h1", "h2");
  expect(ref).toEqual({ kind: "", name: "" });
  expect(message).toMatch(/^the deploy rendered and applied h2 instead of the approved h1/);
});
