import { expect, test } from "vitest";
import { annotation, type Condition, type Key, keyText } from "../../../src/model.ts";
import { dependenciesOf, findCycle, whyNotReady } from "../../../src/guards/depends-on.ts";
import { aDeployment, aSummary } from "../../support/deployments.ts";

const ready: Condition = { type: "Ready", status: "True", reason: "ok", message: "fine", lastTransitionTime: "" };

const named = (text: string) => dependenciesOf(aDeployment({ annotations: { [annotation.dependsOn]: text } }));

test("names are separated by commas or lines, and are in the deployment's own namespace by default", () => {
  expect(named("db, platform/ingress\n db ,,").keys.map(keyText)).toEqual(["shop/db", "platform/ingress"]);
  expect(named("").keys).toEqual([]);
  expect(dependenciesOf(aDeployment()).keys).toEqual([]);
});

test.each(["a/b/c", "UPPER", "/x", "x/", "a b", "../etc"])(
  "%j is not a valid name, and the message says so",
  (text) => {
    const { keys, problem } = named(`db,${text}`);
    expect(keys).toEqual([]);
    expect(problem).toContain("towline.dev/depends-on");
    expect(problem).toContain(text);
  },
);

test("a deployment cannot have more than 50 dependencies", () => {
  expect(named(Array.from({ length: 51 }, (_, i) => `d${i}`).join(",")).problem).toContain("more than 50");
});

test("a cycle is found from each of its members, and only from those", () => {
  const graph: Record<string, string[]> = {
    "n/a": ["b"],
    "n/b": ["x", "c"],
    "n/c": ["a"],
    "n/d": ["a"],
    "n/x": [],
    "n/s": ["s"],
  };
  const key = (name: string): Key => ({ namespace: "n", name });
  const next = (of: Key) => (graph[keyText(of)] ?? []).map(key);
  const cycle = (name: string) => findCycle(key(name), next)?.map((one) => one.name);
  expect(cycle("a")).toEqual(["a", "b", "c", "a"]);
  expect(cycle("b")).toEqual(["b", "c", "a", "b"]);
  expect(cycle("s")).toEqual(["s", "s"]);
  expect(cycle("d")).toBeUndefined();
  expect(cycle("x")).toBeUndefined();
});

test("a dependency is ready if it is Ready at its current generation", () => {
  const at = (status: object, rest: object = {}) =>
    whyNotReady(
      aDeployment({ generation: 2, status: { observedGeneration: 2, conditions: [ready], ...status }, ...rest }),
      undefined,
    );
  expect(at({})).toBeUndefined();
  expect(at({ observedGeneration: 1 })).toMatch(/spec changed/);
  expect(at({ observedGeneration: undefined })).toMatch(/for the first time/);
  expect(at({ conditions: [] })).toMatch(/not been reconciled yet/);
  expect(at({ conditions: [{ ...ready, status: "False", message: "deploy failed with 1 errors.\nmore" }] })).toBe(
    "deploy failed with 1 errors.",
  );
  expect(at({ conditions: [{ ...ready, status: "Unknown", message: "" }] })).toBe("Ready is Unknown");
  expect(at({}, { deletionTimestamp: "2026-01-01T00:00:00Z" })).toMatch(/being deleted/);
  expect(whyNotReady(undefined, undefined)).toMatch(/no such KluctlDeployment/);
});

test("a dependency on the same branch has to be at the same commit, unless it is suspended or waits for approval", () => {
  const status = { observedGeneration: 1, observedCommit: "c1", conditions: [ready] };
  expect(whyNotReady(aDeployment({ status }), "c1")).toBeUndefined();
  expect(whyNotReady(aDeployment({ status }), "c2c2c2c2")).toBe("it is not at commit c2c2c2c yet");
  expect(whyNotReady(aDeployment({ status, spec: { suspend: true } }), "c2")).toBeUndefined();
  const unapproved = {
    ...status,
    lastObjectsHash: "new",
    lastDeployResult: aSummary({ document: { renderedObjectsHash: "old" } }),
  };
  expect(whyNotReady(aDeployment({ status: unapproved, spec: { manual: true } }), "c1")).toMatch(/approval/);
});
