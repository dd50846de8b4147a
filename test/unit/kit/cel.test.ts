import { expect, test } from "vitest";
import { evaluateCel, isTooExpensive, whyNotCel } from "../../../src/kit/cel.ts";

const signal = new AbortController().signal;
const evaluate = async (ready: string, variables: Record<string, unknown>) => {
  const [values] = await evaluateCel([{ expressions: { ready }, variables }], signal);
  return values?.["ready"];
};

const deployment = {
  metadata: { name: "web", generation: 3, labels: { "example.com/tier": "front" } },
  spec: { replicas: 2 },
  status: {
    observedGeneration: 3,
    readyReplicas: 2,
    load: 0.5,
    conditions: [
      { type: "Available", status: "True" },
      { type: "Progressing", status: "False" },
    ],
  },
};

test.each([
  ["status.readyReplicas == spec.replicas", true],
  ["status.readyReplicas >= 2.5", false],
  ["status.load < 1", true],
  ["has(status.failedReplicas) && status.failedReplicas > 0", false],
  ["status.?failedReplicas.orValue(0) == 0", true],
  ["status.conditions.exists(c, c.type == 'Available' && c.status == 'True')", true],
  ["status.conditions.filter(c, c.type == 'Progressing').all(c, c.status == 'True')", false],
  ["metadata.labels['example.com/tier'] == 'front' && metadata.name.startsWith('w')", true],
  ["status.observedGeneration == metadata.generation", true],
])("%s is %j", async (expression, value) => {
  expect(whyNotCel(expression)).toBeUndefined();
  expect(await evaluate(expression, deployment)).toBe(value);
});

test.each([
  ["status.replicas ==", /EOF/],
  ["size(status.conditions)", /type int/],
  ["isReady(status)", /isReady/],
  ["status.conditions.map(c, c.status)", /type list/],
  [`status.phase == "${"x".repeat(2_000)}"`, /2000 characters/],
  [Array.from({ length: 170 }, () => "a == 1").join(" || "), /maxAstNodes/],
])("%s is rejected before it is evaluated", (expression, why) => expect(whyNotCel(expression)).toMatch(why));

test("why there is no value is said without any value of the object", async () => {
  const secret = { data: { password: "hunter2", names: { hunter2: 1 } } };
  for (const expression of ["int(data.password) == 1", "data[data.password] == 1", "data.password", "other.field"]) {
    const why = await evaluate(expression, secret);
    expect(why).toBeTypeOf("string");
    expect(why).not.toContain("hunter2");
  }
});

test("an object has only its own fields", async () => {
  for (const expression of ["data.constructor == null", "data.__proto__ == null", "toString == null"])
    expect(await evaluate(expression, { data: {} })).toBeTypeOf("string");
});

test("an expression that does not end is ended, and others are evaluated after it", { timeout: 60_000 }, async () => {
  const numbers = Array.from({ length: 5_000 }, (_, i) => i);
  const endless = evaluate("n.all(a, n.all(b, n.all(c, a + b + c >= 0)))", { n: numbers });
  const next = evaluate("n.all(a, a >= 0)", { n: numbers });
  expect(isTooExpensive(await endless.catch((error: unknown) => error))).toBe(true);
  expect(await next).toBe(true);
});
