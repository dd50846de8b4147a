/** The proxy in front of a real API server that records every request in its audit log. */
import { request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import type { KubernetesObject } from "@kubernetes/client-node";
import { pino } from "pino";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { createApiProxy, type OpenedApi } from "../../../src/api-proxy/api-proxy.ts";
import { createApiLogins } from "../../../src/kube/api-logins.ts";
import { createKubeClient } from "../../../src/kube/client.ts";
import { describeDiff } from "../../../src/preview/describe-diff.ts";
import { type AuditedCluster, startAuditedCluster } from "../../support/audited-cluster.ts";
import { createProject, newKluctl, newRun, noDiffOptions } from "../../support/fake-kluctl.ts";
import { textsBelow } from "../../support/files-below.ts";
import { patience } from "../../support/patience.ts";
import { uniqueName, useKluctl, useTempDir } from "../../support/world.ts";
import { type TestCluster, useNamespace } from "../../support/world-cluster.ts";

let audited: AuditedCluster;
beforeAll(async () => {
  audited = await startAuditedCluster();
  return () => audited.stop();
});

const password = "correct-horse-battery";
const encoded = Buffer.from(password).toString("base64");
const account = "preview";

interface Setting {
  readonly cluster: TestCluster;
  /** The account's user name at the API server. */
  readonly user: string;
  readonly proxy: ReturnType<typeof createApiProxy>;
  readonly open: () => Promise<OpenedApi>;
  /** The tokens that were issued for runs. */
  readonly tokens: string[];
}

/** The account may do everything, so that only the proxy restricts the preview. */
async function useProxy(): Promise<Setting> {
  const cluster = await useNamespace(audited.kubeconfig, uniqueName("test"), true);
  const { namespace } = cluster;
  await cluster.create({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: account } });
  await cluster.objects.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "ClusterRoleBinding",
    metadata: { name: namespace },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  } as KubernetesObject);
  await cluster.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name: "login",
      annotations: { "kubectl.kubernetes.io/last-applied-configuration": `{"data":{"password":"${encoded}"}}` },
    },
    stringData: { password, user: "ann" },
  } as KubernetesObject);

  const tokens: string[] = [];
  const client = createKubeClient({ kubeconfig: audited.kubeconfig });
  const logins = createApiLogins({
    kubernetes: { kubeconfig: audited.kubeconfig },
    client: {
      async request(wanted) {
        const answer = await client.request(wanted);
        const token = (answer as { status?: { token?: string } }).status?.token;
        if (token !== undefined) tokens.push(token);
        return answer;
      },
    },
    allowServerLogin: () => false,
  });
  const proxy = createApiProxy({ login: (run) => logins.login(run), log: pino({ level: "silent" }) });
  const user = `system:serviceaccount:${namespace}:${account}`;
  const mayAll = async () => {
    const run = await proxy.open({ impersonate: user });
    const { status } = await call(run, "GET", "/api/v1/secrets");
    await run.close();
    return status;
  };
  await expect.poll(mayAll, { ...patience, interval: 300 }).toBe(200);
  onTestFinished(async () => {
    await proxy.close();
    logins.close();
    client.close();
  });
  return { cluster, user, proxy, open: () => proxy.open({ impersonate: user }), tokens };
}

