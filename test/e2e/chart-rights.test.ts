/**
 * The chart's roles and policies on the real API server: a server with exactly these permissions does its whole job,
 * and cannot do more.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { findTools } from "../../dev/tools.ts";
import { examinePermissions } from "../../src/doctor/permissions.ts";
import { examineController } from "../../src/doctor/running-controller.ts";
import { createDoctorCluster } from "../../src/doctor/cluster.ts";
import { resourcePath, suspendPatch } from "../../src/apis/api.ts";
import { kluctlApi } from "../../src/apis/kluctl/api.ts";
import { createKubeClient } from "../../src/kube/client.ts";
import type { Receipt } from "../../src/model.ts";
import { createAccount } from "../support/accounts.ts";
import { type ApiLogin, useApiLogin } from "../support/api-login.ts";
import { useHelm } from "../support/helm.ts";
import { type PlayedStatus, playedStatus } from "../support/flux.ts";
import { useLocalGithub, useLocalPullRequests } from "../support/local-hosts.ts";
import { gitRepository, helmRelease, installFlux, installOlderApis, kustomization } from "../support/older-api.ts";
import { patience } from "../support/patience.ts";
import { aProject, aSpec } from "../support/project.ts";
import { usePullRequests } from "../support/pull-requests.ts";
import { previewAttempts, type RightsPlace, serverAttempts, tryAll, verdictOf } from "../support/rights-table.ts";
import { sendPush, useTowline } from "../support/towline.ts";
import { type TestWorld, uniqueName, useCluster, useGitServer, useWorld } from "../support/world.ts";
import { idOf, readyOf, type TestCluster, type TestResource } from "../support/world-cluster.ts";

interface Installed {
  /** For the release's namespace, which is also the server's own. */
  readonly release: TestCluster;
  readonly login: ApiLogin;
  readonly results: string;
  readonly clusterName: string;
  /** The environment variables that correspond to the chart's configuration, as far as permissions depend on them. */
  readonly variables: Record<string, string>;
}

interface Configured {
  readonly defaultServiceAccount?: string;
  readonly kubernetes: { readonly readSecretsAs: string; readonly namespaces?: readonly string[] };
  readonly preview: { readonly serviceAccountName?: string };
}

/** Installs the chart without its pods: the server runs in this process, with the token of its account. */
async function install(values: {
  rbac?: object;
  preview?: object;
  previews?: object;
  page?: object;
  flux?: object;
}): Promise<Installed> {
  const { page, previews, flux, ...others } = values;
  const release = await useCluster();
  const helm = await useHelm(release);
  const results = uniqueName("results");
  onTestFinished(async () => void (await release.core.deleteNamespace({ name: results })));
  await helm.install("towline", {
    ...others,
    replicaCount: 0,
    redis: { enabled: false },
    externalRedis: { url: "redis://redis.invalid:6379" },
    crds: { install: false },
    config: {
      controllerNamespace: release.namespace,
      results: { namespace: results },
      sourceOverride: { bindAddress: ":8082" },
      ...(page && { page }),
      ...(flux && { flux }),
      ...(previews && { preview: previews }),
    },
  });
  const { namespace } = release;
  const config = parse((await release.data("towline"))?.["towline.yaml"] ?? "") as Configured;
  const variables = {
    TOWLINE_CONTROLLER_NAMESPACE: namespace,
    TOWLINE_RESULTS_NAMESPACE: results,
    TOWLINE_SOURCE_OVERRIDE_BIND_ADDRESS: "127.0.0.1:0",
    TOWLINE_DEFAULT_SERVICE_ACCOUNT: config.defaultServiceAccount,
    TOWLINE_KUBERNETES_READ_SECRETS_AS: config.kubernetes.readSecretsAs,
    TOWLINE_KUBERNETES_NAMESPACES: config.kubernetes.namespaces?.join(),
    TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: config.preview.serviceAccountName,
  };
  const login = await useApiLogin(release, { namespace, name: "towline" });
  return {
    release,
    login,
    results,
    clusterName: `${namespace}-towline`,
    variables: {
      TOWLINE_KUBERNETES_KUBECONFIG: login.kubeconfig,
      ...Object.fromEntries(Object.entries(variables).flatMap(([key, value]) => (value ? [[key, value]] : []))),
    },
  };
}

