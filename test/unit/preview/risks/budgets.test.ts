import { expect, test } from "vitest";
import { changed, created, linesOf, objectOf } from "./find.ts";

const id = "policy/PodDisruptionBudget";
const selector = { matchLabels: { app: "web" } };
const budget = (fields: object) => ({ spec: { selector, ...fields } });
const workload = (replicas: number | undefined, app = "web") => ({
  spec: { replicas, template: { metadata: { labels: { app, tier: "front" } } } },
});
const running = (replicas: number | undefined, app?: string, kind = "apps/Deployment") => {
  const state = JSON.stringify(workload(replicas, app));
  return objectOf(kind, { rendered: state, remote: state, applied: state });
};

const noEviction = ["availability: it allows no eviction: nodes that run its pods cannot be drained"];

test.each([
  [{ maxUnavailable: 0 }, [], true],
  [{ maxUnavailable: "0%" }, [], true],
  [{ maxUnavailable: 1 }, [running(1)], false],
  [{ maxUnavailable: "10%" }, [running(1)], false], // rounded up
  [{ minAvailable: "100%" }, [], true],
  [{ minAvailable: 1 }, [running(1)], true],
  [{ minAvailable: 2 }, [running(1)], true],
  [{ minAvailable: 2 }, [running(3)], false],
  [{ minAvailable: "90%" }, [running(3)], true], // rounded up
  [{ minAvailable: "50%" }, [running(3)], false],
  [{ minAvailable: 1 }, [], false],
  [{ minAvailable: 1 }, [running(1, "api")], false],
  [{ minAvailable: 1 }, [running(0)], false],
  [{ minAvailable: 1 }, [running(1), running(1)], false],
  [{ minAvailable: 2 }, [running(1), running(1)], true],
  [{ minAvailable: 1 }, [running(undefined)], false], // a matter of an autoscaler
  [{ minAvailable: 1 }, [running(1), running(undefined, "web", "apps/DaemonSet")], false],
  [{ minAvailable: 1, selector: {} }, [running(1)], false], // all pods of the namespace
  [{ minAvailable: 1, selector: { ...selector, matchExpressions: [{}] } }, [running(1)], false],
  [{ minAvailable: 1 }, [{ ...running(1), ref: { ...running(1).ref, namespace: "other" } }], false],
  [{ minAvailable: 1 }, [{ ...running(1), orphan: true }], false],
])("a budget with %j allows no eviction: %s", (fields, beside, blocks) => {
  expect(linesOf(created(id, budget(fields)), { beside })).toEqual(blocks ? noEviction : []);
  const allowing = budget({ maxUnavailable: 1 });
  expect(linesOf(changed(id, allowing, budget(fields)), { beside })).toEqual(blocks ? noEviction : []);
});

test("a budget that allowed no eviction before is not reported again", () => {
  expect(linesOf(changed(id, budget({ minAvailable: "100%" }), budget({ maxUnavailable: 0 })))).toEqual([]);
  const before = budget({ minAvailable: 1 });
  expect(linesOf(changed(id, before, before), { beside: [running(1)] })).toEqual([]);
  const scaled = changed("apps/Deployment", workload(2), workload(1));
  expect(linesOf(changed(id, before, before), { beside: [scaled] })).toEqual(noEviction);
});

const quota = (hard: object) => ({ spec: { hard } });
const lowered = (what: string) => [
  `availability: one of its limits is lowered or new: ${what} that exceed it are not created`,
];

test.each([
  [{ pods: 10 }, { pods: 5 }, "pods"],
  [{ pods: "10" }, { pods: "20" }, undefined],
  [{ "limits.memory": "1Gi" }, { "limits.memory": "1000Mi" }, "pods"],
  [{ "limits.memory": "1Gi" }, { "limits.memory": "1024Mi" }, undefined],
  [{ cpu: "1" }, { cpu: "500m" }, "pods"],
  [{ cpu: "0.5" }, { cpu: "500m" }, undefined],
  [{ cpu: "1" }, { cpu: "1", pods: "5" }, "pods"],
  [{ cpu: "1", pods: "5" }, { cpu: "1" }, undefined],
  [{ "requests.storage": "2Gi" }, { "requests.storage": "1Gi" }, "objects"],
  [{ "count/secrets": 2, pods: 2 }, { "count/secrets": 1, pods: 1 }, "objects"],
  [{ "count/secrets": 2, pods: 2 }, { "count/secrets": 2, pods: 1 }, "pods"],
  [{ cpu: "1" }, { cpu: "odd" }, undefined],
])("a quota of %j that becomes %j is lowered for %s", (before, after, what) => {
  expect(linesOf(changed("/ResourceQuota", quota(before), quota(after)))).toEqual(
    what === undefined ? [] : lowered(what),
  );
});

test("a new quota is not lowered", () => {
  expect(linesOf(created("/ResourceQuota", quota({ pods: 1 })))).toEqual([]);
});

const unchangedBudget = (fields: object) => {
  const state = JSON.stringify(budget(fields));
  return objectOf(id, { rendered: state, remote: state, applied: state });
};
const scale = (before: number | undefined, after: number | undefined) =>
  changed("apps/Deployment", workload(before), workload(after));
const budgetOf = (lines: readonly string[]) => lines.filter((line) => line.includes("disruption budget"));
const withSoFew =
  "availability: with so few pods, its disruption budget allows no eviction: nodes that run them cannot be drained";

test.each([
  [{ minAvailable: 2 }, scale(3, 2), true],
  [{ minAvailable: 1 }, scale(2, 1), true],
  [{ minAvailable: "60%" }, scale(3, 2), true], // rounded up
  [{ minAvailable: 1 }, scale(3, 2), false],
  [{ minAvailable: 2 }, scale(2, 1), false], // it allowed none before
  [{ minAvailable: 2 }, scale(1, 2), false],
  [{ minAvailable: 2, selector: { matchLabels: { app: "api" } } }, scale(3, 2), false],
  [{ maxUnavailable: 0 }, scale(3, 2), false],
  [{ minAvailable: 2 }, scale(3, undefined), false], // a matter of an autoscaler
])("a budget with %j that stays as it is, and a workload that shrinks", (fields, shrunk, blocks) => {
  const found = budgetOf(linesOf(shrunk, { beside: [unchangedBudget(fields)] }));
  expect(found).toEqual(blocks ? [withSoFew] : []);
});

test("a budget that changes says itself that it allows no eviction, and another workload may be enough for it", () => {
  const beside = [changed(id, budget({ minAvailable: 1 }), budget({ minAvailable: 2 }))];
  expect(budgetOf(linesOf(scale(3, 2), { beside }))).toEqual([]);
  const others = [unchangedBudget({ minAvailable: 2 }), { ...running(2), ref: { ...running(2).ref, name: "other" } }];
  expect(budgetOf(linesOf(scale(3, 2), { beside: others }))).toEqual([]);
});