interface Sent {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const serverOf = ({ kubeconfig }: OpenedApi) =>
  (JSON.parse(kubeconfig) as { clusters: { cluster: { server: string } }[] }).clusters[0]!.cluster.server;

/** Sends one request with exactly this path. */
function call(api: OpenedApi, method: string, path: string, { body, headers: more = {} }: Sent = {}) {
  const { hostname, port, pathname } = new URL(serverOf(api));
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  // Node sends no Content-Length with the body of a DELETE.
  const headers = { ...more, ...(text !== undefined && { "Content-Length": Buffer.byteLength(text) }) };
  return new Promise<{ status: number; text: string }>((resolve, reject) => {
    const sent = request({ hostname, port, method, path: `${pathname}${path}`, headers, agent: false }, (answer) => {
      let said = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (said += chunk));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text: said }));
      answer.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

const apply = { "Content-Type": "application/apply-patch+yaml" };
const merge = { "Content-Type": "application/merge-patch+json" };
const strategic = { "Content-Type": "application/strategic-merge-patch+json" };
const jsonPatch = { "Content-Type": "application/json-patch+json" };
const plain = { "Content-Type": "application/json" };

test("no request returns a Secret's value, whatever the account may read", async () => {
  const { cluster, open } = await useProxy();
  const run = await open();
  const all = `/api/v1/namespaces/${cluster.namespace}/secrets`;
  const one = `${all}/login`;
  const self = { apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace: cluster.namespace } };
  const accept = (type: string) => ({ headers: { Accept: type } });
  const table = "application/json;as=Table;v=v1;g=meta.k8s.io";
  const metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
  const copies = [{ op: "copy", from: "/data/password", path: "/metadata/annotations/stolen" }];
  const now = (await cluster.core.readNamespacedSecret({ name: "login", namespace: cluster.namespace })).metadata;

  const asked: [number, string, string, Sent?][] = [
    [200, "GET", one],
    [200, "GET", all],
    [200, "GET", "/api/v1/secrets"],
    [200, "GET", "/api/v1/secrets?limit=500&pretty=true"],
    [200, "GET", `${all}?fieldSelector=metadata.name%3Dlogin`],
    [200, "GET", one, accept("application/json, */*")],
    [200, "GET", one, accept(`${table},application/json`)],
    [406, "GET", one, accept(metadata)],
    [406, "GET", all, accept(metadata.replace("Metadata;", "MetadataList;"))],
    [200, "GET", all, accept(`${metadata},application/json`)],
    [406, "GET", one, accept(table)],
    [406, "GET", one, accept("application/vnd.kubernetes.protobuf")],
    [406, "GET", one, accept("application/yaml")],
    [400, "GET", `${all}?watch=true`],
    [400, "GET", `${one}?watch=1`],
    [403, "GET", `/api/v1/watch/namespaces/${cluster.namespace}/secrets`],
    [200, "PATCH", one, { body: { metadata: { labels: { a: "b" } } }, headers: merge }],
    [200, "PATCH", one, { body: { metadata: { labels: { a: "b" } } }, headers: strategic }],
    [200, "PATCH", `${one}?fieldManager=x`, { body: self, headers: apply }],
    [415, "PATCH", one, { body: copies, headers: jsonPatch }],
    [200, "PUT", one, { body: { ...self, metadata: now, stringData: { password } }, headers: plain }],
    [
      422,
      "PUT",
      one,
      { body: { ...self, metadata: now, type: "kubernetes.io/tls", data: { password: encoded } }, headers: plain },
    ],
    [409, "POST", all, { body: { ...self, data: { password: encoded } }, headers: plain }],
    [
      201,
      "POST",
      all,
      { body: { ...self, metadata: { generateName: "a-" }, stringData: { password } }, headers: plain },
    ],
    [200, "DELETE", one],
    [403, "DELETE", all],
    [403, "DELETE", `${all}?dryRun=All`],
    [403, "GET", `${one}/status`],
    [400, "GET", `/api/v1/namespaces/x/../${cluster.namespace}/secrets/login`],
    [400, "GET", `/api/v1/namespaces/${cluster.namespace}%2Fsecrets%2Flogin`],
  ];
  for (const [status, method, path, sent] of asked) {
    const answer = await call(run, method, path, sent);
    const what = `${method} ${path} ${JSON.stringify(sent?.headers ?? {})}: ${answer.text.slice(0, 300)}`;
    expect(answer.status, what).toBe(status);
    expect(answer.text, what).not.toContain(password);
    expect(answer.text, what).not.toContain(encoded);
  }
  expect(run.maskedValues()).toContain(password);
});

// Documented in docs/preview-security.md: without it, a diff could not be correct.
test("a preview can check a guess of a Secret's value, whether two values are equal, and how long one is, but never sees the value", async () => {
  const { cluster, open } = await useProxy();
  await cluster.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "twin" },
    stringData: { copy: password },
  } as KubernetesObject);
  const run = await open();
  const all = `/api/v1/namespaces/${cluster.namespace}/secrets`;
  const valueIn = ({ text }: { readonly text: string }, key: string) => {
    const { data = {} } = JSON.parse(text) as { readonly data?: Readonly<Record<string, string>> };
    return Buffer.from(data[key] ?? "", "base64").toString();
  };
  const live = async (name: string, key: string) => valueIn(await call(run, "GET", `${all}/${name}`), key);
  const proposed = async (name: string, key: string, value: string) => {
    const body = { kind: "Secret", metadata: { name }, stringData: { [key]: value } };
    return valueIn(await call(run, "PATCH", `${all}/${name}`, { body, headers: merge }), key);
  };
  const [shown, twin, user] = [
    await live("login", "password"),
    await live("twin", "copy"),
    await live("login", "user"),
  ];

  expect(shown).not.toContain(password);
  expect(await proposed("login", "password", password)).toBe(shown);
  expect(await proposed("login", "password", "another guess")).not.toBe(shown);
  expect(await proposed("twin", "copy", shown)).toBe(twin);
  expect(await proposed("login", "user", shown)).not.toBe(user);
  const mostBytes = 2 ** 20; // for all values of a Secret
  const fits = async (length: number) => {
    const stringData = { value: shown, more: "x".repeat(mostBytes - length) };
    const body = { apiVersion: "v1", kind: "Secret", metadata: { generateName: "a-" }, stringData };
    return (await call(run, "POST", all, { body, headers: plain })).status === 201;
  };
  expect([await fits(password.length), await fits(password.length - 1)]).toEqual([true, false]);
});

