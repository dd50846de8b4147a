/** Where results of deploys are stored for other tools, and what must not be stored anywhere. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { gunzipSync } from "node:zlib";
import type { KubernetesObject, V1Secret } from "@kubernetes/client-node";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../dev/parts/port.ts";
import { kluctlEnvironment } from "../support/kluctl-beside.ts";
import { aProject, aSpec } from "../support/project.ts";
import { sendPush, type Towline, useTowline, useTowlineProcess } from "../support/towline.ts";
import { type TestWorld, useWorld } from "../support/world.ts";
import { idOf, type TestCluster } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

/** The stored results of a namespace's deployments, newest last. */
async function storedResults({ core, namespace }: TestCluster, kind: "command" | "validate"): Promise<V1Secret[]> {
  const labelSelector = `kluctl.io/result=true,kluctl.io/${kind}-result-id`;
  const { items } = await core.listNamespacedSecret({ namespace: "kluctl-results", labelSelector });
  return items
    .filter(({ metadata }) => metadata?.annotations?.["kluctl.io/result-deployment-namespace"] === namespace)
    .sort((a, b) => Number(a.metadata?.creationTimestamp) - Number(b.metadata?.creationTimestamp));
}

function unpack(secret: V1Secret | undefined, key: string): Record<string, unknown> {
  const bytes = gunzipSync(Buffer.from(secret?.data?.[key] ?? "", "base64"));
  return JSON.parse(bytes.toString("utf8")) as Record<string, unknown>;
}

/** kluctl's web UI, which parses stored results as strictly as kluctl itself. */
async function useWebui(world: TestWorld): Promise<string> {
  const { kluctl, dir } = world;
  const port = await freePort();
  const args = ["webui", "run", "--no-update-check", "--only-api", "--host", "127.0.0.1", "--port", String(port)];
  const child = spawn(kluctl, args, { env: kluctlEnvironment(world), cwd: dir, stdio: "ignore" });
  const ended = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const url = `http://127.0.0.1:${port}`;
  await expect
    .poll(
      () =>
        fetch(`${url}/readyz`).then(
          ({ ok }) => ok,
          () => false,
        ),
      patience,
    )
    .toBe(true);
  return url;
}

