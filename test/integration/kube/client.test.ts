import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { createKubeClient } from "../../../src/kube/client.ts";
import { createSecrets } from "../../../src/kube/secrets.ts";
import { createServiceAccounts } from "../../../src/kube/service-accounts.ts";
import { useKube } from "../../support/kube.ts";

const version = { method: "GET", path: "/version" } as const;
const isVersion = (request: string) => request === "GET /version";

test("a repeatable request is repeated after 429, 5xx and a connection reset, and honours Retry-After", async () => {
  const { proxied, proxy } = await useKube();
  proxy.answer(isVersion, { status: 429, headers: { "Retry-After": "1" } }, 1);
  proxy.answer(isVersion, { status: 500 }, 1);
  proxy.answer(isVersion, { status: 503, body: "no healthy upstream" }, 1);
  proxy.swallow(isVersion);
  const startedAt = performance.now();

  await expect(proxied.request(version)).resolves.toMatchObject({ major: "1" });

  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_000);
  expect(proxy.requests.filter(isVersion)).toHaveLength(5);
});

test("a request that must not be made twice is not repeated if it may have been executed", async () => {
  const { namespace, client, proxied, proxy } = await useKube();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  proxy.swallow((request) => request === `POST ${path}`);

  const create = proxied.request({ method: "POST", path, body: { metadata: { generateName: "once-" } } });

  await expect(create).rejects.toMatchObject({ name: "ApiError", status: 0 });
  const { items } = await client.list(path, { query: { fieldSelector: "metadata.name!=kube-root-ca.crt" } });
  expect(items).toHaveLength(1);
});

test("an error contains the API server's message once, and the request is not repeated if that cannot help", async () => {
  const { proxied, proxy } = await useKube();
  const path = "/api/v1/namespaces/absent/secrets/absent";

  await expect(proxied.request({ method: "GET", path })).rejects.toMatchObject({
    status: 404,
    message: `GET ${path}: 404 secrets "absent" not found`,
  });
  expect(proxy.requests.filter((request) => request.endsWith(path))).toHaveLength(1);
});

test("a request to an API server that does not answer ends in time, and later requests succeed when it is back", async () => {
  const { proxied, proxy } = await useKube();
  proxy.blackHole(true);
  await expect(proxied.request({ ...version, timeoutMs: 200, totalMs: 600 })).rejects.toMatchObject({
    status: 0,
    message: "GET /version: no response within 200 ms",
  });

  proxy.blackHole(false);
  await expect(proxied.request(version)).resolves.toMatchObject({ major: "1" });
});

test("a request waits for an API server that is not listening yet", async () => {
  const { proxied, proxy } = await useKube();
  await proxy.close();
  const answer = proxied.request(version);
  await proxy.open();
  await expect(answer).resolves.toMatchObject({ major: "1" });
});

test("with `untilAnsweredMs`, a request to an API server that never answered fails soon, and one during an outage waits", async () => {
  const { proxy } = await useKube();
  const client = createKubeClient({ text: proxy.kubeconfig, untilAnsweredMs: 300 });
  onTestFinished(() => client.close());
  await proxy.close();
  const startedAt = performance.now();
  await expect(client.request(version)).rejects.toMatchObject({ name: "ApiError", status: 0 });
  expect(performance.now() - startedAt).toBeLessThan(5_000);
  await proxy.open();
  await client.request(version);
  await proxy.close();
  const later = client.request(version);
  await sleep(600); // longer than `untilAnsweredMs`
  await proxy.open();
  await expect(later).resolves.toMatchObject({ major: "1" });
});

test("an aborted signal ends the request", async () => {
  const { proxied, proxy } = await useKube();
  proxy.blackHole(true);
  const abort = new AbortController();
  const answer = proxied.request({ ...version, signal: abort.signal });
  abort.abort(new Error("stopped"));
  await expect(answer).rejects.toThrow("stopped");
});

