/** The chart, with the real Helm and the real API server; kwok simulates the pods. */
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { once } from "node:events";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  type KubernetesObject,
  PatchStrategy,
  type V1Deployment,
  type V1PodSpec,
  type V1Secret,
  type V1StatefulSet,
} from "@kubernetes/client-node";
import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { startProcess } from "../../dev/parts/process.ts";
import { findTools } from "../../dev/tools.ts";
import { checkRedis } from "../../src/redis/connection.ts";
import { parseConfig } from "../../src/config.ts";
import { createKubeClient } from "../../src/kube/client.ts";
import { chartDir, type Helm, type Rendered, useHelm, type Values } from "../support/helm.ts";
import { whenMay } from "../support/accounts.ts";
import { uniqueName, useCluster, useTempDir } from "../support/world.ts";
import { type TestCluster } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

const run = promisify(execFile);

const gitea = {
  id: "gitea",
  kind: "gitea",
  apiUrl: "https://gitea.example.com/api/v1",
  existingSecret: "gitea",
  keys: { webhookSecrets: "webhook-secret", token: "token" },
};
const app = {
  id: "github",
  kind: "github",
  appId: "12",
  existingSecret: "github",
  keys: { webhookSecrets: "hook", appPrivateKey: "key" },
};
const monitoring = {
  metrics: {
    serviceMonitor: { enabled: true, labels: { release: "prometheus" }, interval: "30s" },
    dashboard: { enabled: true },
    prometheusRule: { enabled: true, runbookUrl: "https://docs.example.com/runbook.html" },
  },
};

const matrix: Readonly<Record<string, Values>> = {
  "as it is": {},
  "several git hosts and an Ingress": {
    forges: [gitea, app],
    page: { existingSecret: "page" },
    ingress: {
      enabled: true,
      className: "nginx",
      annotations: { "cert-manager.io/cluster-issuer": "letsencrypt" },
      hosts: ["towline.example.com"],
      tls: [{ secretName: "towline-tls", hosts: ["towline.example.com"] }],
    },
  },
  "a Gateway, monitoring, limited egress": {
    forges: [gitea],
    httpRoute: { enabled: true, hostnames: ["towline.example.com"], parentRefs: [{ name: "public" }] },
    networkPolicy: {
      webhooksFrom: [{ namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "ingress" } } }],
      egress: { enabled: true, extra: [{ ports: [{ port: 3000 }] }] },
    },
    config: { sourceOverride: { bindAddress: ":8082" } },
    ...monitoring,
  },
  "a Redis of one's own, its password in a Secret": {
    redis: { enabled: false },
    externalRedis: { url: "rediss://redis.example.com:6380", existingSecret: "redis", passwordKey: "password" },
  },
  "a Redis of one's own, its URL in a Secret": {
    redis: { enabled: false },
    externalRedis: { existingSecret: "redis", urlKey: "url" },
  },
  "a Redis behind sentinels": {
    redis: { enabled: false },
    externalRedis: {
      url: "rediss://mymaster",
      existingSecret: "redis",
      passwordKey: "password",
      caKey: "ca.crt",
      sentinels: ["redis-0.redis:26379", "redis-1.redis:26379"],
      sentinelPasswordKey: "sentinel-password",
    },
  },
  "one server without a volume, rendered without a cluster": {
    replicaCount: 1,
    redis: { auth: { existingSecret: "redis", passwordKey: "secret" }, persistence: { enabled: false } },
    podDisruptionBudget: { enabled: false },
    networkPolicy: { enabled: false },
    crds: { install: false },
  },
  "people who log in": {
    page: { existingSecret: "page", tokenKey: "", oidcSecretKey: "client", proxySecretKey: "proxy" },
    rbac: { pageUsers: ["ann@example.com"] },
    config: {
      page: {
        oidc: {
          issuer: "https://login.example.com",
          clientId: "towline",
          redirectUrl: "https://towline.example.com/auth/callback",
        },
        proxyHeader: "X-User",
        proxyAddresses: ["10.0.0.7"],
        tokenRole: "operator",
        groupPrefix: "oidc:",
        operatorGroups: ["ops"],
        viewerGroups: ["*", "dev"],
      },
    },
  },
  "rights in some namespaces, and an account for previews": {
    rbac: {
      tier: "namespaced",
      namespaces: ["shop", "blog"],
      serviceAccounts: ["deployer", "shop/other", "*"],
      readSecrets: true,
      awsRoles: true,
    },
    preview: { serviceAccount: { create: true, name: "towline-preview", comparesIn: ["*"] } },
    config: { sourceOverride: { bindAddress: ":8082" } },
  },
  "previews in pods of their own": {
    forges: [gitea],
    config: { preview: { enabled: true, isolation: "required" } },
    preview: { runner: { enabled: true, runtimeClassName: "gvisor" } },
    networkPolicy: { egress: { enabled: true } },
  },
  "notifications, and a git host that sends no webhooks": {
    forges: [{ id: "github", kind: "github", webhooks: false, existingSecret: "github", keys: { token: "token" } }],
    notifications: {
      targets: [
        { id: "team", kind: "slack", channel: "#team", existingSecret: "slack", keys: { token: "bot" } },
        { id: "hook", kind: "webhook", existingSecret: "hook", keys: { url: "url", signingKeys: "keys" } },
        { id: "mail", kind: "email", existingSecret: "mail", keys: { url: "url" }, from: "a@b.c", to: ["d@e.f"] },
      ],
      routes: [{ target: "mail", namespaces: ["prod-*"], events: ["failed"] }],
    },
  },
  "the rights of kluctl's controller": { rbac: { tier: "cluster-admin" }, admissionPolicy: { enabled: false } },
  "OpenShift, which chooses user and group": {
    podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null },
    redis: { podSecurityContext: { runAsUser: null, runAsGroup: null, fsGroup: null } },
    rbac: { aggregate: { view: true, edit: true } },
  },
  "everything else": {
    nameOverride: "tow",
    commonLabels: { team: "platform" },
    image: { tag: "1.2.3", digest: `sha256:${"a".repeat(64)}`, pullPolicy: "Always" },
    imagePullSecrets: [{ name: "pull" }],
    serviceAccount: { annotations: { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/towline" } },
    service: {
      webhooks: {
        type: "LoadBalancer",
        annotations: { a: "b" },
        extraSpec: { loadBalancerSourceRanges: ["192.0.2.0/24"], externalTrafficPolicy: "Local" },
      },
    },
    redis: { persistence: { storageClass: "fast", retain: true }, priorityClassName: "high", tolerations: [{}] },
    config: {
      concurrency: 8,
      shutdown: { drain: "2m30s" },
      webhooks: { port: 8000 },
      log: { level: "debug" },
      page: { port: 8091, proxyHeader: "X-User", proxyAddresses: ["10.0.0.7"] },
      recording: { enabled: true, days: 3 },
    },
    recording: { existingSecret: "recording" },
    extraArgs: ["--log-format=json"],
    extraEnv: [{ name: "HTTPS_PROXY", value: "http://proxy:3128" }],
    extraEnvFrom: [{ secretRef: { name: "vault" } }],
    extraVolumes: [{ name: "more", emptyDir: {} }],
    extraVolumeMounts: [{ name: "more", mountPath: "/more" }],
    extraObjects: [
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "{{ .Release.Name }}-more" } },
      "apiVersion: v1\nkind: ConfigMap\nmetadata: { name: and-more }",
    ],
    extraPodSpec: {
      hostAliases: [{ ip: "10.0.0.9", hostnames: ["git.example.com"] }],
      dnsConfig: { options: [{ name: "ndots", value: "1" }] },
    },
    podAnnotations: { a: "b" },
    podLabels: { c: "d" },
    priorityClassName: "high",
    nodeSelector: { "kubernetes.io/os": "linux" },
    tolerations: [{ operator: "Exists" }],
    affinity: { podAntiAffinity: {} },
    topologySpreadConstraints: [
      { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule", labelSelector: {} },
    ],
  },
};

