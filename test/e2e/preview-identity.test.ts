/** The preview identity in examples/, with its files unchanged, on the real API server. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  ApiException,
  CoreV1Api,
  KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  PatchStrategy,
} from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { whenMay } from "../support/accounts.ts";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { useTowline } from "../support/towline.ts";
import { uniqueName, useCluster, useTempDir, useWorld } from "../support/world.ts";
import { type TestCluster } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const examples = join(import.meta.dirname, "../../examples/preview-identity");

/** Applies files of the example unchanged except for names. */
async function apply(files: readonly string[], { objects }: TestCluster, names: Record<string, string>): Promise<void> {
  for (const file of files) {
    let text = await readFile(join(examples, file), "utf8");
    for (const [name, other] of Object.entries(names)) text = text.replaceAll(name, other);
    for (const document of parseAllDocuments(text)) {
      const object = document.toJS() as KubernetesObject;
      await objects.create(object);
      onTestFinished(async () => void (await objects.delete(object)));
    }
  }
}

/** Creates the account that may only do dry runs, with a unique name, for objects deployed to a namespace. */
async function useAccount(cluster: TestCluster, deployedTo = cluster.namespace): Promise<string> {
  const { namespace, config } = cluster;
  const account = uniqueName("preview");
  const names = {
    "towline-preview": account,
    "namespace: shop-staging": `namespace: ${deployedTo}`,
    "namespace: shop\n": `namespace: ${namespace}\n`,
  };
  await apply(["policy.yaml", "service-account.yaml"], cluster, names);
  // A new policy takes effect in the API server a moment later.
  const { core } = as(config, namespace, account);
  const body = { metadata: { generateName: "first-" } };
  const first = () => core.createNamespacedConfigMap({ namespace: deployedTo, body });
  await expect.poll(() => answerTo(first()), patience).toContain("may only do dry runs");
  return account;
}

/** The path of a kubeconfig that contains only a service account's token. */
async function useLogin({ namespace, core, config }: TestCluster, name: string): Promise<string> {
  const body = { spec: { audiences: [] } };
  const { status } = await core.createNamespacedServiceAccountToken({ name, namespace, body });
  const login = new KubeConfig();
  const [cluster] = config.clusters;
  login.loadFromClusterAndUser(cluster!, { name, token: status?.token ?? "" });
  const file = join(await useTempDir(), "kubeconfig");
  await writeFile(file, login.exportConfig(), { mode: 0o600 });
  return file;
}

/** Clients that impersonate the account like kluctl does. */
function as({ clusters, users }: KubeConfig, namespace: string, account: string) {
  const impersonating = new KubeConfig();
  const [user] = users;
  impersonating.loadFromOptions({
    clusters,
    users: [{ ...user, impersonateUser: `system:serviceaccount:${namespace}:${account}` }],
    contexts: [{ name: "as", cluster: clusters[0]?.name, user: user?.name }],
    currentContext: "as",
  });
  return {
    core: impersonating.makeApiClient(CoreV1Api),
    objects: KubernetesObjectApi.makeApiClient(impersonating),
  };
}

/** The API server's answer: `done`, or its error message. */
async function answerTo(request: Promise<unknown>): Promise<string> {
  try {
    await request;
    return "done";
  } catch (error) {
    if (error instanceof ApiException) return String(error.body);
    throw error;
  }
}

test("whatever permissions the account has, it can do dry runs in its namespace and change nothing", async () => {
  const cluster = await useCluster();
  const { namespace } = cluster;
  const account = await useAccount(cluster);
  await cluster.create({
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata: { name: "everything" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  } as KubernetesObject);
  const { core, objects } = as(cluster.config, namespace, account);
  const name = "settings";
  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace } };
  await cluster.create({ ...settings, data: { color: "red" } } as KubernetesObject);
  const changed = { ...settings, data: { color: "blue" } };

  const writes: Record<string, (dryRun?: string) => Promise<unknown>> = {
    create: (dryRun) => core.createNamespacedConfigMap({ namespace, body: { metadata: { name: "more" } }, dryRun }),
    apply: (dryRun) => objects.patch(changed, undefined, dryRun, "kluctl", true, PatchStrategy.ServerSideApply),
    replace: (dryRun) => core.replaceNamespacedConfigMap({ name, namespace, body: changed, dryRun }),
    delete: (dryRun) => core.deleteNamespacedConfigMap({ name, namespace, dryRun }),
    "delete all": (dryRun) => core.deleteCollectionNamespacedConfigMap({ namespace, dryRun }),
  };
  for (const [what, write] of Object.entries(writes)) {
    expect(await answerTo(write()), what).toContain("may only do dry runs");
    expect(await answerTo(write("All")), `${what}, as a dry run`).toBe("done");
  }
  const exec = core.connectPostNamespacedPodExec({ name: "any", namespace, command: "id" });
  expect(await answerTo(exec)).toContain("may only do dry runs");
  // A token requested as a dry run would be valid.
  const token = { name: "default", namespace, body: { spec: { audiences: [] } } };
  expect(await answerTo(core.createNamespacedServiceAccountToken(token))).toContain("may only do dry runs");
  const tried = core.createNamespacedServiceAccountToken({ ...token, dryRun: "All" });
  expect(await answerTo(tried)).toContain("may not create tokens");

  expect(await cluster.data("settings")).toEqual({ color: "red" });
  expect(await cluster.data("more")).toBeUndefined();
});