/** The doctor's findings about the server's permissions, which the chart has to satisfy. */
async function rightsProblems(
  { release, login, results, variables }: Installed,
  accounts: string[],
  previewAccounts: string[] = [],
  more: { readonly triggersFlux?: boolean; readonly reportsFlux?: boolean; readonly previewsFlux?: boolean } = {},
) {
  const toKey = (text: string) => ({ namespace: text.split("/")[0] ?? "", name: text.split("/")[1] ?? "" });
  const client = createKubeClient({ kubeconfig: login.kubeconfig });
  onTestFinished(() => client.close());
  const namespaces = variables["TOWLINE_KUBERNETES_NAMESPACES"]?.split(",") ?? [];
  const cluster = createDoctorCluster({ client, namespaces, serviceAccount: undefined, now: Date.now });
  const controller = await examineController({ cluster, namespace: release.namespace, now: Date.now }, []);
  const findings = [
    ...controller,
    ...(await examinePermissions(cluster, {
      namespaces,
      resultsNamespace: results,
      leader: release.namespace,
      overrides: release.namespace,
      legacy: true,
      readsSecrets: variables["TOWLINE_KUBERNETES_READ_SECRETS_AS"] === "server",
      decrypts: false,
      ...more,
      accounts: accounts.map(toKey),
      previewAccounts: previewAccounts.map(toKey),
      asServer: false,
      operatorGroups: [],
      asksWhatPeopleSee: false,
    })),
  ];
  return findings.filter(({ level }) => level !== "ok");
}

/** A Secret and a ConfigMap that attempts target, and another namespace. */
async function usePlace(
  cluster: TestCluster,
  { results, clusterName }: Installed,
  deployment: string,
): Promise<RightsPlace> {
  const { namespace } = await useCluster();
  const place = { secret: "precious", configMap: "untouched" };
  const data = { apiVersion: "v1", metadata: { name: place.secret }, stringData: { password: "a-password" } };
  await cluster.create({ ...data, kind: "Secret" } as KubernetesObject);
  await cluster.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: place.configMap } });
  return { ...place, namespace: cluster.namespace, elsewhere: namespace, deployment, results, clusterName };
}

/** New policies take effect in the API server a moment later. */
async function whenPoliciesHold(login: ApiLogin, place: RightsPlace, what: string, attempts = serverAttempts) {
  const attempt = attempts(place)[what];
  if (attempt === undefined) throw new Error(`nobody tries to ${what}`);
  await expect.poll(async () => verdictOf(await login.ask(attempt)), patience).toBe("policy");
}

/** An annotation that the server must not touch. */
const owned = { "example.com/owner": "somebody" };

const words = { yes: "yes", role: "no", policy: "no, by policy" };

/** The column of docs/rights.md, row by row. */
async function documented(heading: string, column: string): Promise<Record<string, string>> {
  const text = await readFile(join(import.meta.dirname, "../../docs/rights.md"), "utf8");
  const table =
    text
      .slice(text.indexOf(`\n## ${heading}\n`))
      .split("\n\n| ")[1]
      ?.split("\n\n")[0] ?? "";
  const [head, , ...rows] = table.split("\n").map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .filter((cell) => cell !== ""),
  );
  const at = head?.indexOf(column) ?? -1;
  return Object.fromEntries(rows.map((cells) => [cells[0] ?? "", cells[at] ?? ""]));
}

function inWords(verdicts: Record<string, keyof typeof words>): Record<string, string> {
  return Object.fromEntries(Object.entries(verdicts).map(([what, verdict]) => [what, words[verdict]]));
}

const serverTable = "What the server's service account can do";
const previewTable = "What the preview account can do";

