import fc from "fast-check";
import { expect, test } from "vitest";
import { findRisks, lengthOfStates } from "../../../../src/preview/risks.ts";
import { createNeighbours } from "../../../../src/preview/risks/budgets.ts";
import { cpuMs } from "../../../support/cpu-time.ts";
import { changed, created, linesOf, objectOf } from "./find.ts";

const ids = [
  "/Pod", "apps/Deployment", "apps/StatefulSet", "batch/CronJob", "/PersistentVolume", "/PersistentVolumeClaim",
  "/ResourceQuota", "policy/PodDisruptionBudget", "rbac.authorization.k8s.io/ClusterRole",
  "rbac.authorization.k8s.io/ClusterRoleBinding", "rbac.authorization.k8s.io/RoleBinding", "/ConfigMap", "/Service",
  "storage.k8s.io/StorageClass", "__proto__/constructor",
]; // prettier-ignore

/** One object that has everything the risks read, whatever its kind. */
const container = {
  name: "web",
  image: "web:1",
  readinessProbe: {},
  resources: { requests: { cpu: 1 }, limits: { cpu: "1" } },
  ports: [{ hostPort: 80 }],
  securityContext: {
    privileged: true,
    allowPrivilegeEscalation: false,
    runAsUser: 0,
    capabilities: { add: ["BPF"], drop: ["ALL"] },
    seccompProfile: { type: "Unconfined" },
  },
};
const pods = {
  containers: [container],
  initContainers: [{ ...container, name: "init" }],
  securityContext: { runAsNonRoot: true },
  volumes: [
    { name: "a", hostPath: { path: "/" } },
    { name: "b", persistentVolumeClaim: { claimName: "b" } },
  ],
};
const template = { metadata: { labels: { app: "web" } }, spec: pods };
const whole = {
  metadata: { uid: "7c1e", labels: { "rbac.authorization.k8s.io/aggregate-to-view": "true" } },
  parameters: { own: "1" },
  spec: {
    serviceName: "web",
    clusterIP: "10.0.0.1",
    clusterIPs: ["10.0.0.1", "fd00::1"],
    suspend: true,
    ...pods,
    template,
    jobTemplate: { spec: { template } },
    replicas: 1,
    hard: { pods: 1 },
    selector: { matchLabels: { app: "web" }, matchExpressions: [] },
    minAvailable: 1,
    maxUnavailable: "0%",
    persistentVolumeReclaimPolicy: "Retain",
    persistentVolumeClaimRetentionPolicy: { whenDeleted: "Delete", whenScaled: "Delete" },
    resources: { requests: { storage: "1Gi" } },
  },
  status: { capacity: { storage: "1Gi" } },
  immutable: true,
  rules: [{ apiGroups: [""], resources: ["secrets"], verbs: ["*"], resourceNames: ["a"], nonResourceURLs: ["/"] }],
  roleRef: { kind: "ClusterRole", name: "cluster-admin" },
  subjects: [{ kind: "ServiceAccount", name: "web", namespace: "shop" }],
};

const odd = fc.oneof(
  fc.constantFrom<unknown>(
    null, true, 0, 0.5, -1, 1e308, "", "*", "1Gi", "-1%", "100%", "web", "\u0000", [], [null], [[]], ["BPF", 1], {},
    { toString: 1, valueOf: 1 }, { length: 1e9 }, { name: { toString: 1 } }, JSON.parse('{"__proto__":{"name":"web"}}'),
    JSON.parse('{"constructor":{"prototype":[]}}'), JSON.parse(`${"[".repeat(500)}${"]".repeat(500)}`),
  ), // prettier-ignore
  fc.string({ unit: "binary", maxLength: 8 }),
  fc.jsonValue({ maxDepth: 3 }),
);

const pathsIn = (value: unknown): string[][] =>
  typeof value !== "object" || value === null
    ? [[]]
    : [[], ...Object.entries(value).flatMap(([name, each]) => pathsIn(each).map((steps) => [name, ...steps]))];

/** Replaces what is at the path, or removes it. */
function replaced(value: unknown, [name, ...rest]: readonly string[], by: unknown): unknown {
  if (name === undefined) return by;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map((each, i) => (String(i) === name ? replaced(each, rest, by) : each));
  return { ...value, [name]: replaced((value as Record<string, unknown>)[name], rest, by) };
}

const state = fc
  .array(fc.tuple(fc.constantFrom(...pathsIn(whole)), fc.oneof(odd, fc.constant(undefined))), { maxLength: 6 })
  .map((changes) => changes.reduce<unknown>((value, [steps, by]) => replaced(value, steps, by), whole));
const text = fc.oneof(
  { weight: 8, arbitrary: state.map((each) => JSON.stringify(each)) },
  { weight: 1, arbitrary: fc.constantFrom(undefined, "", "cut {", "[]", "7") },
);
const names = pathsIn(whole).flat();
const path = fc
  .array(
    fc.oneof(
      fc.constantFrom(...names, "containers[0]", "containers[99999]", "rules[1]", '["a.b/c"]', '["'),
      fc.string({ maxLength: 4 }),
    ),
    { maxLength: 6 },
  )
  .map((steps) => steps.join("."));
