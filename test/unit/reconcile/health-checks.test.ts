import { expect, test } from "vitest";
import { healthChecksOf } from "../../../src/guards/health-checks.ts";
import { judge, sumUp } from "../../../src/guards/health.ts";
import { readinessOf } from "../../../src/guards/readiness.ts";
import { annotation, type ObjectHealth } from "../../../src/model.ts";
import { aDeployment } from "../../support/deployments.ts";

const parsed = (text: string, timeout?: string, spec = {}) =>
  healthChecksOf(
    aDeployment({
      spec,
      annotations: { [annotation.healthChecks]: text, ...(timeout && { [annotation.healthTimeout]: timeout }) },
    }),
  );

test("objects and kinds are listed as YAML or JSON, with or without expressions", () => {
  const checks = [
    { apiVersion: "apps/v1", kind: "Deployment" },
    {
      apiVersion: "v1",
      kind: "ConfigMap",
      name: "flag",
      namespace: "shop",
      current: "data.on == 'yes'",
      failed: "false",
    },
  ];
  expect(parsed(JSON.stringify(checks))).toEqual({ checks, timeoutMs: 300_000 });
  expect(parsed("- {apiVersion: apps/v1, kind: Deployment, name: web}")).toMatchObject({ checks: [{ name: "web" }] });
  expect(healthChecksOf(aDeployment())).toBeUndefined();
});

test("the time-out is the annotation's, else that of the spec, else five minutes", () => {
  expect(parsed("[]", undefined, { timeoutMs: 60_000 })).toMatchObject({ timeoutMs: 60_000 });
  expect(parsed("[]", "90s", { timeoutMs: 60_000 })).toMatchObject({ timeoutMs: 90_000 });
  for (const wrong of ["5", "soon", "-1m", "25h"])
    expect(parsed("[]", wrong)).toEqual({ problem: expect.stringContaining(annotation.healthTimeout) });
});

const one = "apiVersion: v1, kind: ConfigMap";
test.each([
  ["[", "is not YAML"],
  ["a: 1", "is not a list"],
  ["[1]", "entry 1: it is not an object"],
  ["[{kind: ConfigMap}]", "entry 1 (ConfigMap): apiVersion is missing"],
  [`[{${one}}, {apiVersion: v1, kind: 3}]`, "entry 2: kind is not a text"],
  [`[{${one}, name: a/b}]`, "entry 1 (ConfigMap a/b): name is not the name of an object"],
  [`[{${one}, name: flag, curent: "true"}]`, 'entry 1 (ConfigMap flag): "curent" is not a known field; use apiVersion'],
  [`[{${one}, current: "data.on =="}]`, "entry 1 (ConfigMap): current is not a CEL expression: Unexpected token"],
  [`[{${one}, failed: "data.off == 'yes'"}]`, "entry 1 (ConfigMap): current is missing"],
  [`[{&a ${one}}, *a]`, "is not YAML"],
  [`[${Array.from({ length: 51 }, () => `{${one}}`).join(",")}]`, "more than 50 entries"],
  [" ".repeat(50_001), "more than 50000 characters"],
])("%s: the message names the entry, the field and the mistake", (text, problem) => {
  expect(parsed(text)).toEqual({ problem: expect.stringContaining(problem) });
});

const object = (kind: string, status?: object, spec: object = {}, metadata: object = {}) => {
  const [apiVersion, name] = kind.split(" ");
  return { apiVersion, kind: name, metadata: { generation: 2, name: "x", ...metadata }, spec, status };
};
const pods = { observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2, readyReplicas: 2 };
const condition = (type: string, status: string, reason = "") => ({ conditions: [{ type, status, reason }] });