test("status and stored results have kluctl's own format, and kluctl's web UI can read them", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const repo = await world.repo("My_Shop");
  const files = Object.entries(aProject({ namespace })).map(([path, content]) => [`k8s/${path}`, content]);
  const first = await repo.push(Object.fromEntries(files));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  const source = { git: { url: repo.url, ref: { branch: "main" }, path: "k8s" } };
  await deployment.create(aSpec(repo.url, { source, validate: true, args: { a: 1 } }));
  const ready = await deployment.reaches("Ready");
  const { status, metadata } = ready;

  const { uid: clusterId } = (await cluster.core.readNamespace({ name: "kube-system" })).metadata ?? {};
  const repoKey = `git://${new URL(repo.url).host}/My_Shop`;
  const keys = {
    projectKey: { repoKey, subDir: "k8s" },
    targetKey: { targetName: "prod", discriminator: `${namespace}-prod`, clusterId },
    kluctlDeployment: { name: "shop", namespace, clusterId },
  };
  const text = expect.any(String) as unknown;
  const hash = status?.["lastObjectsHash"];
  expect(status).toMatchObject({
    observedGeneration: metadata?.generation,
    observedCommit: first,
    projectKey: keys.projectKey,
    targetKey: keys.targetKey,
    lastDeployResult: {
      ...keys,
      id: text,
      reconcileId: text,
      renderedObjectsHash: hash,
      commandInfo: { initiator: "KluctlDeployment", command: "deploy", startTime: text, endTime: text, args: { a: 1 } },
      gitInfo: { url: repo.url, ref: { branch: "main" }, commit: first, subDir: "k8s", dirty: false },
      newObjects: 1,
      errors: [],
      warnings: [],
    },
    lastValidateResult: { ...keys, id: text, ready: true, renderedObjectsHash: hash },
    lastDriftDetectionResult: { ...keys, id: text, renderedObjectsHash: hash },
    lastDriftDetectionResultMessage: "no drift",
  });
  expect(status?.conditions).toEqual([
    {
      type: "Ready",
      status: "True",
      reason: "ReconciliationSucceeded",
      message: "deploy succeeded. 1 new objects. validate succeeded.",
      observedGeneration: 1,
      lastTransitionTime: text,
    },
  ]);
  expect(metadata?.finalizers).toEqual(["finalizers.gitops.kluctl.io"]);

  const id = idOf(ready, "lastDeployResult") ?? "";
  const [command, ...others] = await storedResults(cluster, "command");
  expect(others).toEqual([]);
  expect(command?.metadata).toMatchObject({
    name: `cr-my-shop-${id}`.slice(0, 63),
    labels: { "kluctl.io/result": "true", "kluctl.io/command-result-id": id },
    annotations: {
      "kluctl.io/result-project-repo-key": repoKey,
      "kluctl.io/result-project-subdir": "k8s",
      "kluctl.io/result-deployment-name": "shop",
      "kluctl.io/result-deployment-namespace": namespace,
    },
  });
  const summary = command?.metadata?.annotations?.["kluctl.io/command-result-summary"] ?? "";
  expect(JSON.parse(summary)).toEqual(status?.["lastDeployResult"]);
  expect(unpack(command, "reducedResult")).toMatchObject({ ...keys, id, renderedObjectsHash: hash });
  expect(unpack(command, "compactedObjects")).toMatchObject([
    { ref: { kind: "ConfigMap", name: "settings" }, new: true },
  ]);
  const validateId = idOf(ready, "lastValidateResult") ?? "";
  const [validation] = await storedResults(cluster, "validate");
  expect(validation?.metadata?.labels).toMatchObject({ "kluctl.io/validate-result-id": validateId });
  expect(unpack(validation, "result")).toEqual(status?.["lastValidateResult"]);

  const webui = await useWebui(world);
  const ask = async (path: string) => (await fetch(`${webui}/api/${path}`)).json() as Promise<unknown>;
  await expect
    .poll(() => ask(`getCommandResult?resultId=${id}`), patience)
    .toMatchObject({ id, objects: [{ ref: { name: "settings" }, new: true }] });
  await expect
    .poll(() => ask(`getValidateResult?resultId=${validateId}`), patience)
    .toMatchObject({ id: validateId, ready: true });

  // Unchanged results are not stored again; results beyond the limit are deleted.
  const aMap = (name: string, annotations = {}) =>
    JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, annotations } });
  const more: Record<string, string | undefined>[] = [
    { "k8s/app/extra.yml": aMap("extra"), "k8s/app/hook.yml": aMap("hook", { "kluctl.io/hook": "post-deploy" }) },
    { "k8s/app/extra.yml": undefined },
  ];
  let commit = first;
  for (let i = 0; i < 5; i++) {
    commit = await repo.push({
      ...more[i],
      ["k8s/app/settings.yml"]: files.find(([path]) => path?.endsWith("settings.yml"))?.[1]?.replace("red", `red-${i}`),
    });
    await sendPush(towline.webhooksUrl, { repo: repo.url, after: commit });
    await deployment.settles(commit);
  }
  await expect.poll(async () => (await storedResults(cluster, "command")).length, patience).toBe(5);
  expect((await storedResults(cluster, "validate")).length).toBe(2);
  const last = (await storedResults(cluster, "command")).map((secret) => unpack(secret, "reducedResult")["gitInfo"]);
  expect(last).toContainEqual(expect.objectContaining({ commit }));

  // Results with hooks, orphans and pruned objects are readable as well.
  await deployment.patch({ metadata: { annotations: { "kluctl.io/request-prune": "now" } } });
  await deployment.until("an answer", (now) => {
    const answer = now.status?.["pruneRequestResult"] as { endTime?: string } | undefined;
    return answer?.endTime !== undefined;
  });
  const flags = ["hook", "orphan", "deleted"] as const;
  const found = await Promise.all(
    (await storedResults(cluster, "command")).map(async ({ metadata }) => {
      const resultId = metadata?.labels?.["kluctl.io/command-result-id"] ?? "";
      const { objects } = (await ask(`getCommandResult?resultId=${resultId}`)) as { objects: Flagged[] };
      return objects.flatMap((object) =>
        flags.filter((flag) => object[flag]).map((flag) => ({ resultId, flag, object })),
      );
    }),
  );
  for (const flag of flags) {
    const of = found.flat().findLast((one) => one.flag === flag);
    expect(of, flag).toMatchObject({
      object: { ref: { kind: "ConfigMap", name: flag === "hook" ? "hook" : "extra" } },
    });
    const { resultId = "", object } = of ?? {};
    const query = new URLSearchParams({ resultId, ...object?.ref, objectType: flag === "hook" ? "applied" : "remote" });
    expect(await ask(`getCommandResultObject?${query.toString()}`), flag).toMatchObject({ metadata: { namespace } });
  }
});