test("a long list is read completely, in pages, even if its snapshot expires in between", async () => {
  const { proxied, proxy } = await useKube();
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
  const whole = await proxied.list(path);
  const next = (request: string) => request.includes("continue=");
  // Real pages hold 500 items: one artificial page with a `continue` token is enough to test what follows.
  const page = { kind: "List", metadata: { resourceVersion: "1", continue: "more" }, items: [{}] };
  proxy.answer((request) => request.startsWith(`GET ${path}?limit`), { status: 200, body: JSON.stringify(page) }, 1);
  proxy.answer(next, { status: 410 }, 1);

  await expect(proxied.list(path)).resolves.toMatchObject({ items: { length: whole.items.length } });
});

test("a page may have more items than a function call can have arguments", async () => {
  const { proxied, proxy } = await useKube();
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
  const page = { kind: "List", metadata: { resourceVersion: "1" }, items: Array(200_000).fill({}) };
  proxy.answer((request) => request.startsWith(`GET ${path}?limit`), { status: 200, body: JSON.stringify(page) }, 1);

  await expect(proxied.list(path)).resolves.toMatchObject({ items: { length: 200_000 } });
});

test("the cluster's id is the UID of kube-system, also for an account that may only list namespaces", async () => {
  const { client, proxied, proxy } = await useKube();
  const { metadata } = (await client.request({ method: "GET", path: "/api/v1/namespaces/kube-system" })) as {
    metadata: { uid: string };
  };
  proxy.answer((request) => request === "GET /api/v1/namespaces/kube-system", { status: 403 });

  await expect(client.clusterId()).resolves.toBe(metadata.uid);
  await expect(proxied.clusterId()).resolves.toBe(metadata.uid);
  await proxied.clusterId();
  expect(proxy.requests.filter((request) => request.includes("kube-system"))).toHaveLength(2);
});

test("if the kubeconfig lacks a context, the error lists those it has", async () => {
  const { kubeconfig } = await useKube();
  expect(() => createKubeClient({ kubeconfig, context: "absent" })).toThrow(/no context "absent"; it has: \w+/);
});

test("a Secret is read decoded, and a missing one is `undefined`", async () => {
  const { client, namespace } = await useKube();
  const utf16 = Buffer.from("\uFEFFä", "utf16le");
  const data = { windows: utf16.toString("base64"), other: Buffer.from(utf16).swap16().toString("base64") };
  const body = { metadata: { name: "login" }, stringData: { username: "ä", password: "p", marked: "\uFEFFä" }, data };
  await client.request({ method: "POST", path: `/api/v1/namespaces/${namespace}/secrets`, body });
  const secrets = createSecrets({ client });

  const texts = { username: "ä", password: "p", marked: "ä", windows: "ä", other: "ä" };
  await expect(secrets.get(namespace, "login")).resolves.toEqual(texts);
  await expect(secrets.get(namespace, "absent")).resolves.toBeUndefined();
});

test("annotations of a service account are read, and a token for another audience identifies the account", async () => {
  const { client, namespace } = await useKube();
  const accounts = createServiceAccounts({ client });
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  for (const metadata of [{ name: "annotated", annotations: { role: "r" } }, { name: "plain" }]) {
    await client.request({ method: "POST", path, body: { metadata } });
  }

  await expect(accounts.annotations(namespace, "annotated")).resolves.toEqual({ role: "r" });
  await expect(accounts.annotations(namespace, "plain")).resolves.toEqual({});
  await expect(accounts.annotations(namespace, "absent")).resolves.toBeUndefined();
  const token = await accounts.createToken(namespace, "plain", { audience: "sts.amazonaws.com", seconds: 1_200 });
  const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Record<string, number>;
  expect(claims).toMatchObject({ aud: ["sts.amazonaws.com"], sub: `system:serviceaccount:${namespace}:plain` });
  expect(claims["exp"]! - claims["iat"]!).toBe(1_200);
  const absent = accounts.createToken(namespace, "absent", { audience: "a", seconds: 600 });
  await expect(absent).rejects.toThrow(/serviceaccounts "absent" not found/);
});

test("the field manager of the server's writes is `towline`", async () => {
  const { namespace, client } = await useKube();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const made = await client.request({ method: "POST", path, body: { metadata: { name: "named" }, data: { a: "1" } } });
  expect(made).toMatchObject({ metadata: { managedFields: [{ manager: "towline" }] } });
});