/** The values of the Secrets' keys, by the end of the file's path. */
const contents: Readonly<Record<string, string>> = {
  appPrivateKey: "-----BEGIN PRIVATE KEY-----",
  "redis/url": "redis://redis.example.com",
  "hook/url": "https://hooks.example.com/abc",
  "mail/url": "smtp://mail.example.com",
  "recording/keys": "a-key-of-thirty-two-characters-01",
  signingKeys: `whsec_${Buffer.alloc(32).toString("base64")}`,
  token: "0123456789abcdef01234567",
};

/** The configuration that the server would parse from its file. */
function configOf(objects: readonly Rendered[]) {
  const file = parse(
    find<{ data: Record<string, string> } & Rendered>(objects, "ConfigMap").data["towline.yaml"] ?? "",
  ) as unknown;
  const readFile = (path: string) =>
    Object.entries(contents).find(([end]) => path.endsWith(`/${end}`))?.[1] ?? "0123456789abcdef01234567";
  return parseConfig({ env: {}, file, readFile });
}

function find<T = Rendered>(objects: readonly Rendered[], kind: string): T {
  return objects.find((object) => object.kind === kind) as T;
}

function podOf(objects: readonly Rendered[], kind = "Deployment"): V1PodSpec {
  return find<V1Deployment>(objects, kind).spec?.template.spec as V1PodSpec;
}

const text = { type: "string" };
const number = { type: "integer" };
const flag = { type: "boolean" };
const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const texts = { type: "object", additionalProperties: text };
const object = (properties: object) => ({ type: "object", properties });
const list = (items: object) => ({ type: "array", items });