interface Flagged {
  readonly ref: Record<string, string>;
  readonly hook?: boolean;
  readonly orphan?: boolean;
  readonly deleted?: boolean;
}

test("no status, event, log line, metric, stored result or Redis key contains the value of a Secret", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const values = ["canary-one-81f7c2d9", "canary two: $%&/ 5c0a77", "canary-three-e4b19d"];
  const project = (value: string) =>
    aProject({
      namespace,
      data: { url: `https://user:${value}@db.example.com/`, plain: value },
      objects: {
        "secret.yml": {
          apiVersion: "v1",
          kind: "Secret",
          metadata: { name: "login", namespace },
          stringData: { password: value },
        },
      },
    });
  const repo = await world.repo("shop");
  await repo.push(project(values[0]!));
  const towline = await useTowline(world);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "3s", validate: true }));
  await deployment.reaches("Ready");
  const statuses = [await deployment.get()];

  const second = await repo.push(project(values[1]!));
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: second });
  statuses.push(await deployment.settles(second));
  expect((await cluster.data("settings"))?.["plain"]).toBe(values[1]);

  // Manual edits: the drift contains both values.
  const named = (kind: string, name: string, more: object) => ({ apiVersion: "v1", kind, metadata: { name }, ...more });
  await cluster.patch(named("ConfigMap", "settings", { data: { plain: `not ${values[1]}` } }));
  await cluster.patch(named("Secret", "login", { stringData: { password: values[2] } }));
  const drifted = ({ status }: { status?: Record<string, unknown> }) =>
    status?.["lastDriftDetectionResultMessage"] === "2 chg";
  statuses.push(await deployment.until("a report of the drift", drifted));
  expect(JSON.stringify(statuses.at(-1))).toContain("*****");

  // An error message that quotes the rejected value.
  const refused = await repo.push({
    ...project(values[1]!),
    "app/refused.yml": JSON.stringify({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "refused", namespace, labels: { bad: `!${values[1]}` } },
      spec: { ports: [{ port: 80 }] },
    }),
  });
  await sendPush(towline.webhooksUrl, { repo: repo.url, after: refused });
  statuses.push(await deployment.settles(refused));
  expect(statuses.at(-1)?.status?.conditions).toMatchObject([{ status: "False", reason: "DeployFailed" }]);
  await expect.poll(async () => (await deployment.events()).length, patience).toBeGreaterThanOrEqual(3);

  const events = await deployment.events();
  expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual(
    expect.arrayContaining(["Normal ReconciliationSucceeded", "Warning DeployFailed"]),
  );
  await expectNowhere(values, world, towline, { statuses, events });
  // Stored results still show the keys, and which values are equal.
  const [first] = await storedObjects(cluster);
  const login = first?.find(({ ref }) => ref.kind === "Secret");
  const hidden = (text = "") => /"password":"([\w+/=]+)"/.exec(text)?.[1] ?? "";
  expect(Buffer.from(hidden(login?.applied), "base64").toString()).toMatch(/^\*{5}[\da-f]{12}$/);
  expect(first?.find(({ ref }) => ref.kind === "ConfigMap")?.rendered).toContain(
    '"url":"https://*****@db.example.com/"',
  );
});