test("a text that a preview mixed with a Secret's value reveals nothing of the value, in whatever form it is written", async () => {
  const { cluster, open } = await useProxy();
  const run = await open();
  const all = `/api/v1/namespaces/${cluster.namespace}/secrets`;
  const read = JSON.parse((await call(run, "GET", `${all}/login`)).text) as { data: { password: string } };
  const mask = Buffer.from(read.data.password, "base64").toString();
  const metadata = { name: "login", namespace: cluster.namespace };
  const write = (stringData: object, type = "Opaque") =>
    call(run, "POST", all, {
      body: { apiVersion: "v1", kind: "Secret", metadata: { generateName: "a-" }, type, stringData },
      headers: plain,
    });

  const mixed = { key: `{a${mask}: 1}`, only: `${mask}: 1`, alias: `{a: &${password} x, b: *${mask}}` };
  const patch = { body: { metadata, stringData: mixed }, headers: merge };
  for (const answer of [await write(mixed), await call(run, "PATCH", `${all}/login`, patch)]) {
    expect([200, 201]).toContain(answer.status);
    expect(answer.text).not.toContain(password);
    const { data } = JSON.parse(answer.text) as { data: Record<string, string> };
    for (const key of Object.keys(mixed))
      expect(Buffer.from(data[key] ?? "", "base64").toString()).toMatch(/^masked-[0-9a-f]{44}$/);
  }
  // The API server judges whether this is JSON: it would not be, with a value that does not begin with four digits.
  const json = { ".dockerconfigjson": `{"auths": {"a": {"auth": "\\u${mask}"}}}` };
  const other = { ".dockerconfigjson": `{"auths": {"a": {"auth": "${mask}"}}}` };
  const judged = await Promise.all([json, other].map((each) => write(each, "kubernetes.io/dockerconfigjson")));
  expect(judged.map(({ status }) => status)).toEqual([422, 201]); // as for the mask
});

test("a preview that has tried three values for a key cannot find out whether a fourth one is right", async () => {
  const { cluster, open } = await useProxy();
  const all = `/api/v1/namespaces/${cluster.namespace}/secrets`;
  const stringData = { password };
  await cluster.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "fixed" },
    immutable: true,
    stringData,
  } as KubernetesObject);
  const body = (name: string, guess: string) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: cluster.namespace },
    data: { password: Buffer.from(guess).toString("base64") },
  });
  /** Everything in the response that could depend on the guess. */
  const told = ({ status, text }: { status: number; text: string }) => {
    const { data, ...others } = JSON.parse(text.replaceAll(/masked-[0-9a-f]{44}/g, "masked")) as { data?: object };
    return { status, ...others, keys: Object.keys(data ?? {}) };
  };
  for (const [name, query, headers] of [
    ["login", "fieldManager=probe", merge],
    ["login", "fieldManager=probe", strategic],
    ["login", "fieldManager=probe", apply], // 409 if it differs
    ["login", "fieldManager=probe&force=true", apply],
    ["fixed", "fieldManager=probe", merge], // 422 if it differs
  ] as const) {
    for (const isRead of [true, false]) {
      const run = await open();
      if (isRead) await call(run, "GET", `${all}/${name}`);
      const attempt = (guess: string) =>
        call(run, "PATCH", `${all}/${name}?${query}`, { body: body(name, guess), headers });
      const wrong = told(await attempt("guess 1"));
      for (const guess of ["guess 2", "guess 3"]) expect(told(await attempt(guess))).toEqual(wrong);
      const right = await attempt(password);
      expect(told(right), `${name} ${query}`).toEqual(wrong);
      expect(right.text).not.toContain("managedFields");
      await run.close();
    }
  }
  // A single guess that is right differs from a wrong one only in the mask, and in a conflict.
  const run = await open();
  const shown = JSON.parse((await call(run, "GET", `${all}/login`)).text) as { data: { password: string } };
  const guessed = async (guess: string) =>
    call(run, "PATCH", `${all}/login?fieldManager=probe`, { body: body("login", guess), headers: merge });
  const [right, wrong] = [await guessed(password), await guessed("guess 1")];
  expect(told(right)).toEqual(told(wrong));
  expect(JSON.parse(right.text)).toMatchObject({ data: { password: shown.data.password } });
});