/** Lets the account read the Secrets of its namespace, in addition to deploying. */
async function letReadSecrets(cluster: TestCluster, name: string): Promise<void> {
  const metadata = { name: `${name}-secrets` };
  const group = "rbac.authorization.k8s.io";
  const rules = [{ apiGroups: [""], resources: ["secrets"], verbs: ["get"] }];
  await cluster.create({ apiVersion: `${group}/v1`, kind: "Role", metadata, rules } as object);
  await cluster.create({
    apiVersion: `${group}/v1`,
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: group, kind: "Role", name: metadata.name },
    subjects: [{ kind: "ServiceAccount", name, namespace: cluster.namespace }],
  } as object);
}

/** A repository that requires a login, and the Secret with it. */
async function usePrivateRepository({ cluster }: TestWorld) {
  const login = { username: "reader", password: uniqueName("password") };
  const repo = await (await useGitServer(login)).repo("private");
  const { namespace } = cluster;
  await repo.push(aProject({ namespace, name: "from-private" }));
  await cluster.create({ apiVersion: "v1", kind: "Secret", metadata: { name: "git" }, stringData: login } as object);
  const host = new URL(repo.url).host;
  return { url: repo.url, credentials: { git: [{ host, secretRef: { name: "git" } }] } };
}

test("an account created with the commands of the documentation deploys, and its objects become healthy", async () => {
  const world = await useWorld();
  const { namespace, kubeconfig, objects } = world.cluster;
  const { kubectl } = await findTools(["kubectl"], { say: () => undefined });
  const page = await readFile(join(import.meta.dirname, "../../docs/rights.md"), "utf8");
  const section = page.split("\n## ").find((part) => part.startsWith("Accounts that deploy")) ?? "";
  const commands = [...section.matchAll(/^ {4}kubectl (.*)$/gm)].map(([, command = ""]) => command.split(" "));
  expect(commands.length).toBeGreaterThan(2);
  for (const words of commands) {
    // Cluster-scoped objects get names of their own, because other tests use the documented ones.
    const own = (word: string) =>
      word
        .replace(/\bshop\b/g, namespace)
        .replace(/^(--clusterrole=)?(list-namespaces|read-definitions)$/, `$1${namespace}-$2`);
    const args = words.map(own);
    await promisify(execFile)(kubectl, args, { env: { ...process.env, KUBECONFIG: kubeconfig } });
    const [, kind = "", name = ""] = args;
    if (!kind.startsWith("cluster")) continue;
    const metadata = { name };
    const kindName = kind === "clusterrole" ? "ClusterRole" : "ClusterRoleBinding";
    const object = { apiVersion: "rbac.authorization.k8s.io/v1", kind: kindName, metadata };
    onTestFinished(async () => void (await objects.delete(object)));
  }
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace }));
  await useTowline(world);
  const deployment = world.cluster.deployment("shop");
  await deployment.create(aSpec(repo.url, { serviceAccountName: "towline-deployer", validate: true }));
  const ready = await deployment.reaches("Ready");
  expect(readyOf(ready)?.message).toMatch(/^deploy succeeded .*validate succeeded/);
});