/**
 * Kinds defined by other projects, with the fields that a chart like this one could use. Any other field is rejected.
 */
const foreign = [
  {
    group: "monitoring.coreos.com",
    kind: "ServiceMonitor",
    spec: object({
      selector: object({ matchLabels: texts }),
      endpoints: list(
        object({ port: text, path: text, honorLabels: flag, interval: text, relabelings: list(anything) }),
      ),
    }),
  },
  {
    group: "monitoring.coreos.com",
    kind: "PrometheusRule",
    spec: object({
      groups: list(
        object({
          name: text,
          interval: text,
          rules: list(object({ alert: text, record: text, expr: text, for: text, labels: texts, annotations: texts })),
        }),
      ),
    }),
  },
  {
    group: "gateway.networking.k8s.io",
    kind: "HTTPRoute",
    spec: object({
      parentRefs: list(object({ name: text, namespace: text, sectionName: text })),
      hostnames: list(text),
      rules: list(
        object({
          matches: list(object({ method: text, path: object({ type: text, value: text }) })),
          backendRefs: list(object({ name: text, port: number })),
        }),
      ),
    }),
  },
];

/** Installs definitions like those of the Prometheus operator and the Gateway API. */
async function useForeignKinds(cluster: TestCluster): Promise<void> {
  for (const { group, kind, spec } of foreign) {
    const plural = `${kind.toLowerCase()}s`;
    const schema = { openAPIV3Schema: object({ apiVersion: text, kind: text, metadata: { type: "object" }, spec }) };
    const definition = {
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: {
        name: `${plural}.${group}`,
        annotations: { "api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes" },
      },
      spec: {
        group,
        scope: "Namespaced",
        names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
        versions: [{ name: "v1", served: true, storage: true, schema }],
      },
    };
    await cluster.objects.create(definition as KubernetesObject);
    onTestFinished(async () => void (await cluster.objects.delete(definition as KubernetesObject)));
    // The API server serves a new definition before it knows its fields.
    const first = { apiVersion: `${group}/v1`, kind, metadata: { name: "first" }, spec: {} };
    const isTaken = () => applyDry([first], cluster).then(() => "taken", String);
    await expect.poll(isTaken, patience).toBe("taken");
  }
}

/** Applies every object to the API server as a strict dry run: an unknown field is an error. */
async function applyDry(objects: readonly Rendered[], { kubeconfig, namespace }: TestCluster): Promise<void> {
  const client = createKubeClient({ kubeconfig });
  try {
    for (const one of objects) {
      const { apiVersion, kind, metadata } = one;
      const group = apiVersion.includes("/") ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
      const plural =
        kind === "NetworkPolicy" ? "networkpolicies" : `${kind.toLowerCase()}${kind.endsWith("s") ? "es" : "s"}`;
      const whole =
        ["CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Namespace"].includes(kind) ||
        kind.startsWith("ValidatingAdmission");
      const admission: Readonly<Record<string, string>> = { ValidatingAdmissionPolicy: "validatingadmissionpolicies" };
      // The namespace of other objects may not exist yet, so they are checked in this one.
      const at = whole ? "" : `/namespaces/${namespace}`;
      const path = `${group}${at}/${admission[kind] ?? plural}/${metadata.name}`;
      const body = whole ? one : { ...one, metadata: { ...metadata, namespace } };
      const query = { dryRun: "All", fieldManager: "test", fieldValidation: "Strict", force: true };
      await client.request({ method: "PATCH", patch: "apply", path, query, body }).catch((error: unknown) => {
        throw new Error(`${kind} ${metadata.name}: ${(error as Error).message}`, { cause: error });
      });
    }
  } finally {
    client.close();
  }
}