test("no request changes the cluster, and all requests are sent as the account", async () => {
  const { cluster, user, open } = await useProxy();
  const run = await open();
  const { namespace } = cluster;
  const all = `/api/v1/namespaces/${namespace}/configmaps`;
  await cluster.create({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "settings" },
    data: { color: "red" },
  } as KubernetesObject);
  const self = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "settings", namespace },
    data: { color: "blue" },
  };
  const before = await cluster.find<KubernetesObject>("v1", "ConfigMap", "settings");
  const orders = (body: unknown): Sent => ({ body, headers: plain });
  const sly = {
    ...plain,
    Authorization: "Bearer x",
    "Impersonate-User": "system:admin",
    "Impersonate-Group": "system:masters",
    "X-Remote-User": "system:admin",
    "X-HTTP-Method-Override": "DELETE",
    Connection: "keep-alive, Authorization",
  };

  const done: [number, string, string, Sent][] = [
    [200, "PATCH", `${all}/settings?fieldManager=kluctl&force=true`, { body: self, headers: apply }],
    [200, "PATCH", `${all}/settings`, { body: { data: { color: "blue" } }, headers: merge }],
    [200, "PUT", `${all}/settings`, orders(self)],
    [201, "POST", all, orders({ ...self, metadata: { name: "more" } })],
    [200, "DELETE", `${all}/settings`, {}],
    [200, "DELETE", `${all}/settings?dryRun=All`, {}],
    // If a DELETE has a body, the API server ignores the options in the query.
    [200, "DELETE", `${all}/settings`, orders({})],
    [
      200,
      "DELETE",
      `${all}/settings?dryRun=All`,
      orders({ kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background" }),
    ],
    [400, "DELETE", `${all}/settings`, orders({ dryRun: [] })],
    [400, "DELETE", `${all}/settings`, orders({ DryRun: ["All"], dryrun: null })],
    [400, "DELETE", `${all}/settings`, orders("{")],
    [403, "DELETE", all, orders({ kind: "DeleteOptions" })],
    [400, "PATCH", `${all}/settings?dryRun=`, { body: self, headers: apply }],
    [200, "GET", `${all}/settings`, { headers: sly }],
    [200, "PATCH", `${all}/settings?fieldManager=x&force=true`, { body: self, headers: { ...sly, ...apply } }],
    [403, "POST", `/api/v1/namespaces/${namespace}/serviceaccounts/default/token`, orders({})],
    [403, "POST", `/api/v1/namespaces/${namespace}/pods/any/exec?command=id`, {}],
    [403, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", orders({})],
  ];
  for (const [status, method, path, sent] of done) {
    const answer = await call(run, method, path, sent);
    expect(answer.status, `${method} ${path} ${JSON.stringify(sent)}: ${answer.text}`).toBe(status);
  }

  expect(await cluster.find("v1", "ConfigMap", "settings")).toEqual(before);
  expect(await cluster.find("v1", "ConfigMap", "more")).toBeUndefined();
  const events = (await audited.audit()).filter(({ requestURI }) => requestURI.includes(namespace));
  const ours = events.filter(({ user: { username } }) => username === user);
  expect(ours.filter(({ verb }) => verb === "patch").length).toBeGreaterThan(2);
  expect(ours.filter(({ verb }) => verb === "delete").length).toBeGreaterThan(3);
  for (const { verb, requestURI, requestObject } of ours) {
    if (verb !== "get" && verb !== "list") expect(requestURI, verb).toContain("dryRun=All");
    if (verb === "delete") expect(requestObject).toMatchObject({ dryRun: ["All"] });
  }
  expect(events.filter(({ impersonatedUser }) => impersonatedUser !== undefined)).toEqual([]);
  expect(ours.filter(({ verb }) => ["deletecollection", "watch", "connect"].includes(verb))).toEqual([]);
});

test("the real kluctl computes the same diff through the proxy, except for the values of Secrets", async () => {
  const { cluster, user, open, tokens } = await useProxy();
  const { namespace } = cluster;
  const [binary, dir] = await Promise.all([useKluctl(), useTempDir()]);
  const object = (kind: string, name: string, more: object) =>
    stringify({ apiVersion: "v1", kind, metadata: { name, namespace }, ...more });
  const create = (value: object) => cluster.create(value as KubernetesObject);
  await create({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "settings" },
    data: { color: "red", size: "1" },
  });
  const secret = (name: string, stringData: object) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name },
    stringData,
  });
  await create(secret("same", { password }));
  await create(secret("other", { password, user: "ann", gone: "x" }));
  await create(secret("copied", { url: `postgres://${password}@db`, mail: "ann@example.com" }));
  await create(secret("variables", { vars: stringify({ shop: { mail: "ann@example.com", size: "1" } }) }));
  const projectDir = await createProject(join(dir, "project"), {
    ".kluctl.yaml": `discriminator: ${namespace}`,
    "deployment.yaml": stringify({
      vars: [
        { clusterSecret: { name: "login", namespace, key: "password", targetPath: "copy" } },
        { clusterSecret: { name: "variables", namespace, key: "vars" } },
      ],
      deployments: [{ path: "app" }],
    }),
    "app/settings.yaml": object("ConfigMap", "settings", { data: { color: "blue", size: "1" } }),
    "app/new.yaml": object("ConfigMap", "new", { data: { a: "b" } }),
    "app/same.yaml": object("Secret", "same", { stringData: { password } }),
    "app/other.yaml": object("Secret", "other", {
      stringData: { password: "another-password", user: "ann", more: "y" },
    }),
    "app/copied.yaml": object("Secret", "copied", {
      stringData: { url: "postgres://{{ copy }}@db", mail: "{{ shop.mail }}" },
    }),
    "app/login-new.yaml": object("Secret", "made", { stringData: { password: "{{ copy }}" } }),
  });
  const diff = async (kubeconfig: string, impersonate?: string) => {
    const kluctl = newKluctl(dir, { binary, kubeconfigFor: () => kubeconfig, env: { PATH: process.env["PATH"] } });
    onTestFinished(() => kluctl.stop());
    const run = newRun({ projectDir, impersonate });
    return kluctl.diff(run, noDiffOptions, new AbortController().signal);
  };
  const run = await open();
  const token = tokens.at(-1) ?? "";
  let found = 0;
  let done = false;
  const looking = (async () => {
    while (!done) if (await holds(dir, token)) found++;
  })();

  const proxied = await diff(run.kubeconfig);
  done = true;
  await looking;
  const direct = await diff(createKubeClient({ kubeconfig: audited.kubeconfig }).kubeconfig(user));

  expect(proxied.errors).toEqual(direct.errors);
  expect(proxied.warnings).toEqual(direct.warnings);
  const told = (result: typeof direct) => describeDiff(result, { knownSecrets: [], prune: false });
  const { objects, ...counts } = told(proxied);
  expect({ objects, ...counts }).toEqual(told(direct));
  const keysOf = (name: string) => objects.find(({ ref }) => ref.kind === "Secret" && ref.name === name)?.secretKeys;
  expect(keysOf("other")).toContainEqual({ key: "password", change: "changed" });
  expect(keysOf("other")).toContainEqual({ key: "user", change: "unchanged" });
  // Built from Secret values that templates see only as masks.
  for (const name of ["same", "copied"]) {
    expect(new Set(keysOf(name)?.map(({ change }) => change)), name).toEqual(new Set(["unchanged"]));
  }
  // Keys that the project's `stringData` does not set (`gone`) stay: kluctl is not the Secret's only owner.
  expect(keysOf("other")).toContainEqual({ key: "more", change: "added" });

  const shown = JSON.stringify([proxied, run.kubeconfig]);
  expect(shown).not.toContain("ann-the");
  for (const { ref, remote } of proxied.objects) {
    if (ref.kind !== "Secret") continue;
    expect(remote ?? "").not.toContain(encoded);
    expect(remote ?? "").not.toContain(password);
  }
  expect(token).not.toBe("");
  expect(found).toBe(0);
  expect(shown).not.toContain(token);
});