test("with the permission to impersonate named accounts, the server does its whole job, previews only do dry runs, and neither can do more", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const account = uniqueName("preview");
  const [installed] = await Promise.all([
    install({
      preview: { serviceAccount: { create: true, name: account, namespaces: [namespace] } },
      previews: { enabled: true },
    }),
    createAccount(cluster, "towline-deployer").then(() => letReadSecrets(cluster, "towline-deployer")),
  ]);
  const { login, variables, results } = installed;
  const deployer = [`${namespace}/towline-deployer`];
  await expect.poll(() => rightsProblems(installed, deployer, [`${namespace}/${account}`]), patience).toEqual([]);
  const pulls = await usePullRequests(world, variables);
  await pulls.repo.push(aProject({ namespace }));

  // Deployments use the accounts that the server may impersonate, with Secrets that those may read, and no others.
  const secret = await usePrivateRepository(world);
  const [shop, hidden, stranger] = ["shop", "hidden", "stranger"].map((name) => cluster.deployment(name));
  await shop!.create(aSpec(pulls.repo.url, { delete: true }), owned);
  await hidden!.create(aSpec(secret.url, { credentials: secret.credentials }));
  await stranger!.create(aSpec(pulls.repo.url, { serviceAccountName: "stranger", target: "staging" }));
  await Promise.all([shop!.settles(), hidden!.reaches("Ready")]);
  expect(readyOf(await stranger!.settles())).toMatchObject({
    status: "False",
    message: expect.stringContaining('cannot impersonate resource "serviceaccounts"'),
  });

  // A push is applied, and reported.
  await pulls.repo.push(aProject({ namespace, data: { color: "blue" } }));
  await expect.poll(() => cluster.data("settings"), patience).toEqual({ color: "blue" });
  const deployed = await shop!.settles();
  const stored = await cluster.core.listNamespacedSecret({ namespace: results });
  const ids = stored.items.map(({ metadata }) => metadata?.labels?.["kluctl.io/command-result-id"]);
  expect(ids).toContain(idOf(deployed, "lastDeployResult"));
  await expect.poll(async () => (await shop!.events()).length, patience).toBeGreaterThan(0);

  // A request is answered, and a pull request is compared with an account that can only do dry runs.
  await shop!.patch({ metadata: { annotations: { "kluctl.io/request-deploy": "now" } } });
  const pull = await pulls.open(aProject({ namespace, data: { color: "green" } }));
  await shop!.until("an answer", ({ status }) => JSON.stringify(status?.["deployRequestResult"])?.includes("endTime"));
  expect(await pull.comment("took")).toMatch(/- +blue\n\+ +green/);
  expect((await shop!.get())?.metadata?.annotations).toEqual(owned);

  // What the logins can do beyond that.
  const place = await usePlace(cluster, installed, "shop");
  const preview = await useApiLogin(cluster, { namespace, name: account });
  await whenPoliciesHold(login, place, "change its spec");
  await whenPoliciesHold(preview, place, "create a ConfigMap", previewAttempts(false));
  expect(inWords(await tryAll(login, serverAttempts(place)))).toEqual(await documented(serverTable, "`impersonation`"));
  const trying = await tryAll(preview, previewAttempts(true)(place));
  expect(inWords(trying)).toEqual(await documented(previewTable, "as a dry run"));
  const doing = await tryAll(preview, previewAttempts(false)(place));
  expect(inWords(doing)).toEqual(await documented(previewTable, "for real"));

  // A deleted deployment is removed together with its objects.
  await shop!.delete();
  await expect.poll(() => shop!.get(), patience).toBeUndefined();
  expect(await cluster.data("settings")).toBeUndefined();
  const forbidden = pulls.towline.lines.filter((line) => JSON.stringify(line).includes("forbidden"));
  expect(forbidden.filter((line) => line["name"] !== "stranger")).toEqual([]);
});