test("with any of these values, the API server and our configuration accept the rendered objects", async () => {
  const cluster = await useCluster();
  const [helm] = await Promise.all([useHelm(cluster), useForeignKinds(cluster)]);
  const rendered = await Promise.all(
    Object.entries(matrix).map(async ([title, values]) => [title, await helm.template("tow", values)] as const),
  );

  for (const [title, objects] of rendered) {
    await applyDry(objects, cluster).catch((cause: unknown) => {
      throw new Error(`${title}: ${(cause as Error).message}`, { cause });
    });
    const config = configOf(objects);
    const pod = podOf(objects);
    expect(pod.containers, "`kluctl gitops logs` wants one container").toHaveLength(1);
    // If a port of that name exists and nothing listens on it, `kluctl gitops` waits forever.
    const workingCopies = pod.containers[0]?.ports?.find(({ name }) => name === "source-override");
    expect(workingCopies?.containerPort, title).toBe(config.sourceOverride.bindAddress?.port);
    expect(pod.terminationGracePeriodSeconds).toBe(config.shutdown.drainMs / 1_000 + 30);
    expect(find<V1Deployment>(objects, "Deployment").spec?.template.metadata?.labels).toMatchObject({
      "control-plane": "kluctl-controller",
      "app.kubernetes.io/component": "server",
    });
    // Otherwise each new version would replace the queue's only pod.
    const redis = objects.find(({ kind }) => kind === "StatefulSet") as V1StatefulSet | undefined;
    expect(JSON.stringify(redis?.spec?.template.metadata ?? {}), title).not.toMatch(/helm.sh\/chart|\/version/);
    // Every file that the configuration names is mounted.
    const mounts = pod.containers[0]?.volumeMounts?.map(({ mountPath }) => mountPath) ?? [];
    const text = find<{ data: Record<string, string> }>(objects, "ConfigMap").data["towline.yaml"] ?? "";
    for (const [file = ""] of text.matchAll(/\/etc\/towline\/secrets\/[\w/-]+/g)) {
      expect(mounts, `${title}: ${file}`).toContain(file.slice(0, file.lastIndexOf("/")));
    }
  }

  const byTitle = Object.fromEntries(rendered);
  expect(configOf(byTitle["several git hosts and an Ingress"] ?? []).forges).toMatchObject([
    { id: "gitea", kind: "gitea", token: expect.anything() },
    { id: "github", app: { id: "12" } },
  ]);
  expect(configOf(byTitle["a Redis of one's own, its URL in a Secret"] ?? []).redis.url?.reveal()).toBe(
    contents["redis/url"],
  );
  const other = byTitle["a Redis of one's own, its password in a Secret"] ?? [];
  expect(configOf(other).redis.url?.reveal()).toMatch(/^rediss:\/\/:.+@redis.example.com:6380/);
  expect(configOf(byTitle["a Redis behind sentinels"] ?? []).redis).toMatchObject({
    caFile: "/etc/towline/secrets/redis/ca",
    sentinels: ["redis-0.redis:26379", "redis-1.redis:26379"],
    sentinelPassword: expect.anything(),
  });
  expect(other.map(({ kind }) => kind)).not.toContain("StatefulSet");
  const few = byTitle["one server without a volume, rendered without a cluster"] ?? [];
  expect(few.filter(({ kind }) => ["Secret", "CustomResourceDefinition", "NetworkPolicy"].includes(kind))).toEqual([]);
  const more = byTitle["everything else"] ?? [];
  expect(podOf(more).containers[0]?.image).toBe(`towline/towline:1.2.3@sha256:${"a".repeat(64)}`);
  expect(
    more.filter(({ metadata }) => metadata.labels?.["team"] !== "platform").map(({ metadata }) => metadata.name),
  ).toEqual(expect.toSatisfy((names: string[]) => names.every((name) => name === "tow-more" || name === "and-more")));
  // The page is served if any way to log in is configured.
  const services = (title: string) =>
    (byTitle[title] ?? []).filter(({ kind }) => kind === "Service").map(({ metadata }) => metadata.name);
  const withPage = byTitle["several git hosts and an Ingress"] ?? [];
  expect(configOf(withPage).page).toMatchObject({ port: 8090, token: expect.anything() });
  expect(podOf(withPage).containers[0]?.volumeMounts?.map(({ mountPath }) => mountPath)).toContain("/etc/towline/page");
  expect(services("several git hosts and an Ingress")).toContainEqual(expect.stringMatching(/-page$/));
  expect(configOf(more).page).toMatchObject({ port: 8091, proxy: { header: "X-User", addresses: ["10.0.0.7"] } });
  const people = byTitle["people who log in"] ?? [];
  expect(configOf(people).page).toMatchObject({
    token: undefined,
    oidc: { clientSecret: expect.anything() },
    proxy: { secret: { header: "X-Towline-Proxy-Secret", value: expect.anything() } },
  });
  const rules = people.flatMap(({ kind, ...role }) => (kind === "ClusterRole" ? (role["rules"] as object[]) : []));
  const reviews = { apiGroups: ["authorization.k8s.io"], resources: ["subjectaccessreviews"], verbs: ["create"] };
  expect(rules).toContainEqual(reviews);
  expect(withPage.flatMap(({ kind, ...role }) => (kind === "ClusterRole" ? role["rules"] : []))).not.toContainEqual(
    reviews,
  );
  const impersonate = { apiGroups: [""], verbs: ["impersonate"] };
  expect(rules).toContainEqual({
    ...impersonate,
    resources: ["users"],
    resourceNames: ["ann@example.com", "towline:page-token"],
  });
  expect(rules).toContainEqual({ ...impersonate, resources: ["groups"], resourceNames: ["oidc:ops", "oidc:dev"] });
  const alerts = JSON.stringify(find(byTitle["a Gateway, monitoring, limited egress"] ?? [], "PrometheusRule"));
  expect(alerts).toContain(`"runbook_url":"https://docs.example.com/runbook.html#towlinedown"`);
  expect(alerts).not.toContain(`"runbook_url":"docs/`);
  expect(JSON.stringify(byTitle["several git hosts and an Ingress"])).not.toMatch(/"(?:users|groups)"/);
  expect(services("as it is")).not.toContainEqual(expect.stringMatching(/-page$/));
  // The cluster chooses user and group, and all other security settings of the pods stay.
  const elsewhere = byTitle["OpenShift, which chooses user and group"] ?? [];
  for (const pod of [podOf(elsewhere), podOf(elsewhere, "StatefulSet")]) {
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
    for (const name of ["runAsUser", "runAsGroup", "fsGroup"]) expect(pod.securityContext).not.toHaveProperty(name);
    expect(pod.containers[0]?.securityContext).toMatchObject({ readOnlyRootFilesystem: true });
  }
  const aggregated = (objects: readonly Rendered[]) =>
    objects
      .filter(({ metadata }) => /aggregate-to/.test(JSON.stringify(metadata.labels)))
      .map(({ metadata }) => metadata.name);
  expect(aggregated(elsewhere)).toEqual([expect.stringMatching(/-edit$/), expect.stringMatching(/-view$/)]);
  expect(rendered.flatMap(([, objects]) => aggregated(objects))).toHaveLength(2);
  expect(podOf(more).hostAliases).toEqual([{ ip: "10.0.0.9", hostnames: ["git.example.com"] }]);
  expect(JSON.stringify(more.find(({ metadata }) => metadata.name.endsWith("-webhooks")))).toContain("192.0.2.0/24");
  // Only webhooks are exposed.
  for (const title of ["several git hosts and an Ingress", "a Gateway, monitoring, limited egress"]) {
    const opened = (byTitle[title] ?? []).filter(({ kind }) => ["Ingress", "HTTPRoute"].includes(kind));
    expect(JSON.stringify(opened[0]?.["spec"])).toContain(`"/webhooks/"`);
    expect(JSON.stringify(opened[0]?.["spec"]).match(/-(?:webhooks|admin)"/g)).toEqual(['-webhooks"']);
  }
});

test("the preview pod has nothing of the server's, and no network access", async () => {
  const helm = await useHelm(await useCluster());
  const values = {
    ...matrix["previews in pods of their own"],
    extraEnv: [{ name: "HTTPS_PROXY", value: "http://proxy:3128" }],
    serviceAccount: { annotations: { "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/towline" } },
    config: { preview: { enabled: true, isolation: "required", concurrency: 3 } },
  };
  const objects = await helm.template("tow", values);
  const named = <T>(kind: string, component: string) =>
    objects.find(
      (one) => one.kind === kind && one.metadata.labels?.["app.kubernetes.io/component"] === component,
    ) as T & Rendered;
  const runner = "preview-runner";
  const pod = named<V1Deployment>("Deployment", runner).spec?.template.spec as V1PodSpec;

  const account = named<{ automountServiceAccountToken: boolean }>("ServiceAccount", runner);
  expect(pod).toMatchObject({
    automountServiceAccountToken: false,
    serviceAccountName: account.metadata.name,
    runtimeClassName: "gvisor",
    securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
    containers: [
      { args: ["preview-runner"], securityContext: { readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } } },
    ],
  });
  expect(account).toMatchObject({ automountServiceAccountToken: false });
  expect(account.metadata.annotations).toBeUndefined();
  const subjects = objects.flatMap(({ kind, ...rest }) => (kind.endsWith("RoleBinding") ? [rest["subjects"]] : []));
  expect(JSON.stringify(subjects)).not.toContain(account.metadata.name);
  const secret = named<V1Secret>("Secret", runner);
  expect(pod.containers[0]?.resources).toEqual({ requests: { cpu: "100m", memory: "256Mi" }, limits: { memory: "9728Mi" } }); // prettier-ignore
  const volumes = pod.volumes ?? [];
  expect(volumes.flatMap(({ emptyDir }) => emptyDir?.sizeLimit ?? [])).toEqual(["9728Mi", "9728Mi", "9728Mi"]);
  expect(volumes.filter(({ emptyDir }) => emptyDir === undefined)).toEqual([
    { name: "token", secret: expect.objectContaining({ secretName: secret.metadata.name }) },
  ]);
  const env = pod.containers[0]?.env ?? [];
  expect(env.filter(({ value }) => value === undefined)).toEqual([]);
  expect(env.map(({ name }) => name).filter((name) => !name.startsWith("TOWLINE_"))).toEqual([]);

  const policy = named<{ spec: Record<string, unknown> }>("NetworkPolicy", runner).spec;
  expect(policy).toMatchObject({
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: [{ podSelector: { matchLabels: { "app.kubernetes.io/component": "server" } } }] }],
  });
  expect(policy["egress"]).toBeUndefined();
  const { address, token } = configOf(objects).preview.runner;
  expect(address).toEqual({ host: named("Service", runner).metadata.name, port: 8092 });
  expect(token).toBeDefined();
  const mounts = podOf(objects).containers[0]?.volumeMounts ?? [];
  expect(mounts.map(({ mountPath }) => mountPath)).toContain("/etc/towline/preview-runner");
});