/** Whether a file below the directory, except in the cache, contains the text. */
async function holds(dir: string, text: string): Promise<boolean> {
  return [...(await textsBelow(dir))].some(([path, content]) => !path.includes("/cache/") && content.includes(text));
}

test("when many runs discover the API at once, the API server gets one request of each kind, and all runs get the same answer", async () => {
  const { open, user } = await useProxy();
  const paths = ["/version", "/api", "/api/v1", "/apis/apps/v1", "/apis/rbac.authorization.k8s.io/v1"];
  const runs = await Promise.all(Array.from({ length: 40 }, open));
  const answers = await Promise.all(paths.map((path) => Promise.all(runs.map((run) => call(run, "GET", path)))));
  for (const [i, all] of answers.entries()) {
    expect(new Set(all.map(({ status }) => status)), paths[i]).toEqual(new Set([200]));
    expect(new Set(all.map(({ text }) => text)).size, paths[i]).toBe(1);
  }
  expect(answers[2]?.[0]?.text).toContain('"kind":"Namespace"');
  const asked = (await audited.audit()).filter(({ user: { username } }) => username === user);
  for (const path of paths)
    expect(
      asked.filter(({ requestURI }) => requestURI === path),
      path,
    ).toHaveLength(1);
});

describe("the address of a run", () => {
  test("is different for each run, and stops working when the run ends", async () => {
    const { open } = await useProxy();
    const [one, other] = await Promise.all([open(), open()]);
    expect(one.port).toBe(other.port);
    expect(serverOf(one)).not.toBe(serverOf(other));
    expect((await call(one, "GET", "/version")).status).toBe(200);

    await one.close();
    expect((await call(one, "GET", "/version")).status).toBe(404);
    expect((await call(other, "GET", "/version")).status).toBe(200);
  });

  test("is the only one that the proxy answers", async () => {
    const { open } = await useProxy();
    const run = await open();
    const { hostname, port, pathname } = new URL(serverOf(run));
    const raw = (text: string) =>
      new Promise<string>((resolve, reject) => {
        let said = "";
        const socket = connect(Number(port), hostname, () => socket.write(text));
        socket.on("data", (data) => (said += data.toString()));
        socket.on("close", () => resolve(said));
        socket.on("error", reject);
      });
    const host = `Host: ${hostname}:${port}\r\nConnection: close\r\n`;
    const secrets = `${pathname}/api/v1/secrets`;
    for (const [text, answer] of [
      [`GET /version HTTP/1.1\r\n${host}\r\n`, /^HTTP\/1.1 404/],
      [`GET ${pathname.slice(0, -1)}/version HTTP/1.1\r\n${host}\r\n`, /^HTTP\/1.1 404/],
      [`GET /x/..${pathname}/version HTTP/1.1\r\n${host}\r\n`, /^HTTP\/1.1 404/],
      // A page in a browser that resolved its own host name to the proxy's address.
      [`GET ${pathname}/version HTTP/1.1\r\nHost: evil.example:${port}\r\nConnection: close\r\n\r\n`, /^HTTP\/1.1 404/],
      [`GET http://127.0.0.1${secrets} HTTP/1.1\r\n${host}\r\n`, /^HTTP\/1.1 404/],
      [`CONNECT 169.254.169.254:80 HTTP/1.1\r\n${host}\r\n`, /^$/],
      [
        `GET ${secrets} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
        /^$/,
      ],
      [
        `POST ${secrets} HTTP/1.1\r\n${host}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
        /^$|^HTTP\/1.1 400/,
      ],
      [`GET ${secrets} HTTP/1.1\r\n${host}X: a\nAuthorization: b\r\n\r\n`, /^$|^HTTP\/1.1 400/],
    ] as const) {
      expect(await raw(text), text).toMatch(answer);
    }
  });
});

test("a preview that has no account to impersonate is refused with a reason", async () => {
  const { proxy, cluster } = await useProxy();
  await expect(proxy.open({})).rejects.toThrow("needs a service account");
  const absent = `system:serviceaccount:${cluster.namespace}:absent`;
  await expect(proxy.open({ impersonate: absent })).rejects.toThrow(
    `needs the service account ${cluster.namespace}/absent`,
  );
});
