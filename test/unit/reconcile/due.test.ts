import { expect, test } from "vitest";
import { dueAt, wakes } from "../../../src/reconcile/due.ts";
import { annotation, type Condition, type Deployment, type MalformedDeployment } from "../../../src/model.ts";
import { aDeployment, aSummary, aValidation } from "../../support/deployments.ts";

const now = Date.parse("2026-01-01T01:00:00Z");
const ready = (status: Condition["status"]): Condition => ({
  type: "Ready",
  status,
  reason: "x",
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
});
const healthy = { observedGeneration: 1, conditions: [ready("True")] };

test("a deployment that was never reconciled is due", () => {
  expect(dueAt(aDeployment(), {}, now)).toBe(now);
});

test("after a reconciliation the interval counts from its end", () => {
  expect(dueAt(aDeployment({ status: healthy }), { lastLoopAt: now - 1_000 }, now)).toBe(now - 1_000 + 300_000);
});

test("after a restart the last reconciliation is read from the status", () => {
  const drift = { document: {}, endTime: "2026-01-01T00:58:00Z" };
  const deployment = aDeployment({ status: { ...healthy, lastDriftDetectionResult: drift } });
  expect(dueAt(deployment, {}, now)).toBe(Date.parse("2026-01-01T00:58:00Z") + 300_000);
});

test("a failed deployment is due after the retry interval", () => {
  const deployment = aDeployment({
    spec: { retryIntervalMs: 30_000 },
    status: { observedGeneration: 1, conditions: [ready("False")] },
  });
  expect(dueAt(deployment, { lastLoopAt: now }, now)).toBe(now + 30_000);
});

test("a deployment without a Ready condition counts as failed", () => {
  const deployment = aDeployment({ spec: { retryIntervalMs: 30_000 }, status: { observedGeneration: 1 } });
  expect(dueAt(deployment, { lastLoopAt: now }, now)).toBe(now + 30_000);
});

test("a failed deployment is due at its next retry, but no later than its interval", () => {
  const deployment = aDeployment({ status: { observedGeneration: 1, conditions: [ready("False")] } });
  expect(dueAt(deployment, { lastLoopAt: now, retryAt: now + 60_000 }, now)).toBe(now + 60_000);
  expect(dueAt(deployment, { lastLoopAt: now, retryAt: now + 3_600_000 }, now)).toBe(now + 300_000);
  expect(dueAt(deployment, { retryAt: now + 60_000 }, now)).toBe(now + 60_000);
});

test("deploy and validate intervals make a deployment due earlier, but never before the last reconciliation", () => {
  const status = {
    ...healthy,
    lastDeployResult: aSummary({ endTime: "2026-01-01T00:00:00Z" }),
    lastValidateResult: aValidation(),
  };
  expect(dueAt(aDeployment({ spec: { deployIntervalMs: 60_000 }, status }), { lastLoopAt: now }, now)).toBe(now);
  const later = { ...status, lastDeployResult: aSummary({ endTime: "2026-01-01T01:00:00Z" }) };
  expect(dueAt(aDeployment({ spec: { deployIntervalMs: 60_000 }, status: later }), { lastLoopAt: now }, now)).toBe(
    now + 60_000,
  );
});

test("a suspended deployment is due only until its generation has been observed", () => {
  expect(dueAt(aDeployment({ spec: { suspend: true }, status: healthy }), {}, now)).toBe(Infinity);
  expect(dueAt(aDeployment({ spec: { suspend: true }, status: healthy, generation: 2 }), {}, now)).toBe(now);
});

test("a request or a deletion is due at once", () => {
  const annotations = { "kluctl.io/request-reconcile": "1" };
  expect(dueAt(aDeployment({ spec: { suspend: true }, status: healthy, annotations }), { lastLoopAt: now }, now)).toBe(
    now,
  );
  expect(
    dueAt(aDeployment({ status: healthy, deletionTimestamp: "2026-01-01T00:00:00Z" }), { lastLoopAt: now }, now),
  ).toBe(now);
});

test("a request whose reconciliation must have ended is due, also for a suspended deployment", () => {
  const validateRequestResult = { request: { requestValue: "a" }, startTime: "2026-01-01T00:00:00Z", reconcileId: "" };
  const status = { ...healthy, validateRequestResult };
  expect(dueAt(aDeployment({ spec: { suspend: true, timeoutMs: 60_000 }, status }), { lastLoopAt: now }, now)).toBe(
    now,
  );
  expect(dueAt(aDeployment({ spec: { suspend: true, timeoutMs: 86_400_000 }, status }), { lastLoopAt: now }, now)).toBe(
    Infinity,
  );
});