test("with flux.trigger, the server makes Flux fetch what was pushed, and can change nothing else of a GitRepository", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace, kubeconfig } = cluster;
  await installOlderApis(kubeconfig);
  const installed = await install({ flux: { trigger: true } });
  const { login, variables } = installed;
  await expect.poll(() => rightsProblems(installed, [], [], { triggersFlux: true }), patience).toEqual([]);
  const admin = createKubeClient({ kubeconfig });
  onTestFinished(() => admin.close());
  const repo = await world.repo("shop");
  const first = await repo.push(aProject({ namespace }));
  const path = (name: string) => `/apis/source.toolkit.fluxcd.io/v1/namespaces/${namespace}/gitrepositories/${name}`;
  const read = async (name: string) => (await admin.request({ method: "GET", path: path(name) })) as TestResource;
  const requestOf = async (name: string) =>
    (await read(name)).metadata?.annotations?.["reconcile.fluxcd.io/requestedAt"];
  /** Plays Flux, which has fetched this commit. */
  const fetched = async (name: string, commit: string) => {
    const status = { artifact: { revision: `main@sha1:${commit}` }, lastHandledReconcileAt: await requestOf(name) };
    await admin.request({ method: "PATCH", path: `${path(name)}/status`, body: { status } });
  };
  const refs = { main: { branch: "main" }, release: { branch: "release" }, pinned: { branch: "main", commit: first } };
  for (const [name, ref] of Object.entries(refs)) {
    await cluster.create(gitRepository(name, { url: repo.url, ref, interval: "1h" }));
    await fetched(name, first);
  }
  const server = await useTowline(world, {
    ...variables,
    ...{ TOWLINE_FLUX_TRIGGER: "true", TOWLINE_SWEEP_INTERVAL: "5s" },
  });

  // A webhook: repeated until the server has listed the GitRepositories.
  const after = "2".repeat(40);
  const pushed = async () =>
    ((await (await sendPush(server.webhooksUrl, { repo: repo.url, after })).json()) as Receipt).flux;
  await expect.poll(pushed, patience).toEqual({
    ...{ matched: 1, sources: [`${namespace}/main`] },
    ignored: [
      { source: `${namespace}/pinned`, reason: `is pinned to commit ${first}` },
      { source: `${namespace}/release`, reason: "follows refs/heads/release, the push is to branch main" },
    ],
  });
  await expect.poll(() => requestOf("main"), patience).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);

  // No webhook: the sweep finds it.
  await fetched("main", first);
  const answered = await requestOf("main");
  const second = await repo.push(aProject({ namespace, data: { color: "blue" } }));
  await expect.poll(() => requestOf("main"), patience).not.toBe(answered);
  await fetched("main", second);
  expect((await read("main")).metadata?.generation).toBe(1);
  expect([await requestOf("release"), await requestOf("pinned")]).toEqual([undefined, undefined]);

  // What the login can do beyond that.
  const change = async (metadata: object, spec?: object) =>
    verdictOf(await login.ask({ method: "PATCH", path: `${path("main")}?dryRun=All`, body: { metadata, spec } }));
  await expect.poll(() => change({}, { url: "https://git.example.com/another" }), patience).toBe("policy");
  expect(await change({ annotations: { "reconcile.fluxcd.io/requestedAt": "now" } })).toBe("yes");
  expect(await change({ annotations: { "example.com/owner": "somebody" } })).toBe("policy");
  expect(await change({ labels: { owner: "somebody" } })).toBe("policy");
  expect(await change({ finalizers: ["example.com/kept"] })).toBe("policy");
  const metadata = { name: "another" };
  const created = { method: "POST" as const, path: `${path("")}?dryRun=All`.replace("/?", "?"), body: { metadata } };
  expect(verdictOf(await login.ask(created))).toBe("role");
  expect(verdictOf(await login.ask({ method: "DELETE", path: `${path("main")}?dryRun=All` }))).toBe("role");
  const other = { method: "PATCH" as const, path: `${path("main")}/status?dryRun=All`, body: { status: {} } };
  expect(verdictOf(await login.ask(other))).toBe("role");
});

test("with flux.previews, the server may read what Flux applies, and can change nothing of it", async () => {
  const { namespace, kubeconfig } = await useCluster();
  await installFlux(kubeconfig);
  const installed = await install({ flux: { previews: true } });
  await expect.poll(() => rightsProblems(installed, [], [], { previewsFlux: true }), patience).toEqual([]);
  const path = `/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/${namespace}/kustomizations`;
  const tryTo = async (method: "PATCH" | "DELETE") =>
    verdictOf(await installed.login.ask({ method, path: `${path}/apps?dryRun=All`, body: { spec: {} } }));
  expect(await tryTo("PATCH")).toBe("role");
  expect(await tryTo("DELETE")).toBe("role");
  expect(verdictOf(await installed.login.ask({ method: "GET", path }))).toBe("yes");
});

