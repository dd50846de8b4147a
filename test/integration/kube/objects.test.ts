import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { stringify } from "yaml";
import { expect, onTestFinished, test } from "vitest";
import { createObjects } from "../../../src/kube/objects.ts";
import { newRun } from "../../support/fake-kluctl.ts";

/** An untrusted API server, which may answer anything. */
async function useStranger(answer: RequestListener) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const kubeconfig = stringify({
    ...{ apiVersion: "v1", kind: "Config", "current-context": "theirs", users: [{ name: "me", user: {} }] },
    contexts: [{ name: "theirs", context: { cluster: "theirs", user: "me" } }],
    clusters: [{ name: "theirs", cluster: { server: `http://127.0.0.1:${port}`, "insecure-skip-tls-verify": true } }],
  });
  const ref = { kind: "ConfigMap", namespace: "shop", name: "old" };
  const doomed = { ref, apiVersion: "v1", kind: "ConfigMap", name: "old", namespace: "shop", uid: "1" };
  const objects = createObjects({ kubeconfigFor: () => kubeconfig });
  const { signal } = new AbortController();
  return {
    remove: () => objects.delete([doomed], newRun({}), { dryRun: false }, signal),
    read: (...queries: Parameters<typeof objects.read>[0]) => objects.read(queries, newRun({}), signal),
  };
}

test("reading an endless response is given up, and not repeated", async () => {
  let asked = 0;
  const stranger = await useStranger((_, response) => {
    asked++;
    const more = () => {
      while (response.write(" ".repeat(1_000_000)));
    };
    response.on("drain", more);
    more();
  });
  const before = process.memoryUsage().rss;

  expect(await stranger.remove()).toMatchObject([{ message: expect.stringContaining("is larger than 16 MiB") }]);
  expect(asked).toBe(1);
  expect(process.memoryUsage().rss - before).toBeLessThan(300_000_000);
});

test("its error message is truncated to a readable length", async () => {
  const stranger = await useStranger((_, response) => {
    response.writeHead(403).end(JSON.stringify({ message: "no".repeat(1_000_000) }));
  });

  const [error] = await stranger.remove();
  expect(error?.message).toMatch(/^GET \/api\/v1: 403 nono/);
  expect(error?.message.length).toBeLessThan(21_000);
});

const config = { apiVersion: "v1", kind: "ConfigMap" };
const resources = [
  { name: "configmaps", kind: "ConfigMap", namespaced: true },
  { name: "configmaps/scale", kind: "ConfigMap", namespaced: true },
  { name: "nodes", kind: "Node", namespaced: false },
];

test("objects are read by name or by label, and what is missing, forbidden or unknown is told apart", async () => {
  const paths: string[] = [];
  const answers: Record<string, object> = {
    "/api/v1": { resources },
    "/api/v1/namespaces/shop/configmaps/one": { ...config, metadata: { name: "one" } },
    "/api/v1/nodes/a": { kind: "Node" },
    "/api/v1/configmaps?labelSelector=a%3Db&limit=500": { items: [{ metadata: { name: "two" } }] },
    "/api/v1/namespaces/large/configmaps?labelSelector=a%3Db&limit=500": { metadata: { continue: "more" }, items: [] },
  };
  const stranger = await useStranger(({ url = "" }, response) => {
    paths.push(url);
    const isRefused = url.includes("secret");
    const answer = isRefused ? { message: "is forbidden" } : answers[url];
    response.writeHead(isRefused ? 403 : answer === undefined ? 404 : 200).end(JSON.stringify(answer ?? {}));
  });

  const found = await stranger.read(
    { ...config, namespace: "shop", name: "one" },
    { ...config, namespace: "shop", name: "none" },
    { apiVersion: "v1", kind: "Node", namespace: "shop", name: "a" },
    { ...config, label: "a=b" },
    { ...config, label: "a=b", namespace: "large" },
    { ...config, namespace: "shop", name: "secret" },
    { apiVersion: "v1", kind: "Thing", name: "one" },
    { apiVersion: "example.com/v1", kind: "Thing", name: "one" },
  );

  expect(found).toEqual([
    { objects: [{ ...config, metadata: { name: "one" } }] },
    { objects: [] },
    { objects: [{ kind: "Node" }] },
    { objects: [{ ...config, metadata: { name: "two" } }] },
    { problem: "there are more than 500 objects of kind ConfigMap", isPermanent: true },
    { problem: expect.stringContaining("is forbidden"), isPermanent: true },
    { problem: "the API server does not serve Thing of v1", isPermanent: false },
    { problem: "the API server does not serve Thing of example.com/v1", isPermanent: false },
  ]);
  expect(paths.filter((path) => path === "/api/v1")).toHaveLength(1);
});

test("objects that are too large together are not kept", async () => {
  const stranger = await useStranger(({ url = "" }, response) => {
    const data = { large: "x".repeat(6_000_000) };
    response.end(JSON.stringify(url === "/api/v1" ? { resources } : { ...config, data }));
  });
  const names = ["a", "b", "c", "d"];
  const found = await stranger.read(...names.map((name) => ({ ...config, namespace: "shop", name })));
  expect(found.filter(({ problem }) => problem?.includes("too large together"))).toHaveLength(2);
});