test("a malformed deployment is reported once and then waits for a change", () => {
  const { spec: _spec, repo: _repo, ...identity } = aDeployment();
  const malformed: MalformedDeployment = { ...identity, problem: "spec.interval is missing" };
  expect(dueAt(malformed, {}, now)).toBe(now);
  expect(
    dueAt({ ...malformed, status: { conditions: [], lastPrepareError: malformed.problem } }, { lastLoopAt: now }, now),
  ).toBe(Infinity);
  const conditions = [{ ...ready("True"), type: "Reconciling" }];
  expect(dueAt({ ...malformed, status: { conditions, lastPrepareError: malformed.problem } }, {}, now)).toBe(now);
});

test("our own status writes cause no reconciliation, and a new generation, a request or a deletion does", () => {
  const seen = aDeployment({ status: healthy });
  expect(wakes("changed", { ...seen, resourceVersion: "2" }, seen)).toBeUndefined();
  expect(wakes("changed", { ...seen, generation: 2 }, seen)).toBe("change");
  expect(wakes("changed", { ...seen, annotations: { "kluctl.io/request-reconcile": "1" } }, seen)).toBe("manual");
  expect(wakes("changed", { ...seen, deletionTimestamp: "2026-01-01T00:00:00Z" }, seen)).toBe("change");
  expect(wakes("removed", seen, seen)).toBeUndefined();
  const another = aDeployment({ ...seen, spec: { source: { ...seen.spec.source, ref: { branch: "other" } } } });
  expect(wakes("changed", another, seen)).toBe("sweep");
  expect(wakes("changed", seen, { ...seen, problem: "no GitRepository" })).toBe("sweep");
});

test("a request in progress is taken up only by a server that starts, because otherwise a worker is on it", () => {
  const deployRequestResult = { request: { requestValue: "a" }, startTime: "2026-01-01T00:00:00Z", reconcileId: "" };
  const taken = aDeployment({ status: { ...healthy, deployRequestResult } });
  expect(wakes("added", taken, undefined)).toBe("manual");
  expect(wakes("changed", taken, aDeployment({ status: healthy }))).toBeUndefined();
});

test("after a restart only deployments with unhandled changes are reconciled", () => {
  expect(wakes("added", aDeployment({ status: healthy }), undefined)).toBeUndefined();
  expect(wakes("added", aDeployment(), undefined)).toBe("change");
});

test("a reconciliation that writes nothing for a minute is due, whatever its interval, and also while suspended", () => {
  const status = { ...healthy, conditions: [ready("Unknown"), { ...ready("True"), type: "Reconciling" }] };
  const spec = { intervalMs: 24 * 3_600_000 };
  const [one, suspended] = [aDeployment({ spec, status }), aDeployment({ spec: { ...spec, suspend: true }, status })];
  const progressAt = now - 1_000;
  for (const deployment of [one, suspended]) {
    expect(dueAt(deployment, { lastLoopAt: now, progressAt }, now)).toBe(progressAt + 60_000);
    expect(dueAt(deployment, { lastLoopAt: now }, now)).toBeGreaterThan(now + 3_600_000);
  }
  const ended = aDeployment({ spec, status: healthy });
  expect(dueAt(ended, { lastLoopAt: now, progressAt }, now)).toBeGreaterThan(now + 3_600_000);
});

test("an interrupted reconciliation is taken up by the next server that starts", () => {
  const working = { ...ready("True"), type: "Reconciling" };
  const brokenOff = aDeployment({ status: { ...healthy, conditions: [ready("Unknown"), working] } });
  expect(wakes("added", brokenOff, undefined)).toBe("interval");
  expect(wakes("changed", brokenOff, aDeployment({ status: healthy }))).toBeUndefined();
  expect(wakes("added", aDeployment({ status: healthy }), undefined)).toBeUndefined();
});

test("a failed deployment is never checked less often than a healthy one", () => {
  const failed = { observedGeneration: 1, conditions: [ready("False")] };
  const deployment = aDeployment({ spec: { retryIntervalMs: 3_600_000 }, status: failed });
  expect(dueAt(deployment, { lastLoopAt: now }, now)).toBe(now + 300_000);
  const well = aDeployment({ spec: { retryIntervalMs: 30_000 }, status: healthy });
  expect(dueAt(well, { lastLoopAt: now }, now)).toBe(now + 300_000);
});