test("previews work with the example's identity, including Secrets, and deploys still use their own", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const account = await useAccount(cluster);
  const pulls = await usePullRequests(world, { TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: account });
  const secret = (password: string) => ({
    "login.yml": {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "login", namespace },
      stringData: { password },
    },
  });
  await pulls.repo.push(aProject({ namespace, objects: secret("first-of-two-passwords") }));
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec(pulls.repo.url));
  await deployment.settles();
  const before = await cluster.find<KubernetesObject>("v1", "ConfigMap", "settings");

  const data = { color: "blue" };
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace },
    spec: { ports: [{ port: 80 }] },
  };
  const objects = { ...secret("second-of-two-passwords"), "service.yml": service };
  const pull = await pulls.open(aProject({ namespace, data, objects }));
  const comment = await pull.comment("took");
  expect(comment).toMatch(/- +red\n\+ +blue/);
  for (const what of [`Secret \`${namespace}/login\``, `Service \`${namespace}/web\``]) expect(comment).toContain(what);
  expect(comment).not.toContain("of-two-passwords");
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching("success") });
  expect((await cluster.find<KubernetesObject>("v1", "ConfigMap", "settings"))?.metadata).toEqual(before?.metadata);
  expect(await cluster.find("v1", "Service", "web")).toBeUndefined();

  await pull.merge();
  await expect.poll(() => cluster.data("settings"), patience).toEqual(data);
});

test("a separate server creates previews without a login that could deploy", async () => {
  const world = await useWorld();
  const { namespace } = world.cluster;
  const previews = await useCluster();
  const account = await useAccount(previews, namespace);
  const names = {
    "towline-preview": account,
    "namespace: previews": `namespace: ${previews.namespace}`,
    "serviceaccount:previews:": `serviceaccount:${previews.namespace}:`,
  };
  await apply(["server.yaml"], previews, names);
  const server = `${account}-server`;
  const watched = { group: "gitops.kluctl.io", resource: "kluctldeployments", namespace: previews.namespace };
  await whenMay(previews, server, [
    { ...watched, verb: "watch" },
    { resource: "namespaces", name: "kube-system", verb: "get" },
  ]);
  const kubeconfig = await useLogin(previews, server);
  const pulls = await usePullRequests(
    { ...world, cluster: previews, redis: { ...world.redis, prefix: uniqueName("previews") } },
    {
      TOWLINE_KUBERNETES_KUBECONFIG: kubeconfig,
      TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: account,
      TOWLINE_LEADER_ELECTION: "off",
      TOWLINE_RESULTS_WRITE: "false",
    },
  );
  const { url } = pulls.repo;
  await pulls.repo.push(aProject({ namespace }));
  await useTowline(world);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(url, { target: "staging" }));
  await deployment.settles();
  await apply(["deployment.yaml"], previews, { ...names, "https://git.example.com/shop/shop.git": url });

  const pull = await pulls.open(aProject({ namespace, data: { color: "blue" } }));
  const comment = await pull.comment("took");
  expect(comment).toMatch(/- +red\n\+ +blue/);
  expect(comment).toContain(`${previews.namespace}/shop-staging`);
  await expect
    .poll(() => pulls.statuses(pull.head), patience)
    .toMatchObject({ towline: expect.stringMatching("success") });

  expect(JSON.stringify(pulls.towline.lines)).not.toContain("forbidden");
  const stolen = new KubeConfig();
  stolen.loadFromFile(kubeconfig);
  const [core, objects] = [stolen.makeApiClient(CoreV1Api), KubernetesObjectApi.makeApiClient(stolen)];
  const black = { metadata: { name: "settings" }, data: { color: "black" } };
  expect(await answerTo(core.createNamespacedConfigMap({ namespace, body: black }))).toContain("forbidden");
  const change = (metadata: object, more: object = {}) => {
    const self = { apiVersion: "gitops.kluctl.io/v1beta1", kind: "KluctlDeployment" };
    const place = { name: "shop-staging", namespace: previews.namespace };
    const changed = { ...self, metadata: { ...place, ...metadata }, ...more };
    return answerTo(objects.patch(changed, undefined, "All", undefined, undefined, PatchStrategy.MergePatch));
  };
  expect(await change({}, { spec: { suspend: false } })).toContain("may not change the spec");
  const asked = { annotations: { "kluctl.io/request-reconcile": "now" } };
  expect(await change(asked)).toContain("may not add annotations");

  await pull.merge();
  await expect.poll(() => world.cluster.data("settings"), patience).toEqual({ color: "blue" });
});
