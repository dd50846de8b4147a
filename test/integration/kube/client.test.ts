import { setTimeout as sleep } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { createKubeClient } from "../../../src/kube/client.ts";
import { createSecrets } from "../../../src/kube/secrets.ts";
import { createServiceAccounts } from "../../../src/kube/service-accounts.ts";
import { useKube } from "../../support/kube.ts";

const version = { method: "GET", path: "/version" } as const;
const isVersion = (request: string) => request === "GET /version";

test("a request that may be repeated is repeated after 429, 5xx and a reset, and after what Retry-After says", async () => {
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

test("what may not be done twice is not repeated when it may have been done", async () => {
  const { namespace, client, proxied, proxy } = await useKube();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  proxy.swallow((request) => request === `POST ${path}`);

  const create = proxied.request({ method: "POST", path, body: { metadata: { generateName: "once-" } } });

  await expect(create).rejects.toMatchObject({ name: "ApiError", status: 0 });
  const { items } = await client.list(path, { query: { fieldSelector: "metadata.name!=kube-root-ca.crt" } });
  expect(items).toHaveLength(1);
});

test("an error says what the API server said, once, and is not repeated when that cannot help", async () => {
  const { proxied, proxy } = await useKube();
  const path = "/api/v1/namespaces/absent/secrets/absent";

  await expect(proxied.request({ method: "GET", path })).rejects.toMatchObject({
    status: 404,
    message: `GET ${path}: 404 secrets "absent" not found`,
  });
  expect(proxy.requests.filter((request) => request.endsWith(path))).toHaveLength(1);
});

test("an API server that does not answer is given up in time, and one that comes back is used again", async () => {
  const { proxied, proxy } = await useKube();
  proxy.blackHole(true);
  await expect(proxied.request({ ...version, timeoutMs: 200, totalMs: 600 })).rejects.toMatchObject({
    status: 0,
    message: "GET /version: no response within 200 ms",
  });

  proxy.blackHole(false);
  await expect(proxied.request(version)).resolves.toMatchObject({ major: "1" });
});

test("a request waits for an API server that is not there yet", async () => {
  const { proxied, proxy } = await useKube();
  await proxy.close();
  const answer = proxied.request(version);
  await proxy.open();
  await expect(answer).resolves.toMatchObject({ major: "1" });
});

test("who waits in person is told soon of an API server that never answered, and not of one that only pauses", async () => {
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
  await sleep(600); // longer than it would have been tried before
  await proxy.open();
  await expect(later).resolves.toMatchObject({ major: "1" });
});

test("a request ends with its signal", async () => {
  const { proxied, proxy } = await useKube();
  proxy.blackHole(true);
  const abort = new AbortController();
  const answer = proxied.request({ ...version, signal: abort.signal });
  abort.abort(new Error("stopped"));
  await expect(answer).rejects.toThrow("stopped");
});

test("a long list comes whole, in pages, even if its snapshot expires on the way", async () => {
  const { proxied, proxy } = await useKube();
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
  const whole = await proxied.list(path);
  const next = (request: string) => request.includes("continue=");
  // The real server's pages would have to be 500 long: one that never ends is enough to see what follows.
  const page = { kind: "List", metadata: { resourceVersion: "1", continue: "more" }, items: [{}] };
  proxy.answer((request) => request.startsWith(`GET ${path}?limit`), { status: 200, body: JSON.stringify(page) }, 1);
  proxy.answer(next, { status: 410 }, 1);

  await expect(proxied.list(path)).resolves.toMatchObject({ items: { length: whole.items.length } });
});

test("a page may be longer than a call has room for arguments", async () => {
  const { proxied, proxy } = await useKube();
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
  const page = { kind: "List", metadata: { resourceVersion: "1" }, items: Array(200_000).fill({}) };
  proxy.answer((request) => request.startsWith(`GET ${path}?limit`), { status: 200, body: JSON.stringify(page) }, 1);

  await expect(proxied.list(path)).resolves.toMatchObject({ items: { length: 200_000 } });
});

test("the cluster's id is the UID of kube-system, also for those who may only list", async () => {
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

test("a context that is not in the kubeconfig is named with those that are", async () => {
  const { kubeconfig } = await useKube();
  expect(() => createKubeClient({ kubeconfig, context: "absent" })).toThrow(/no context "absent"; it has: \w+/);
});

test("a Secret is read decoded, and an absent one is absent", async () => {
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

test("a service account's annotations are read, and a token for others says who it is", async () => {
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

test("the API server knows by name who writes to it", async () => {
  const { namespace, client } = await useKube();
  const path = `/api/v1/namespaces/${namespace}/configmaps`;
  const made = await client.request({ method: "POST", path, body: { metadata: { name: "named" }, data: { a: "1" } } });
  expect(made).toMatchObject({ metadata: { managedFields: [{ manager: "towline" }] } });
});