test("with flux.statuses, the server reports what Flux made of a commit, and can change nothing that Flux applies", async () => {
  const [world, local] = await Promise.all([useWorld(), useLocalGithub("token")]);
  const { cluster } = world;
  const { namespace, kubeconfig } = cluster;
  await installFlux(kubeconfig);
  const installed = await install({ flux: { statuses: true } });
  const { login, variables } = installed;
  await expect.poll(() => rightsProblems(installed, [], [], { reportsFlux: true }), patience).toEqual([]);
  const admin = createKubeClient({ kubeconfig });
  onTestFinished(() => admin.close());
  const source = `/apis/source.toolkit.fluxcd.io/v1/namespaces/${namespace}/gitrepositories/shop`;
  const apps = `/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/${namespace}/kustomizations/apps`;
  /** Plays Flux's controllers. */
  const fetched = (commit: string) =>
    admin.request({
      ...{ method: "PATCH", path: `${source}/status` },
      body: { status: { artifact: { revision: `main@sha1:${commit}` } } },
    });
  const played = (status: PlayedStatus) =>
    admin.request({ method: "PATCH", path: `${apps}/status`, body: { status: playedStatus(status) } });
  const pulls = await useLocalPullRequests(world, local, {
    variables: () => ({ ...variables, TOWLINE_FLUX_STATUSES: "true" }),
  });
  const shows = (commit: string, said: string) =>
    pulls.shows(commit, { [`towline/kustomization/${namespace}/apps`]: said, towline: said });
  const succeeded = ["True", "ReconciliationSucceeded", ""] as const;

  // Flux has applied the first commit before the server knows of either.
  const first = await pulls.push(aProject({ namespace }));
  await cluster.create(gitRepository("shop", { url: pulls.repo.url, ref: { branch: "main" }, interval: "1h" }));
  await fetched(first);
  await cluster.create(kustomization("apps", { sourceRef: { kind: "GitRepository", name: "shop" }, interval: "1h" }));
  await played({ attempted: first, applied: first, ready: succeeded });
  await shows(first, "success: applied");

  const second = await pulls.push(aProject({ namespace, data: { color: "blue" } }));
  await shows(second, "pending: queued");
  await fetched(second);
  const inProgress = ["Unknown", "Progressing", "Reconciliation in progress"] as const;
  await played({ attempted: first, applied: first, attempting: second, ready: inProgress });
  await shows(second, "pending: being applied by Flux");
  const failed = ["False", "BuildFailed", "kustomize build failed: no such file\nand more"] as const;
  await played({ attempted: second, applied: first, attempting: second, ready: failed });
  await shows(second, "failure: kustomize build failed: no such file");

  const third = await pulls.push(aProject({ namespace, data: { color: "green" } }));
  await shows(third, "pending: queued");
  await fetched(third);
  await played({ attempted: third, applied: third, ready: succeeded });
  await shows(third, "success: applied");
  await shows(second, "failure: kustomize build failed: no such file");
  await shows(first, "success: applied");

  // A HelmRelease that the Kustomization contains; the next commit changes it.
  const web = `/apis/helm.toolkit.fluxcd.io/v2/namespaces/${namespace}/helmreleases/web`;
  const label = "kustomize.toolkit.fluxcd.io";
  await cluster.create(helmRelease("web", { [`${label}/name`]: "apps", [`${label}/namespace`]: namespace }));
  const released = (status: PlayedStatus) =>
    admin.request({ method: "PATCH", path: `${web}/status`, body: { status: playedStatus(status) } });
  await released({ ready: ["True", "InstallSucceeded", ""] });
  const [ofApps, ofWeb] = ["kustomization", "helmrelease"].map((kind) => `towline/${kind}/${namespace}/`);
  await pulls.shows(third, { [`${ofWeb}web`]: "success: applied", towline: "success: 2 deployments: 2 up to date" });
  const fourth = await pulls.push(aProject({ namespace, data: { color: "black" } }));
  await pulls.shows(fourth, {
    [`${ofApps}apps`]: "pending: queued",
    [`${ofWeb}web`]: `pending: waits for Kustomization ${namespace}/apps`,
  });
  await fetched(fourth);
  await admin.request({ method: "PATCH", path: web, body: { spec: { interval: "1h" } } });
  await played({ attempted: fourth, applied: fourth, ready: succeeded });
  await pulls.shows(fourth, {
    [`${ofApps}apps`]: "success: applied",
    [`${ofWeb}web`]: "pending: being applied by Flux",
  });
  await released({ generation: 2, ready: ["False", "UpgradeFailed", "Helm upgrade failed: timed out"] });
  await pulls.shows(fourth, {
    [`${ofWeb}web`]: "failure: Helm upgrade failed: timed out",
    towline: "failure: 2 deployments: 1 failed, 1 up to date",
  });

  const before = (await admin.request({ method: "GET", path: apps })) as TestResource;
  expect([before.metadata?.generation, before.metadata?.annotations]).toEqual([1, undefined]);
  const tried = async (method: "PATCH" | "DELETE", path: string) =>
    verdictOf(await login.ask({ method, path: `${path}?dryRun=All`, body: method === "PATCH" ? {} : undefined }));
  for (const path of [apps, web]) {
    const answers = [await tried("PATCH", path), await tried("PATCH", `${path}/status`), await tried("DELETE", path)];
    expect(answers).toEqual(["role", "role", "role"]);
  }
  expect([await tried("PATCH", source), await tried("PATCH", `${source}/status`)]).toEqual(["role", "role"]);
});

