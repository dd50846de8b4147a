import { expect, test } from "vitest";
import { requestAnnotation } from "../../../src/model.ts";
import { asksAnew, findRequest, givenUpAt, nextCommand, parseRequest } from "../../../src/requests/requests.ts";
import { aDeployment } from "../../support/deployments.ts";

test.each([
  ['{"requestValue":"now"}', { requestValue: "now" }],
  ['{"requestValue":"now","overridesPatch":null}', { requestValue: "now" }],
  [
    '{"requestValue":"now","overridesPatch":{"spec":{"dryRun":true}}}',
    { requestValue: "now", overridesPatch: { spec: { dryRun: true } } },
  ],
  // YAML, which kluctl accepts too
  [
    "requestValue: now\noverridesPatch: {spec: {dryRun: true}}",
    { requestValue: "now", overridesPatch: { spec: { dryRun: true } } },
  ],
  // plain values, written by hand
  ["2026-01-01T00:00:00+01:00", { requestValue: "2026-01-01T00:00:00+01:00" }],
  ["17", { requestValue: "17" }],
  ["now!", { requestValue: "now!" }],
  ["%", { requestValue: "%" }],
])("%s is a request", (annotation, request) => {
  expect(parseRequest(annotation)).toEqual({ request });
});

test.each([
  ["{", "{"],
  ["{}", "{}"],
  ['{"requestValue":""}', '{"requestValue":""}'],
  ['{"requestValue":17}', '{"requestValue":17}'],
  ['["now"]', '["now"]'],
  ['{"requestValue":"now","dryRun":true}', "now"],
  ['{"requestValue":"now","overridesPatch":"spec"}', "now"],
  ['{"requestValue":"now","overridesPatch":[]}', "now"],
  [`{"requestValue":"now","overridesPatch":${'{"a":'.repeat(60)}1${"}".repeat(60)}}`, "now"],
])("%s is refused, with a request value that its author can recognise", (annotation, requestValue) => {
  expect(parseRequest(annotation)).toEqual({
    request: { requestValue },
    problem: expect.stringContaining("invalid request: ") as string,
  });
});

test("an unknown field of a request is named", () => {
  expect(parseRequest('{"requestValue":"now","dryRun":true}').problem).toContain("dryRun is invalid");
});

test("requests are carried out in kluctl's order, and a new request comes before an interrupted one", () => {
  const unfinished = { request: { requestValue: "old" }, startTime: "2026-01-01T00:00:00Z", reconcileId: "" };
  const annotations = { [requestAnnotation("prune")]: "b", [requestAnnotation("deploy")]: "a" };
  expect(nextCommand(aDeployment({ annotations }))).toMatchObject({ kind: "deploy", annotation: "a" });
  const both = aDeployment({ annotations, status: { deployRequestResult: unfinished } });
  expect(nextCommand(both)).toMatchObject({ kind: "deploy", request: { requestValue: "a" } });
  expect(nextCommand(aDeployment({ status: { pruneRequestResult: unfinished } }))).toMatchObject({
    kind: "prune",
    annotation: undefined,
  });
  const finished = { ...unfinished, endTime: "2026-01-01T00:00:01Z" };
  expect(nextCommand(aDeployment({ status: { pruneRequestResult: finished } }))).toBeUndefined();
  expect(nextCommand(aDeployment({ annotations: { [requestAnnotation("reconcile")]: "a" } }))).toBeUndefined();
});

test("an interrupted reconcile with overrides is not repeated, because the overrides may be incomplete", () => {
  const request = { requestValue: "old", overridesPatch: { spec: {} } };
  const reconcileRequestResult = { request, startTime: "2026-01-01T00:00:00Z", reconcileId: "" };
  expect(findRequest(aDeployment({ status: { reconcileRequestResult } }), "reconcile")?.problem).toContain("ended");
  const plain = { ...reconcileRequestResult, request: { requestValue: "old" } };
  expect(findRequest(aDeployment({ status: { reconcileRequestResult: plain } }), "reconcile")?.problem).toBeUndefined();
});

test("only a request that was not there before counts as new", () => {
  const asked = aDeployment({ annotations: { [requestAnnotation("diff")]: "1" } });
  const again = aDeployment({ annotations: { [requestAnnotation("diff")]: "2" } });
  const more = aDeployment({ annotations: { [requestAnnotation("diff")]: "1", [requestAnnotation("validate")]: "1" } });
  expect([undefined, aDeployment(), again].map((previous) => asksAnew(asked, previous))).toEqual([true, true, true]);
  expect(asksAnew(more, asked)).toBe(true);
  expect(asksAnew(asked, more)).toBe(false);
  expect(asksAnew(asked, asked)).toBe(false);
});

test("a request in progress is given up when its reconciliation must have ended", () => {
  const unfinished = { request: { requestValue: "a" }, startTime: "2026-01-01T00:00:00Z", reconcileId: "" };
  const deployment = aDeployment({ spec: { timeoutMs: 60_000 }, status: { validateRequestResult: unfinished } });
  expect(givenUpAt(deployment)).toBe(Date.parse("2026-01-01T00:02:00Z"));
  expect(givenUpAt(aDeployment())).toBeUndefined();
});