test.each([
  ["current", object("v1 ConfigMap")],
  ["current", object("apps/v1 Deployment", pods, { replicas: 2 })],
  ["in-progress", object("apps/v1 Deployment", { ...pods, observedGeneration: 1 }, { replicas: 2 })],
  ["in-progress", object("apps/v1 Deployment", { ...pods, availableReplicas: 1 }, { replicas: 2 })],
  ["in-progress", object("apps/v1 Deployment", { ...pods, replicas: 3 }, { replicas: 2 })],
  ["in-progress", object("apps/v1 Deployment", undefined)],
  ["current", object("apps/v1 Deployment", { observedGeneration: 2 }, { replicas: 0 })],
  ["failed", object("apps/v1 Deployment", condition("Progressing", "False", "ProgressDeadlineExceeded"))],
  ["current", object("apps/v1 StatefulSet", pods, { replicas: 2 })],
  [
    "in-progress",
    object("apps/v1 StatefulSet", { ...pods, currentRevision: "a", updateRevision: "b" }, { replicas: 2 }),
  ],
  ["in-progress", object("apps/v1 StatefulSet", { ...pods, readyReplicas: 1 }, { replicas: 2 })],
  ["in-progress", object("apps/v1 DaemonSet")],
  [
    "current",
    object("apps/v1 DaemonSet", { desiredNumberScheduled: 1, updatedNumberScheduled: 1, numberAvailable: 1 }),
  ],
  ["in-progress", object("apps/v1 DaemonSet", { desiredNumberScheduled: 1, updatedNumberScheduled: 1 })],
  ["failed", object("v1 Pod", { phase: "Failed" })],
  ["in-progress", object("v1 Pod", { phase: "Running" })],
  ["current", object("v1 Pod", { phase: "Running", ...condition("Ready", "True") })],
  ["in-progress", object("v1 PersistentVolumeClaim", { phase: "Pending" })],
  ["current", object("v1 Service", { loadBalancer: {} }, { type: "ClusterIP" })],
  ["in-progress", object("v1 Service", { loadBalancer: {} }, { type: "LoadBalancer" })],
  ["in-progress", object("batch/v1 Job", {})],
  ["current", object("batch/v1 Job", condition("Complete", "True"))],
  ["failed", object("batch/v1 Job", condition("Failed", "True"))],
  ["in-progress", object("apiextensions.k8s.io/v1 CustomResourceDefinition", {})],
  ["current", object("apiextensions.k8s.io/v1 CustomResourceDefinition", condition("Established", "True"))],
  ["in-progress", object("example.com/v1 Thing", condition("Ready", "False"))],
  ["current", object("example.com/v1 Thing", condition("Ready", "True"))],
  ["failed", object("example.com/v1 Thing", condition("Stalled", "True"))],
  ["in-progress", object("example.com/v1 Thing", condition("Reconciling", "True"))],
  ["in-progress", object("v1 ConfigMap", undefined, {}, { deletionTimestamp: "2026-01-01T00:00:00Z" })],
  ["in-progress", object("v1 ConfigMap", undefined, {}, { annotations: { "kluctl.io/is-ready": "false" } })],
  ["current", object("v1 Pod", { phase: "Failed" }, {}, { annotations: { "kluctl.io/is-ready": "true" } })],
  ["in-progress", object("apps/v1 Deployment", { conditions: "none", replicas: "many" })],
  ["current", { apiVersion: "v1", kind: "Nothing", metadata: null, status: [null] }],
])("%s: %j", (state, one) => expect(readinessOf(one).state).toBe(state));

const healthOf = (name: string, state: ObjectHealth["state"]): ObjectHealth => ({
  object: `ConfigMap shop/${name}`,
  state,
  why: "`current` is not true",
});

test("the name of an object that a foreign cluster made up is shown as a name", () => {
  const strange = { kind: "Config\nMap", metadata: { namespace: "a b", name: `<b>${"x".repeat(300)}` }, status: {} };
  const { object } = judge(strange, { current: true });
  expect(object).toMatch(/^Config\?Map a\?b\/\?b\?x+$/);
  expect(object.length).toBeLessThan(300);
});

test("one failed object ends the wait, and the message names it", () => {
  const all = [healthOf("a", "current"), healthOf("b", "in-progress"), healthOf("c", "failed")];
  expect(sumUp(all, 0, 60_000)).toEqual({
    kind: "unhealthy",
    message: "Health check failed: ConfigMap shop/c (`current` is not true).",
  });
});

test("objects in progress are waited for until the time is over", () => {
  const all = ["a", "b", "c", "d", "e"].map((name) => healthOf(name, name === "a" ? "current" : "in-progress"));
  expect(sumUp(all, 0, 60_000)).toEqual({
    kind: "waiting",
    message: "Waiting until ConfigMap shop/b and 3 more are healthy.",
    againMs: 1_000,
  });
  expect(sumUp(all, 30_000, 60_000)).toMatchObject({ againMs: 3_000 });
  expect(sumUp(all, 59_500, 60_000)).toMatchObject({ againMs: 500 });
  expect(sumUp(all, 60_000, 60_000)).toMatchObject({
    message: expect.stringMatching(/timed out: .*shop\/b .* and 1 more/),
  });
  expect(sumUp([], 0, 60_000)).toEqual({ kind: "healthy" });
});