test("the notes after an installation lead to the webhooks and the page, however they are exposed", async () => {
  const helm = await useHelm(await useCluster());
  // A name of its own, because another test may create the default namespace between two of Helm's requests.
  const results = `config.results.namespace=${uniqueName("results")}`;
  const told = (...values: string[]) =>
    helm.run(
      ...["install", "tow", chartDir, "--dry-run=server", "--set-json", `forges=${JSON.stringify([gitea])}`],
      ...[results, ...values].flatMap((value) => ["--set", value]),
    );
  const plain = await told();
  expect(plain).toContain("<address>/webhooks/gitea");
  expect(plain).toContain("port-forward service/tow-towline-webhooks 8080:80");
  expect(plain).not.toContain("To open the page");
  const balanced = await told("service.webhooks.type=LoadBalancer", "page.existingSecret=page");
  expect(balanced).toMatch(/external address of the load balancer:\n.*get service tow-towline-webhooks/);
  expect(balanced).toContain("port-forward service/tow-towline-page 8090:80");
});

test("a release with the same name in another namespace shares the results namespace", async () => {
  const cluster = await useCluster();
  const helm = await useHelm(cluster);
  const name = uniqueName("results");
  const annotations = { "meta.helm.sh/release-name": "tow", "meta.helm.sh/release-namespace": "elsewhere" };
  const labels = { "app.kubernetes.io/managed-by": "Helm" };
  await cluster.core.createNamespace({ body: { metadata: { name, annotations, labels } } });
  onTestFinished(async () => void (await cluster.core.deleteNamespace({ name })));
  const set = ["--set", `config.results.namespace=${name}`];
  const rendered = await helm.run("install", "tow", chartDir, "--dry-run=server", ...set);
  expect(rendered).toMatch(new RegExp(`kind: Role\n(.*\n)*? *namespace: ${name}\n`));
  expect(rendered).not.toMatch(/kind: Namespace\n/);
});

