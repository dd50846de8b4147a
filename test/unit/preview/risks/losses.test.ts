import { expect, test } from "vitest";
import { objectOf, risksOf } from "./find.ts";

test.each([
  ["/Namespace", /everything in the namespace/],
  ["apiextensions.k8s.io/CustomResourceDefinition", /every object of this kind/],
  ["/PersistentVolumeClaim", /data is lost/],
  ["apps/StatefulSet", /pods are stopped/],
  ["/Secret", /values are lost/],
  ["/Service", /stop working/],
  ["example.com/Widget", /removed from the cluster/],
])("deleting %s shows what is lost", (id, words) => {
  const risks = risksOf(objectOf(id), { action: "deleted" });
  expect(risks).toEqual([{ kind: "deletion", text: expect.stringMatching(words) as string }]);
});

test("deleting a load balancer Service loses its address", () => {
  const remote = JSON.stringify({ spec: { type: "LoadBalancer" } });
  const [risk] = risksOf(objectOf("/Service", { remote }), { action: "deleted" });
  expect(risk?.text).toContain("external address");
});