const change = fc.record(
  { type: fc.constantFrom("insert", "update", "delete"), jsonPath: path, oldValue: odd, newValue: odd },
  { requiredKeys: ["type", "jsonPath"] },
);
const object = fc
  .record({
    id: fc.constantFrom(...ids),
    new: fc.boolean(),
    changes: fc.array(change, { maxLength: 5 }),
    rendered: text,
    remote: text,
    applied: text,
  })
  .map(({ id, ...fields }) => objectOf(id, fields));

test("objects of any shape are described without an exception, without a change of theirs, and in fixed words", () => {
  const property = fc.property(
    fc.array(object, { minLength: 1, maxLength: 4 }),
    fc.constantFrom("new", "changed", "deleted", "orphan"),
    (objects, action) => {
      const before = JSON.stringify(objects);
      const risks = objects.flatMap((each) =>
        findRisks({ object: each, action, errors: [], near: createNeighbours(objects) }),
      );
      expect(lengthOfStates(objects)).toBeGreaterThanOrEqual(0);
      for (const { text: words } of risks) expect(words).toMatch(/^[\w :,;.()'-]+$/);
      expect(JSON.stringify(objects)).toBe(before);
      expect(({} as Record<string, unknown>)["spec"]).toBeUndefined();
    },
  );
  fc.assert(property, { numRuns: 300 });
});

test.each(ids)("every part of %s may be something else", (id) => {
  for (const steps of pathsIn(whole)) {
    for (const part of [null, "web", [null], { toString: 1, valueOf: 1 }]) {
      const other = replaced(whole, steps, part);
      expect(() => linesOf(created(id, other))).not.toThrow();
      expect(() => linesOf(changed(id, other, whole))).not.toThrow();
    }
  }
});

test("huge objects take a bounded time", () => {
  const many = <T>(count: number, make: (i: number) => T) => Array.from({ length: count }, (_, i) => make(i));
  const containers = many(5_000, (i) => ({ name: `c${i}`, image: `web:${"1.".repeat(40)}${i}` }));
  const pods = (list: readonly unknown[]) => ({ spec: { template: { spec: { containers: list } } } });
  const lists = {
    apiGroups: many(5_000, String),
    resources: many(5_000, String),
    verbs: ["*", ...many(5_000, String)],
  };
  const labels = Object.fromEntries(many(20, (i) => [`l${i}`, "x"]));
  const budgets = many(300, () =>
    created("policy/PodDisruptionBudget", { spec: { minAvailable: 1, selector: { matchLabels: labels } } }),
  );
  const deployments = many(900, () =>
    created("apps/Deployment", { spec: { replicas: 1, template: { metadata: { labels } } } }),
  );
  const quotas = many(300, () => created("/ResourceQuota", { spec: { hard: { pods: 5, cpu: "1" } } }));
  const kept = budgets.map((each) => ({ ...each, new: false }));
  const near = createNeighbours([...deployments, ...quotas, ...kept]);

  const start = cpuMs();
  linesOf(changed("apps/Deployment", pods(containers), pods(containers.toReversed())));
  linesOf(changed("rbac.authorization.k8s.io/ClusterRole", {}, { rules: [lists] }));
  linesOf(changed("/Pod", `${"[".repeat(100)}`, {}));
  const nested = (depth: number) => `{"spec":{"selector":${'{"a":'.repeat(depth)}1${"}".repeat(depth + 2)}`;
  const deep = { remote: nested(50_000), rendered: nested(49_999), applied: nested(49_999) };
  linesOf(changed("apps/Deployment", {}, {}, deep));
  for (const each of budgets) findRisks({ object: each, action: "new", errors: [], near });
  for (const each of deployments) findRisks({ object: each, action: "new", errors: [], near });
  expect(cpuMs() - start).toBeLessThan(2_000);
});

test("what is parsed to find risks counts as work, and nothing else does", () => {
  const deployment = changed("apps/Deployment", { spec: {} }, { spec: {} });
  const same = { ...deployment, changes: [] };
  expect(lengthOfStates([deployment])).toBeGreaterThan(0);
  expect(lengthOfStates([same, changed("/ConfigMap", {}, {})])).toBe(0);
  expect(lengthOfStates([changed("/PersistentVolumeClaim", {}, {})])).toBeGreaterThan(0);
  expect(lengthOfStates([same, created("policy/PodDisruptionBudget", {})])).toBeGreaterThan(0);
  // An unchanged quota is compared with the workloads that change.
  const quota = { ...changed("/ResourceQuota", {}, {}), changes: [] };
  expect(lengthOfStates([deployment, quota])).toBeGreaterThan(lengthOfStates([deployment]));
  expect(lengthOfStates([same, quota])).toBe(0);
});