test("contradictory values are rejected with an error that says what to do", async () => {
  const cluster = await useCluster();
  const helm = await useHelm(cluster);
  const { keys: _, ...keyless } = gitea;
  const refused: readonly (readonly [Values, RegExp])[] = [
    [
      { preview: { runner: { enabled: true } }, config: { preview: { isolation: "off" } } },
      /preview.runner.enabled requires isolation: set config.preview.isolation to required or auto/,
    ],
    [{ config: { sweep: { intervall: "30s" } } }, /additional properties 'intervall' not allowed/],
    [{ metrics: { prometheusRule: { runbookUrl: "runbook.md" } } }, /runbookUrl.*does not match pattern/],
    [{ replicas: 1 }, /additional properties 'replicas' not allowed/],
    [{ redis: { enabled: false } }, /No Redis is configured: set redis.enabled=true .* or externalRedis.url/],
    [{ externalRedis: { url: "redis://r" } }, /set redis.enabled=false to use your own Redis/],
    [{ forges: [keyless] }, /gitea has an existingSecret but no keys/],
    [{ forges: [{ id: "github", kind: "github" }] }, /github needs a webhook secret: create a Secret/],
    [{ forges: [gitea, gitea] }, /the id gitea is used twice/],
    [{ forges: [{ ...gitea, id: "notifications" }] }, /the id notifications is reserved/],
    [
      { notifications: { targets: [{ id: "team", kind: "slack", keys: { token: "bot" } }] } },
      /notifications.targets: team has keys but no existingSecret/,
    ],
    [{ config: { recording: { enabled: true } } }, /needs a key: .* set recording.existingSecret to its name/],
    [{ ingress: { enabled: true } }, /ingress.enabled requires ingress.hosts/],
    [{ httpRoute: { enabled: true } }, /httpRoute.enabled requires httpRoute.parentRefs/],
    [{ extraPodSpec: { containers: [] } }, /extraPodSpec: containers is set by the chart/],
    [{ service: { admin: { extraSpec: { ports: [] } } } }, /service.admin.extraSpec: ports is set by the chart/],
    [
      { rbac: { tier: "cluster-admin", aggregate: { edit: true } } },
      /every user who may edit one namespace would be cluster-admin/,
    ],
    [{ config: { defaultServiceAccount: "other" } }, /may not impersonate other: add it to rbac.serviceAccounts/],
    [{ config: { sweep: { interval: "1x" } } }, /\/config\/sweep\/interval.*does not match pattern/],
    [{ config: { webhooks: { port: 0 } } }, /config.webhooks.port is 0, but a Service needs a fixed port/],
    [{ rbac: { tier: "namespaced" } }, /set rbac.namespaces to the namespaces with KluctlDeployments/],
    [{ preview: { serviceAccount: { create: true } } }, /set preview.serviceAccount.name/],
    [
      {
        preview: { serviceAccount: { create: true, name: "p", namespaces: ["shop"] } },
        admissionPolicy: { enabled: false },
      },
      /set admissionPolicy.enabled=true. Without the policy/,
    ],
  ];

  await Promise.all(
    refused.map(([values, words]) => expect(helm.template("tow", values), String(words)).rejects.toThrow(words)),
  );
  await expect(helm.template("tow", {}, "--kube-version=1.29.0")).rejects.toThrow(
    /admissionPolicy.enabled needs Kubernetes 1.30 or newer, but this cluster is v1.29.0: set it to false/,
  );
  await helm.template("tow", { admissionPolicy: { enabled: false } }, "--kube-version=1.25.0");
  await expect(helm.run("lint", chartDir, "--strict")).resolves.toContain("0 chart(s) failed");
});