test("values that vars read from a Secret or the server's environment are not shown anywhere, and neither are the server's credentials", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const [inCluster, inEnvironment, inLogin] = ["canary-store-5d1f09", "canary-vault-77ab31", "canary-login-c0ffee"];
  const data = { store: "is {{ password }}", vault: "is {{ server.token }}", login: `is ${inLogin}`, plain: "first" };
  const project = aProject({ namespace, data });
  await cluster.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "source", namespace },
    stringData: { vars: `password: ${inCluster}` },
  } as KubernetesObject);
  const vars = [
    { clusterSecret: { name: "source", namespace, key: "vars" } },
    { systemEnvVars: { server: { token: "VAULT_TOKEN" } } },
  ];
  const repo = await world.repo("shop");
  await repo.push({ ...project, "deployment.yaml": JSON.stringify({ vars, deployments: [{ path: "app" }] }) });
  const credentials = {
    VAULT_TOKEN: inEnvironment,
    KLUCTL_GIT_HOST: "git.example.com",
    KLUCTL_GIT_PASSWORD: inLogin,
  };
  const towline = await useTowlineProcess(world, credentials);
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { interval: "3s" }));
  const statuses = [await deployment.reaches("Ready")];
  expect(await cluster.data("settings")).toMatchObject({
    store: `is ${inCluster}`,
    vault: `is ${inEnvironment}`,
    login: `is ${inLogin}`,
  });
  await cluster.patch({
    ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "settings" } },
    ...{ data: { store: "another", vault: "another", login: "another", plain: "another" } },
  } as KubernetesObject);
  statuses.push(
    await deployment.until("a report of the drift", ({ status }) =>
      JSON.stringify(status?.["lastDriftDetectionResult"]).includes("another"),
    ),
  );
  expect(JSON.stringify(statuses.at(-1))).toContain("is *****");
  await expectNowhere([inCluster, inEnvironment, inLogin], world, towline, {
    statuses,
    events: await deployment.events(),
  });
});

type Places = Readonly<Record<string, unknown>>;

/** Fails if anything that the server wrote contains one of the values. */
async function expectNowhere(values: readonly string[], world: TestWorld, towline: Towline, told: Places) {
  const metrics = await (await fetch(`${towline.adminUrl}/metrics`)).text();
  const secrets = await storedResults(world.cluster, "command");
  const stored = secrets.map((secret) => [
    secret.metadata,
    ...["reducedResult", "compactedObjects"].map((key) => unpack(secret, key)),
  ]);
  const places = { ...told, lines: towline.lines, metrics, redis: await readRedis(world), stored };
  for (const [place, content] of Object.entries(places)) {
    const text = JSON.stringify(content);
    expect(text.length, place).toBeGreaterThan(100);
    for (const value of values) {
      for (const spelling of [value, Buffer.from(value).toString("base64"), encodeURIComponent(value)]) {
        const at = text.indexOf(spelling);
        expect(at < 0 ? "" : text.slice(Math.max(0, at - 200), at + 100), `${spelling} in ${place}`).toBe("");
      }
    }
  }
}

interface StoredObject {
  readonly ref: { readonly kind: string };
  readonly rendered?: string;
  readonly applied?: string;
}

async function storedObjects(cluster: TestCluster): Promise<StoredObject[][]> {
  const secrets = await storedResults(cluster, "command");
  return secrets.map((secret) => unpack(secret, "compactedObjects") as unknown as StoredObject[]);
}

async function readRedis({ redis }: TestWorld): Promise<Record<string, unknown>> {
  const client = new Redis(redis.url);
  onTestFinished(() => client.disconnect());
  const read: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
    string: (key) => client.get(key),
    hash: (key) => client.hgetall(key),
    list: (key) => client.lrange(key, 0, -1),
    set: (key) => client.smembers(key),
    zset: (key) => client.zrange(key, 0, "-1"),
    stream: (key) => client.xrange(key, "-", "+") as Promise<unknown>,
  };
  const keys = await client.keys(`${redis.prefix}*`);
  const entries = keys.map(async (key) => [key, await read[await client.type(key)]?.(key)] as const);
  return Object.fromEntries(await Promise.all(entries));
}
