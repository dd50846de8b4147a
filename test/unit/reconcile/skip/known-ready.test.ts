import { expect, test } from "vitest";
import type { ResultObject } from "../../../../src/model.ts";
import { hasKnownRules, isKnownReady } from "../../../../src/skipping/known-ready.ts";
import { anObject, aResult } from "../../../support/deployments.ts";

const startTime = "2026-01-01T00:00:00Z";
const start = Date.parse(startTime);
const json = (kind: string, more: object = {}, apiVersion = "v1") =>
  JSON.stringify({ apiVersion, kind, metadata: { name: "x", generation: 2 }, ...more });
const object = (live: string, more: object = {}) =>
  anObject({ rendered: json("ConfigMap"), remote: live, applied: live, ...more });
const result = (objects: readonly ResultObject[], command: object = {}, more: object = {}) =>
  aResult({ document: { command: { startTime, ...command } }, objects, ...more });
const settings = object(json("ConfigMap"));
const atOnce = { deployed: true, now: start };

test("what was deployed is known to be ready if each of its objects is", () => {
  expect(isKnownReady(result([settings, object(json("Secret"))]), atOnce)).toBe(true);
  expect(isKnownReady(result([settings, object(json("Pod", { status: { phase: "Running" } }))]), atOnce)).toBe(false);
  expect(isKnownReady(result([]), atOnce)).toBe(true);
});

test("objects that were read too long ago, or in a time that the clock does not explain, are not known", () => {
  const within = (now: number) => isKnownReady(result([settings]), { deployed: true, now });
  expect([start, start + 10_000, start + 10_001, start - 1].map(within)).toEqual([true, true, false, false]);
  expect(isKnownReady(aResult({ document: {}, objects: [settings] }), atOnce)).toBe(false);
});

const mistake = [{ ref: { kind: "ConfigMap", name: "x" }, message: "no" }];

test.each([
  ["an error", result([settings], {}, { errors: mistake })],
  ["a warning", result([settings], {}, { warnings: mistake })],
  ["a dry run", result([settings], { dryRun: true })],
  ["a hook", result([{ ...settings, hook: true }])],
  ["an object that is not in the cluster", result([anObject({ rendered: json("ConfigMap") })])],
  ["one that is to be deleted", result([object(json("ConfigMap"), { rendered: annotated("kluctl.io/delete") })])],
  ["one that is deleted first", result([{ ...settings, deleted: true }])],
  ["one that shares its entry with others", result([object(annotated("kluctl.io/diff-name"))])],
  ["one that says itself whether it is ready", result([object(annotated("kluctl.io/is-ready"))])],
  ["one whose validation adds to the result", result([object(annotated("validate-result.kluctl.io/note"))])],
  ["a very large result", result([object(json("ConfigMap", { data: { text: "x".repeat(1_000_000) } }))])],
])("nothing is known after %s", (_, deployed) => {
  expect(isKnownReady(deployed, atOnce)).toBe(false);
});

function annotated(name: string): string {
  return json("ConfigMap", { metadata: { name: "x", annotations: { [name]: "true" } } });
}

test("orphans and deleted objects are not validated", () => {
  const pod = anObject({ remote: json("Pod", { status: {} }) });
  const [gone, orphan] = [
    { ...pod, deleted: true },
    { ...pod, orphan: true },
  ];
  expect(isKnownReady(result([settings, gone, orphan]), atOnce)).toBe(true);
});

test("a comparison shows what is in the cluster, not what a deploy would make of it", () => {
  const bound = (phase: string) => json("PersistentVolumeClaim", { status: { phase } });
  const claim = object(bound("Bound"), { applied: bound("Pending") });
  expect(isKnownReady(result([claim]), { deployed: false, now: start })).toBe(true);
  expect(isKnownReady(result([claim]), { deployed: true, now: start })).toBe(false);
  const fresh = anObject({ rendered: json("ConfigMap"), applied: json("ConfigMap") });
  expect(isKnownReady(result([fresh]), { deployed: false, now: start })).toBe(false);
});

const condition = (type: string, status = "True") => ({ type, status });
const rolling = (more: object = {}) => ({ replicas: 2, updateStrategy: { type: "RollingUpdate", ...more } });

test.each<[boolean, string, string, object]>([
  [true, "v1", "Service", { spec: { clusterIP: "10.0.0.1" }, status: { loadBalancer: {} } }],
  [false, "v1", "Service", { spec: { type: "LoadBalancer", clusterIP: "10.0.0.1" }, status: { loadBalancer: {} } }],
  [false, "v1", "Service", { spec: {}, status: { loadBalancer: {} } }],
  [true, "v1", "Service", { spec: { type: "ExternalName" }, status: { loadBalancer: {} } }],
  [true, "apps/v1", "Deployment", { spec: { replicas: 2 }, status: { replicas: 2, readyReplicas: 2 } }],
  [false, "apps/v1", "Deployment", { spec: { replicas: 2 }, status: { replicas: 2, readyReplicas: 1 } }],
  [false, "apps/v1", "Deployment", { spec: { replicas: 2 }, status: {} }],
  [false, "apps/v1", "Deployment", { spec: { replicas: 2 } }],
  [true, "apps/v1", "Deployment", { spec: { replicas: 0 }, status: {} }],
  [false, "apps/v1", "Deployment", { spec: { replicas: 0 }, status: { observedGeneration: 1 } }],
  [true, "apps/v1", "StatefulSet", { spec: rolling(), status: { updatedReplicas: 2, readyReplicas: 2 } }],
  [false, "apps/v1", "StatefulSet", { spec: rolling(), status: { updatedReplicas: 2, readyReplicas: 1 } }],
  [
    false,
    "apps/v1",
    "StatefulSet",
    { spec: rolling({ rollingUpdate: { partition: 1 } }), status: { updatedReplicas: 2, readyReplicas: 2 } },
  ],
  [
    true,
    "apps/v1",
    "DaemonSet",
    { spec: rolling(), status: { updatedNumberScheduled: 2, desiredNumberScheduled: 2, numberReady: 2 } },
  ],
  [
    false,
    "apps/v1",
    "DaemonSet",
    { spec: rolling(), status: { updatedNumberScheduled: 1, desiredNumberScheduled: 2, numberReady: 2 } },
  ],
  [true, "batch/v1", "Job", { status: { conditions: [condition("Complete")] } }],
  [false, "batch/v1", "Job", { status: { conditions: [condition("Complete"), condition("Failed")] } }],
  [false, "batch/v1", "Job", { status: {} }],
  [true, "apiextensions.k8s.io/v1", "CustomResourceDefinition", { status: { conditions: [condition("Established")] } }],
  [false, "apiextensions.k8s.io/v1", "CustomResourceDefinition", { status: { conditions: [] } }],
  [true, "example.com/v1", "Widget", { status: { observedGeneration: 2 } }],
  [false, "example.com/v1", "Widget", { status: { observedGeneration: 1 } }],
  [false, "example.com/v1", "Widget", {}],
  [false, "example.com/v1", "ConfigMap", {}],
])("known to be ready: %s, a %s %s of %j", (ready, apiVersion, kind, more) => {
  expect(isKnownReady(result([object(json(kind, more, apiVersion))]), atOnce)).toBe(ready);
});

test("the rules of newer versions of kluctl are not known", () => {
  expect(["2.22.1", "2.28.2 /bin/kluctl 1 2 3"].every(hasKnownRules)).toBe(true);
  expect(["2.29.0", "3.0.0", "devel", ""].some(hasKnownRules)).toBe(false);
});