test("deploy and validate intervals begin with the first deploy or validation, and only if they are configured", () => {
  const day = 24 * 3_600_000;
  const due = (spec: object, status: object) =>
    dueAt(
      aDeployment({ spec: { intervalMs: day, ...spec }, status: { ...healthy, ...status } }),
      { lastLoopAt: now },
      now,
    );
  const validated = { lastValidateResult: aValidation({ endTime: "2026-01-01T01:00:00Z" }) };
  const deployed = { lastDeployResult: aSummary({ endTime: "2026-01-01T01:00:00Z" }) };
  expect(due({ deployIntervalMs: 60_000 }, {})).toBe(now + day);
  expect(due({}, deployed)).toBe(now + day);
  expect(due({ validate: true, validateIntervalMs: 60_000 }, validated)).toBe(now + 60_000);
  expect(due({ validate: false, validateIntervalMs: 60_000 }, validated)).toBe(now + day);
  expect(due({ validate: true, validateIntervalMs: 60_000 }, {})).toBe(now + day);
  const past = { lastValidateResult: aValidation({ endTime: "2026-01-01T00:00:00Z" }) };
  expect(due({ validate: true, validateIntervalMs: 60_000 }, past)).toBe(now);
});

test("the latest known reconciliation counts, but none in the future, because another server's clock may be ahead", () => {
  const looked = (endTime: string) => ({ ...healthy, lastDriftDetectionResult: { document: {}, endTime } });
  const due = (endTime: string, lastLoopAt?: number) =>
    dueAt(aDeployment({ status: looked(endTime) }), { lastLoopAt }, now);
  expect(due("2026-01-01T00:59:00Z", now - 120_000)).toBe(now - 60_000 + 300_000);
  expect(due("2026-01-01T00:58:00Z", now - 60_000)).toBe(now - 60_000 + 300_000);
  expect(due("2026-01-02T00:00:00Z", now - 60_000)).toBe(now + 300_000);
  expect(due("yesterday", now - 60_000)).toBe(now - 60_000 + 300_000);
  expect(due("yesterday")).toBe(now); // no reconciliation is known
});

test("a deployment whose last deploy has no valid time is due at once", () => {
  const status = { ...healthy, lastDeployResult: aSummary({ endTime: "yesterday" }) };
  expect(dueAt(aDeployment({ spec: { deployIntervalMs: 60_000 }, status }), { lastLoopAt: now }, now)).toBe(now);
});

test("after a restart the latest recorded time counts", () => {
  const status = {
    ...healthy,
    lastDriftDetectionResult: { document: {}, endTime: "2026-01-01T00:10:00Z" },
    lastDeployResult: aSummary({ endTime: "2026-01-01T00:59:00Z" }),
    lastValidateResult: aValidation({ endTime: "2026-01-01T00:20:00Z" }),
  };
  expect(dueAt(aDeployment({ status }), {}, now)).toBe(Date.parse("2026-01-01T00:59:00Z") + 300_000);
});

test("a request is given up at the moment when its reconciliation must have ended", () => {
  const begun = (startTime: string) => ({ request: { requestValue: "a" }, startTime, reconcileId: "" });
  const due = (startTime: string) => {
    const status = { ...healthy, validateRequestResult: begun(startTime) };
    return dueAt(aDeployment({ spec: { suspend: true, timeoutMs: 1_800_000 }, status }), {}, now);
  };
  expect(due("2026-01-01T00:00:00Z")).toBe(now);
  expect(due("2026-01-01T00:00:01Z")).toBe(Infinity);
});

test("a resource that was deleted and created again counts as changed, even with the same generation", () => {
  const before = aDeployment({ status: healthy });
  const after = aDeployment({ uid: "another" });
  expect(wakes("changed", after, before)).toBe("change");
  expect(wakes("changed", aDeployment(), aDeployment({ resourceVersion: "0" }))).toBeUndefined(); // seen before
});

test("a resource that is being deleted is reconciled by a server that starts", () => {
  const going = aDeployment({ status: healthy, deletionTimestamp: "2026-01-01T00:00:00Z" });
  expect(wakes("added", going, undefined)).toBe("change");
  expect(wakes("changed", going, going)).toBeUndefined();
});

test("a confirmed prune causes one reconciliation, and an earlier confirmation causes none", () => {
  const confirmed = (hash: string) =>
    aDeployment({ status: healthy, annotations: { "towline.dev/confirm-prune": hash } });
  const before = aDeployment({ status: healthy });
  expect(wakes("changed", confirmed("1"), before)).toBe("change");
  expect(wakes("changed", confirmed("2"), confirmed("1"))).toBe("change");
  expect(wakes("changed", confirmed("1"), confirmed("1"))).toBeUndefined();
  expect(wakes("changed", before, confirmed("1"))).toBeUndefined();
  expect(wakes("changed", confirmed(""), before)).toBeUndefined();
});