test("confined previews use tokens of their account, and the server cannot get tokens of any other", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const account = uniqueName("preview");
  const [installed] = await Promise.all([
    install({
      preview: { serviceAccount: { create: true, name: account, namespaces: [namespace] } },
      previews: { enabled: true, isolation: "required" },
    }),
    createAccount(cluster, "towline-deployer"),
  ]);
  const { login, variables } = installed;
  const deployer = [`${namespace}/towline-deployer`];
  await expect.poll(() => rightsProblems(installed, deployer, [`${namespace}/${account}`]), patience).toEqual([]);
  const pulls = await usePullRequests(world, { ...variables, TOWLINE_PREVIEW_ISOLATION: "required" });
  await pulls.repo.push(aProject({ namespace }));
  const shop = cluster.deployment("shop");
  await shop.create(aSpec(pulls.repo.url));
  await shop.settles();
  const pull = await pulls.open(aProject({ namespace, data: { color: "green" } }));
  expect(await pull.comment("took")).toMatch(/- +red\n\+ +green/);

  const token = (name: string) => ({
    method: "POST" as const,
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token?dryRun=All`,
    body: { spec: {} },
  });
  const acting = {
    method: "GET" as const,
    path: "/version",
    headers: { "impersonate-user": `system:serviceaccount:${namespace}:${account}` },
  };
  const attempts = { preview: token(account), deployer: token("towline-deployer"), default: token("default"), acting };
  expect(await tryAll(login, attempts)).toEqual({
    ...{ preview: "yes", deployer: "role", default: "role", acting: "role" },
  });
});

test("if only preview.enabled is set, pull requests are compared with the account that deploys", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const [installed] = await Promise.all([
    install({ previews: { enabled: true } }),
    createAccount(cluster, "towline-deployer"),
  ]);
  const accounts = [`${namespace}/towline-deployer`];
  await expect.poll(() => rightsProblems(installed, accounts, accounts), patience).toEqual([]);
  const pulls = await usePullRequests(world, { TOWLINE_PREVIEW_SERVICE_ACCOUNT_NAME: "", ...installed.variables });
  await pulls.repo.push(aProject({ namespace }));
  await cluster.deployment("shop").create(aSpec(pulls.repo.url));
  await cluster.deployment("shop").reaches("Ready");

  const pull = await pulls.open(aProject({ namespace, data: { color: "green" } }));
  expect(await pull.comment("took")).toMatch(/- +red\n\+ +green/);
});

test("with roles in its namespaces, the server works in all of them, and has no permissions anywhere else", async () => {
  const world = await useWorld();
  const other = await useCluster();
  const clusters = [world.cluster, other];
  const [installed] = await Promise.all([
    install({ rbac: { tier: "namespaced", namespaces: clusters.map(({ namespace }) => namespace) } }),
    ...clusters.map((cluster) => createAccount(cluster, "towline-deployer")),
  ]);
  const accounts = clusters.map(({ namespace }) => `${namespace}/towline-deployer`);
  await expect.poll(() => rightsProblems(installed, accounts), patience).toEqual([]);
  const towline = await useTowline(world, { ...installed.variables, TOWLINE_LEADER_ELECTION: "exclusive" });
  for (const cluster of clusters) {
    const repo = await world.repo(cluster.namespace);
    await repo.push(aProject({ namespace: cluster.namespace }));
    await cluster.deployment("shop").create(aSpec(repo.url), owned);
  }
  for (const cluster of clusters) await cluster.deployment("shop").reaches("Ready");
  expect(JSON.stringify(towline.lines)).not.toContain("forbidden");

  const place = await usePlace(world.cluster, installed, "shop");
  await whenPoliciesHold(installed.login, place, "change its spec");
  const verdicts = await tryAll(installed.login, serverAttempts(place));
  expect(inWords(verdicts)).toEqual(await documented(serverTable, "`namespaced`"));
});

test("as cluster-admin, the server deploys with its own permissions, like kluctl's controller", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const installed = await install({ rbac: { tier: "cluster-admin" } });
  await useTowline(world, installed.variables);
  const repo = await world.repo("shop");
  await repo.push(aProject({ namespace: cluster.namespace }));
  await cluster.deployment("shop").create(aSpec(repo.url));
  await cluster.deployment("shop").reaches("Ready");

  const place = await usePlace(cluster, installed, "shop");
  const verdicts = await tryAll(installed.login, serverAttempts(place));
  expect(inWords(verdicts)).toEqual(await documented(serverTable, "`cluster-admin`"));
});

test("the server may impersonate the named users of the page and their groups, and no others", async () => {
  const cluster = await useCluster();
  const page = {
    proxyHeader: "X-User",
    proxyAddresses: ["10.0.0.7"],
    groupPrefix: "team:",
    operatorGroups: ["ops", "others"],
    viewerGroups: ["*"],
  };
  const { login } = await install({ rbac: { pageUsers: ["ann"] }, page });
  const deployment = cluster.deployment("shop");
  await deployment.create(aSpec("https://git.example.com/shop"));
  const group = "rbac.authorization.k8s.io";
  const metadata = { name: "ask" };
  const rules = [{ apiGroups: ["gitops.kluctl.io"], resources: ["kluctldeployments"], verbs: ["patch"] }];
  await cluster.create({ apiVersion: `${group}/v1`, kind: "Role", metadata, rules } as object);
  await cluster.create({
    ...{ apiVersion: `${group}/v1`, kind: "RoleBinding", metadata },
    roleRef: { apiGroup: group, kind: "Role", name: metadata.name },
    subjects: [{ apiGroup: group, kind: "Group", name: "team:ops" }],
  } as object);

  const client = createKubeClient({ kubeconfig: login.kubeconfig });
  onTestFinished(() => client.close());
  const path = resourcePath(kluctlApi, { namespace: cluster.namespace, name: "shop" });
  const ask = (as?: string, asGroups?: readonly string[], dryRun?: "All") =>
    client.request({ method: "PATCH", path, query: { dryRun }, body: suspendPatch(true), as, asGroups, totalMs: 0 });
  const refusals = [
    [undefined, undefined, /may not change the spec|cannot patch/], // the server's own login may not
    ["bob", ["team:ops"], /cannot impersonate resource "users"/],
    ["ann", ["system:masters"], /cannot impersonate resource "groups"/],
    ["ann", ["team:ops", "team:hr"], /cannot impersonate resource "groups"/],
    ["ann", ["team:others"], /User "ann" cannot patch/],
  ] as const;
  for (const [as, groups, words] of refusals) {
    await expect.poll(() => ask(as, groups, "All").catch((error: Error) => error.message), patience).toMatch(words);
  }
  await ask("ann", ["team:ops"]);
  expect((await deployment.get())?.spec).toMatchObject({ suspend: true });
});
