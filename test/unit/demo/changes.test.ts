import { expect, test } from "vitest";
import { findChanges, longChange, shortChange } from "../../../dev/demo/changes.ts";
import type { KubernetesObject } from "../../../dev/demo/cluster.ts";

function deployment(image: string, replicas: number, ready: number): KubernetesObject {
  return {
    kind: "Deployment",
    metadata: { name: "frontend", namespace: "shop-staging", generation: 1 },
    spec: { replicas, template: { spec: { containers: [{ name: "frontend", image }] } } },
    status: { availableReplicas: ready },
  };
}

test("a new image tag is one change, shown without the part that stays the same", () => {
  const [before, after] = [deployment("a.example/frontend:1.4.2", 1, 1), deployment("a.example/frontend:1.5.0", 1, 0)];
  const changes = findChanges(before, after);
  expect(changes.map(({ path }) => path)).toEqual(["spec.template.spec.containers[0].image"]);
  expect(changes.map(shortChange)).toEqual(["image 1.4.2 → 1.5.0"]);
  expect(changes.flatMap(longChange)).toEqual([
    "  spec.template.spec.containers[0].image",
    "- a.example/frontend:1.4.2",
    "+ a.example/frontend:1.5.0",
  ]);
});

test("a change of an object's status is not a change of the object", () => {
  expect(findChanges(deployment("a:1", 1, 0), deployment("a:1", 1, 1))).toEqual([]);
});

test("an image from another registry is shown in full", () => {
  const changes = findChanges(deployment("a.example/frontend:1", 1, 1), deployment("b.example/frontend:1", 2, 1));
  expect(changes.map(shortChange)).toEqual(["replicas 1 → 2", "image a.example/frontend:1 → b.example/frontend:1"]);
});

test("a key that is added or removed is shown as such", () => {
  const config = (data: Record<string, string>): KubernetesObject => ({
    kind: "ConfigMap",
    metadata: { name: "settings", namespace: "shop-staging" },
    data,
  });
  const changes = findChanges(config({ OLD: "1" }), config({ NEW: "2" }));
  expect(changes.map(shortChange)).toEqual(["OLD 1 → nothing", "NEW nothing → 2"]);
  expect(changes.flatMap(longChange)).toEqual(["  data.OLD", "- 1", "  data.NEW", "+ 2"]);
});