test("a prune that was confirmed while no server watched is due, and any other value of the annotation is not", () => {
  const message = "deploy succeeded. They are not pruned: towline.dev/confirm-prune=0123456789abcdef. Another note.";
  const waiting = (confirmed: string | undefined, words = message, suspend = false) =>
    aDeployment({
      spec: { suspend },
      status: { ...healthy, conditions: [{ ...ready("True"), message: words }] },
      annotations: confirmed === undefined ? {} : { "towline.dev/confirm-prune": confirmed },
    });
  const due = (deployment: Deployment) => dueAt(deployment, { lastLoopAt: now }, now);
  expect(due(waiting("0123456789abcdef"))).toBe(now);
  for (const other of [undefined, "", "0123", "fedcba9876543210"]) expect(due(waiting(other))).toBe(now + 300_000);
  expect(due(waiting("0123456789abcdef", "deploy succeeded."))).toBe(now + 300_000);
  expect(due(waiting("0123456789abcdef", message, true))).toBe(Infinity);
});

test("a spec that cannot be read causes one reconciliation for each problem", () => {
  const { spec: _spec, repo: _repo, ...identity } = aDeployment();
  const malformed = (generation: number, problem: string, reported?: string): MalformedDeployment => ({
    ...identity,
    ...{ generation, problem, status: { conditions: [], lastPrepareError: reported } },
  });
  expect(wakes("added", malformed(1, "a"), undefined)).toBe("change");
  expect(wakes("added", malformed(1, "a", "a"), undefined)).toBeUndefined();
  expect(wakes("changed", malformed(2, "b", "a"), malformed(1, "a", "a"))).toBe("change");
  expect(wakes("changed", malformed(2, "a", "a"), malformed(1, "a", "a"))).toBeUndefined();
  expect(wakes("changed", malformed(1, "a", "a"), aDeployment())).toBeUndefined();
});

test("a wait for health is due when its job has been lost, also while suspended, and after a restart", () => {
  const pending = { ...ready("Unknown"), reason: "HealthCheckPending", lastTransitionTime: "2026-01-01T00:59:30Z" };
  const awaiting = aDeployment({ spec: { suspend: true }, status: { observedGeneration: 1, conditions: [pending] } });
  expect(dueAt(awaiting, {}, now)).toBe(now + 30_000);
  expect(dueAt(awaiting, { lastLoopAt: now - 10_000 }, now)).toBe(now + 50_000);
  expect(wakes("added", awaiting, undefined)).toBe("interval");
});

test("another health check, or another time-out for it, requires a reconciliation", () => {
  const withChecks = (annotations: Record<string, string>) => aDeployment({ annotations, status: healthy });
  const before = withChecks({ [annotation.healthChecks]: "[]" });
  expect(wakes("changed", before, before)).toBeUndefined();
  expect(wakes("changed", withChecks({ [annotation.healthChecks]: "[a]" }), before)).toBe("change");
  const limited = withChecks({ ...before.annotations, [annotation.healthTimeout]: "1m" });
  expect(wakes("changed", limited, before)).toBe("change");
  expect(wakes("changed", withChecks({}), before)).toBe("change");
});

test("a deployment that waits for a dependency is checked every minute, because nothing repeats a wake-up that was lost", () => {
  const blocked = (reason: string, over: object = {}) => {
    const conditions = [{ ...ready("Unknown"), reason, lastTransitionTime: "2026-01-01T00:59:30Z" }];
    const lastDriftDetectionResult = { document: {}, endTime: "2026-01-01T00:00:00Z" };
    const status = { observedGeneration: 1, conditions, lastDriftDetectionResult };
    return aDeployment({ spec: { intervalMs: 24 * 3_600_000, ...over }, status });
  };
  expect(dueAt(blocked("DependencyNotReady"), {}, now)).toBe(now + 30_000);
  expect(dueAt(blocked("DependencyImpossible"), {}, now)).toBeGreaterThan(now + 3_600_000);
  expect(dueAt(blocked("DependencyNotReady"), { lastLoopAt: now - 10_000 }, now)).toBe(now + 50_000);
  expect(dueAt(blocked("DependencyNotReady", { suspend: true }), {}, now)).toBe(Infinity);
  expect(dueAt(blocked("Progressing"), {}, now)).toBeGreaterThan(now + 3_600_000);
});
