import { once } from "node:events";
import http from "node:http";
import type { AddressInfo } from "node:net";
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

/** An API server with one kind. `hold`: while a request for an object waits. */
async function useApi(hold?: Promise<unknown>) {
  const asked: string[] = [];
  const answers: Readonly<Record<string, object>> = {
    "/api": { versions: ["v1"] },
    "/apis": { groups: [{ versions: [{ groupVersion: "apps/v1" }] }] },
    "/api/v1": { resources: [{ name: "configmaps", kind: "ConfigMap", namespaced: true }] },
  };
  const server = http.createServer((req, res) => {
    const path = new URL(req.url ?? "", "http://cluster").pathname;
    asked.push(path);
    const answer = answers[path];
    const respond = () => {
      res.writeHead(answer ? 200 : 404, { "Content-Type": "application/json" });
      res.end(JSON.stringify(answer ?? { kind: "Status", code: 404, reason: "NotFound" }));
    };
    if (path.includes("configmaps/")) void Promise.resolve(hold).then(respond);
    else respond();
  });
  onTestFinished(() => void server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { url, asked };
}

test("the cluster is not asked for versions of APIs that it does not have, however many a branch names", async () => {
  const { url, asked } = await useApi();
  const open = () => Promise.resolve({ url, maskedValues: () => [], close: () => Promise.resolve() });
  const cluster = await createPreviewClusters({ open }).open({ impersonate: "a" });
  onTestFinished(() => cluster.close());
  const { signal } = new AbortController();
  const of = (apiVersion: string) => ({ apiVersion, kind: "ConfigMap", metadata: { name: "a", namespace: "a" } });
  const names = Array.from({ length: 100 }, (_, at) => `made-up.example.com/v${at}`);
  const found = await Promise.all(names.map((name) => cluster.find(of(name), signal)));
  expect(new Set(found.map((one) => "problem" in one && one.problem))).toEqual(new Set(["unserved"]));
  expect(await cluster.find(of("v1"), signal)).toEqual({ live: undefined });
  expect(asked.toSorted()).toEqual(["/api", "/api/v1", "/api/v1/namespaces/a/configmaps/a", "/apis"]);
});

test("requests of a pull request do not wait for all those of another one", async () => {
  const held = Promise.withResolvers<void>();
  const { url, asked } = await useApi(held.promise);
  const open = () => Promise.resolve({ url, maskedValues: () => [], close: () => Promise.resolve() });
  const clusters = createPreviewClusters({ open });
  const [large, small] = await Promise.all([
    clusters.open({ impersonate: "a" }, ["org/large", "#1"]),
    clusters.open({ impersonate: "b" }, ["org/small", "#2"]),
  ]);
  onTestFinished(() => Promise.all([large.close(), small.close()]).then(() => undefined));
  const { signal } = new AbortController();
  const of = (name: string) => ({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "a" } });
  await small.capabilities(signal);
  const many = Array.from({ length: 40 }, (_, at) => large.find(of(`large${at}`), signal));
  const objects = () => asked.filter((path) => path.includes("configmaps/")).map((path) => path.split("/").at(-1));
  await expect.poll(() => objects().length).toBe(16);
  const one = small.find(of("small"), signal);
  held.resolve();
  await Promise.all([...many, one]);
  expect(objects().indexOf("small")).toBeLessThan(32);
});