/** Creates the volume for the release's Redis, because the cluster has no provisioner. */
async function useVolume(cluster: TestCluster, release: string): Promise<void> {
  const volume = {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: uniqueName("volume") },
    spec: {
      capacity: { storage: "1Gi" },
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Retain",
      claimRef: { namespace: cluster.namespace, name: `data-${release}-redis-0` },
      hostPath: { path: "/nowhere" },
    },
  };
  await cluster.objects.create(volume as KubernetesObject);
  onTestFinished(async () => void (await cluster.objects.delete(volume as KubernetesObject)));
}

/** Fails unless all workloads of the release are ready, which `--wait` waited for. */
async function expectReady(cluster: TestCluster, release: string, replicas: number): Promise<void> {
  const server = await cluster.find<V1Deployment & KubernetesObject>("apps/v1", "Deployment", release);
  const redis = await cluster.find<V1StatefulSet & KubernetesObject>("apps/v1", "StatefulSet", `${release}-redis`);
  expect(server?.status?.readyReplicas).toBe(replicas);
  expect(redis?.status?.readyReplicas).toBe(1);
}

test.each(["helm", "helm4"] as const)("%s installs, upgrades, tests and uninstalls the chart", async (version) => {
  const cluster = await useCluster();
  const helm = await useHelm({ ...cluster, version });
  const release = uniqueName("towline");
  await useVolume(cluster, release);
  // The strictest Pod Security Standard: pods that require more are rejected.
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const here = { apiVersion: "v1", kind: "Namespace", metadata: { name: cluster.namespace, labels } };
  await cluster.objects.patch(here, undefined, undefined, "test", undefined, PatchStrategy.MergePatch);
  await cluster.create({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "gitea" },
    stringData: { "webhook-secret": "a-webhook-secret-for-tests", token: "a-token" },
  } as KubernetesObject);
  const results = { namespace: uniqueName("results") };
  onTestFinished(async () => void (await cluster.core.deleteNamespace({ name: results.namespace }))); // Helm keeps it
  const rbac = { aggregate: { view: true, edit: true } };
  const values = {
    forges: [gitea],
    ingress: { enabled: true, hosts: ["towline.example.com"] },
    config: { results },
    rbac,
  };
  const password = async () =>
    (await cluster.find<V1Secret & KubernetesObject>("v1", "Secret", `${release}-redis`))?.data?.["password"];

  const before = performance.now();
  const notes = await helm.install(release, values);
  const seconds = ((performance.now() - before) / 1_000).toFixed(1);
  process.stdout.write(`${version} install to ready: ${seconds} s (pods played by kwok)\n`);
  await expectReady(cluster, release, 2);
  expect(notes).toContain("http://towline.example.com/webhooks/gitea");
  expect(notes).toContain(`helm test ${release}`);
  expect(notes).toMatch(
    /not previewed\. With config\.preview\.enabled=true .*before any review: read docs\/preview-security\.md/,
  );
  const first = await password();
  expect(Buffer.from(first ?? "", "base64").toString()).toMatch(/^\w{40}$/);

  // Kubernetes's own roles `view` and `edit` contain the chart's additions.
  for (const role of ["view", "edit"]) {
    await cluster.create({
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { name: role },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
      subjects: [{ kind: "ServiceAccount", name: role, namespace: cluster.namespace }],
    } as KubernetesObject);
  }
  const deployments = { namespace: cluster.namespace, group: "gitops.kluctl.io", resource: "kluctldeployments" };
  await whenMay(cluster, "view", [{ ...deployments, verb: "list" }]);
  await whenMay(cluster, "edit", [{ ...deployments, verb: "create" }]);

  await helm.upgrade(release, { ...values, replicaCount: 3, config: { results, log: { level: "debug" } } });
  await expectReady(cluster, release, 3);
  expect(await password()).toBe(first);

  await helm.run("test", release, "--timeout", "2m");

  // Migrating from kluctl's controller starts with all permissions, which are reduced later.
  for (const tier of ["cluster-admin", "namespaced", "impersonation"]) {
    await helm.upgrade(release, { ...values, rbac: { tier, namespaces: [cluster.namespace] } });
  }

  await helm.uninstall(release);
  await expectGone(cluster, release);
});

