import { expect, onTestFinished, test } from "vitest";
import { createPreviewClusters } from "../../../src/kube/preview-clusters.ts";

test.each(["a/b", "a;b", "a%2fb", "a?b", "a#b", "a\\b", "..", "", "a".repeat(254)])(
  "an object named %j is not asked for, because the request would be for another path",
  async (name) => {
    // Nothing listens there: a request would fail.
    const open = () =>
      Promise.resolve({ url: "http://127.0.0.1:9", maskedValues: () => [], close: () => Promise.resolve() });
    const cluster = await createPreviewClusters({ open }).open({ impersonate: "a" });
    onTestFinished(() => cluster.close());
    const of = (metadata: object) => ({ apiVersion: "v1", kind: "ConfigMap", metadata });
    const { signal } = new AbortController();
    expect(await cluster.find(of({ name, namespace: "a" }), signal)).toEqual({ problem: "unnamed" });
    if (name !== "")
      expect(await cluster.find(of({ name: "a", namespace: name }), signal)).toEqual({ problem: "unnamed" });
    expect(await cluster.find({ ...of({ name: "a" }), apiVersion: `v1/${name}/x` }, signal)).toEqual({
      problem: "unserved",
    });
    expect(cluster.requests()).toBe(0);
  },
);