async function expectGone({ kubeconfig, namespace }: TestCluster, release: string): Promise<void> {
  const client = createKubeClient({ kubeconfig });
  try {
    const kinds = ["apps/v1/deployments", "apps/v1/statefulsets", "networking.k8s.io/v1/networkpolicies"];
    const core = ["services", "secrets", "configmaps", "serviceaccounts", "persistentvolumeclaims", "pods"];
    const left = async () => {
      const lists = await Promise.all(
        [
          ...kinds.map((kind) => `/apis/${kind.replace(/\/(?=[^/]*$)/, `/namespaces/${namespace}/`)}`),
          ...core.map((kind) => `/api/v1/namespaces/${namespace}/${kind}`),
        ].map((path) => client.list(path, { query: { labelSelector: `app.kubernetes.io/instance=${release}` } })),
      );
      return lists.flatMap(({ items }) => items.map((item) => (item as KubernetesObject).metadata?.name));
    };
    await expect.poll(left, patience).toEqual([]);
  } finally {
    client.close();
  }
}

test("a definition of KluctlDeployment that was installed before is left alone, and ours is kept", async () => {
  const cluster = await useCluster(); // it has a definition of KluctlDeployment that no release of ours installed
  const helm = await useHelm(cluster);
  const installed = await helm.run("install", "tow", chartDir, "--dry-run=server", "--output", "json");
  const { manifest } = JSON.parse(installed) as { manifest: string };
  expect(manifest).not.toContain("CustomResourceDefinition");

  const ours = find(await helm.template("tow"), "CustomResourceDefinition");
  expect(ours.metadata.annotations).toEqual({ "helm.sh/resource-policy": "keep" });
  const file = parse(await readFile(join(chartDir, "files/kluctldeployments.yaml"), "utf8")) as Rendered;
  expect(ours["spec"]).toEqual(file["spec"]);
});

/** Runs a container's command unchanged, except for the paths that only exist in a pod. */
async function startValkey(helm: Helm, password: string): Promise<Redis> {
  const [container] = podOf(await helm.template("tow"), "StatefulSet").containers;
  const [dir, { "redis-server": server }] = await Promise.all([
    useTempDir(),
    findTools(["redis-server"], { say: () => undefined }),
  ]);
  await mkdir(join(dir, "bin"));
  await symlink(server, join(dir, "bin/valkey-server"));
  await writeFile(join(dir, "password"), password);
  const [command = "", ...args] = container?.command ?? [];
  const socket = join(dir, "socket");
  const script = (args.at(-1) ?? "")
    .replaceAll("/run/secrets/valkey/password", join(dir, "password"))
    .replace("dir /data", `dir ${dir}\nport 0\nunixsocket ${socket}`);
  const child = await startProcess({
    name: "valkey",
    command,
    args: [...args.slice(0, -1), script],
    env: { PATH: `${join(dir, "bin")}:${process.env["PATH"]}` },
    cwd: dir,
    logFile: join(dir, "log"),
  });
  onTestFinished(() => child.stop(1_000));
  const redis = new Redis({ path: socket, password, retryStrategy: () => 100, maxRetriesPerRequest: null });
  redis.on("error", () => undefined); // the server may not be listening yet
  onTestFinished(() => redis.disconnect());
  return redis;
}

test("the chart's Redis requires the password and keeps its data, and the test pod reports whether the server is ready", async () => {
  const cluster = await useCluster();
  const helm = await useHelm(cluster);
  const redis = await startValkey(helm, "aPassword0123456789");

  expect(await checkRedis(redis, "towline")).toMatchObject({ problems: [], warnings: [] });
  expect(await redis.config("GET", "appendfsync")).toEqual(["appendfsync", "everysec"]);
  const stranger = redis.duplicate({ password: "another", lazyConnect: true, retryStrategy: () => null });
  stranger.on("error", () => undefined);
  await expect(stranger.ping()).rejects.toThrow();

  const pod = (await helm.template("tow")).find(({ metadata }) => metadata.annotations?.["helm.sh/hook"] === "test");
  const [asks] = (pod as unknown as { spec: V1PodSpec }).spec.containers;
  let status = 200;
  const server = createServer((_req, res) => res.writeHead(status).end("{}")).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const env = { PATH: process.env["PATH"], URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/readyz` };
  const ask = () => run(asks?.command?.[0] ?? "", asks?.command?.slice(1) ?? [], { env });
  await ask();
  status = 503;
  await expect(ask()).rejects.toThrow("Command failed");
});
