/**
 * What can be set when the chart is installed: one schema, from which values.yaml, values.schema.json and the chart's
 * README are made (`npm run docs`). The server's own keys are not here: they come from its configuration's schema.
 */
import { z } from "zod";
import { forgeSchema } from "../../src/config/schema.ts";
import { configFields, type Field, forgeFields } from "../../src/config/fields.ts";

/** Keys of the configuration that the chart writes by itself, or that name what an image has in its own place. */
const written = [
  "dataDir",
  "webhooks.host",
  "admin.enabled",
  "admin.host",
  "ui.host",
  "kluctl.path",
  "kluctl.cacheDir",
  "kluctl.unpackedDir",
  "kubernetes.namespaces",
  "kubernetes.readSecretsAs",
  "preview.serviceAccountName",
  "preview.runner.address",
  "preview.runner.tokenFile",
  "preview.runner.bindAddress",
];

/** The keys of `config`. A secret is none: values are kept in the cluster, and often in git. */
export function configurable(): readonly Field[] {
  return configFields().filter(({ path, secret }) => !secret && !path.startsWith("redis.") && !written.includes(path));
}

const text = (description: string, value = "") => z.string().prefault(value).meta({ description });
const matching = (pattern: RegExp, description: string, value = "") =>
  z.string().regex(pattern).prefault(value).meta({ description });
/** An amount of bytes as Kubernetes writes it, or nothing where that means no limit. */
const quantity = /^(([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[kMGTPE]|[eE][0-9]+)?)?$/;
const flag = (value: boolean, description: string) => z.boolean().prefault(value).meta({ description });
const integer = (least: number, value: number, description: string) =>
  z.int().min(least).prefault(value).meta({ description });

/** Where an image in a pod wants another default than a server anywhere: four at once fit into its memory. */
export const defaultsInPods: Readonly<Record<string, unknown>> = {
  concurrency: 4,
  "preview.concurrency": 2,
  "log.format": "json",
};

type Json = { readonly [key: string]: unknown };

/** Something of Kubernetes's that is passed on as it is. */
const passed = (description: string, value: Json = {}) =>
  z.record(z.string(), z.unknown()).prefault(value).meta({ description });
const list = (description: string, value: readonly Json[] = []) =>
  z
    .array(z.record(z.string(), z.unknown()))
    .prefault([...value])
    .meta({ description });
const texts = (description: string, value: readonly string[] = []) =>
  z
    .array(z.string())
    .prefault([...value])
    .meta({ description });
const labels = (description: string) => z.record(z.string(), z.string()).prefault({}).meta({ description });

function section<Shape extends z.ZodRawShape>(description: string, shape: Shape) {
  return z
    .strictObject(shape)
    .prefault({} as never)
    .meta({ description });
}

/** `reference`: `name:tag@sha256:…`, of which the tag and the digest may be missing. */
const image = (reference: string, tagText: string) => {
  const [named = "", digest = ""] = reference.split("@");
  const [repository = "", tag = ""] = named.split(":");
  return section(
    "Image. Its repository is looked for where the cluster looks by default, unless it names a registry.",
    {
      repository: text("Repository, with the registry if it is not the cluster's default.", repository),
      tag: text(tagText, tag),
      digest: text(
        "`sha256:…`, to pin exactly these bytes. The tag is ignored then: empty it to use another tag.",
        digest,
      ),
      pullPolicy: z
        .enum(["Always", "IfNotPresent", "Never"])
        .prefault("IfNotPresent")
        .meta({ description: "Pull policy." }),
    },
  );
};

/** What a pod of the strictest Pod Security Standard has to say. */
const podSecurity = () =>
  passed("Security context of the pod. A `null` takes a key out, as for OpenShift, which chooses user and group.", {
    runAsNonRoot: true,
    runAsUser: 65_532,
    runAsGroup: 65_532,
    fsGroup: 65_532,
    fsGroupChangePolicy: "OnRootMismatch",
    seccompProfile: { type: "RuntimeDefault" },
  });
const containerSecurity = () =>
  passed("Security context of its container.", {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });

const service = (port: number, whose: string) =>
  section(whose, {
    type: z.enum(["ClusterIP", "NodePort", "LoadBalancer"]).prefault("ClusterIP").meta({ description: "Type." }),
    port: integer(1, port, "Port."),
    annotations: labels("Annotations."),
    extraSpec: passed("More of its spec, as `loadBalancerSourceRanges` or `externalTrafficPolicy`."),
  });

/** One git host: the configuration's own keys but for secrets, which lie in a Secret of the release's namespace. */
const forge = z.strictObject({
  ...forgeSchema.pick({
    id: true,
    kind: true,
    apiUrl: true,
    webUrl: true,
    hosts: true,
    appId: true,
    insecureAllowUnsigned: true,
  }).shape,
  existingSecret: z.string().min(1).optional().meta({ description: "Secret with what `keys` names." }),
  keys: z
    .strictObject(
      Object.fromEntries(
        forgeFields("<KIND>")
          .filter(({ secret }) => secret)
          .map(({ path, description = "" }) => [path, z.string().min(1).optional().meta({ description })]),
      ),
    )
    .optional()
    .meta({ description: "Keys of the Secret. Only those that are named are read." }),
});

export const valuesSchema = z.strictObject({
  nameOverride: text("Stands for the chart's name in names and labels."),
  fullnameOverride: text("Stands for the release's and the chart's name."),
  commonLabels: labels("Labels of every object."),
  image: image("towline/towline", "Tag; empty: the chart's appVersion."),
  imagePullSecrets: list("Secrets to pull images with, as `- name: …`."),
  replicaCount: integer(0, 2, "Servers. They share the work; one alone is enough, two survive a node's end."),
  forges: z
    .array(forge)
    .prefault([])
    .meta({ description: "The git hosts that send webhooks. Without any, git is only polled." }),
  config: z
    .record(z.string(), z.unknown())
    .prefault({})
    .meta({ description: "The server's configuration, as in docs/configuration.md." }),
  redis: section("A small Valkey for this release: one pod, and what is queued survives it.", {
    enabled: flag(true, "Whether there is one. If not, set `externalRedis`."),
    image: image(
      "valkey/valkey:8.1.10@sha256:640c5e62cea04b6d6f2084232651d0cc70362d31f4f805e7be94dbed6855e8f2",
      "Tag.",
    ),
    auth: section("Its password. Without `existingSecret` one is made at the first install, and kept by upgrades.", {
      existingSecret: text(
        "Secret with the password (letters and digits). Needed where charts are rendered without a cluster, as Argo CD does.",
      ),
      passwordKey: text("Key of the password.", "password"),
    }),
    persistence: section("Its volume.", {
      enabled: flag(true, "If not, what is queued is lost with the pod, and found again by the next sweep."),
      size: matching(quantity, "Size.", "1Gi"),
      storageClass: text("Storage class; empty: the cluster's default."),
      retain: flag(false, "Keeps the volume when the release is uninstalled. Nothing in it is missed."),
    }),
    podSecurityContext: podSecurity(),
    securityContext: containerSecurity(),
    resources: passed("Resources.", { requests: { cpu: "20m", memory: "32Mi" }, limits: { memory: "256Mi" } }),
    nodeSelector: labels("Node selector."),
    tolerations: list("Tolerations."),
    affinity: passed("Affinity."),
    priorityClassName: text("Priority class."),
  }),
  externalRedis: section("A Redis of yours, 6.2 or newer, or a Valkey: with `noeviction`, best with AOF.", {
    url: matching(/^(rediss?:\/\/([^:@/\s]*@)?[^@\s]+)?$/, "`redis://` or `rediss://` (TLS), without the password."),
    existingSecret: text("Secret with what the keys below name."),
    passwordKey: text("Key of the password; empty: there is none."),
    urlKey: text("Key of the URL, instead of `url`."),
    caKey: text("Key of the certificates (PEM) that sign Redis's, if no public authority does."),
    sentinels: z
      .array(z.string().regex(/^\S+:[0-9]+$/))
      .prefault([])
      .meta({
        description: "Sentinels, as `host:port`. `url` then has their name of the Redis: `redis://mymaster`.",
      }),
    sentinelPasswordKey: text("Key of the sentinels' password; empty: they have none."),
  }),
  serviceAccount: section("The server's identity.", {
    create: flag(true, "Whether the chart makes it."),
    name: text("Its name; empty: the release's, or `default` if the chart does not make it."),
    annotations: labels("Annotations, as for a cloud's workload identity."),
  }),
  rbac: section("What the server may do with its own login: docs/rights.md.", {
    create: flag(true, "Whether the chart makes roles and bindings."),
    tier: z.enum(["impersonation", "namespaced", "cluster-admin"]).prefault("impersonation").meta({
      description:
        "`impersonation`: its bookkeeping, and to act as `rbac.serviceAccounts`. `namespaced`: the same, in `rbac.namespaces` only. `cluster-admin`: everything, as kluctl's controller may.",
    }),
    namespaces: texts(
      "Namespaces with KluctlDeployments; empty: all. The server looks at no others, and its roles are there only.",
    ),
    serviceAccounts: z
      .array(z.string().regex(/^(\*|([a-z0-9]([-a-z0-9]*[a-z0-9])?\/)?[a-z0-9]([-.a-z0-9]*[a-z0-9])?)$/))
      .prefault(["towline-deployer"])
      .meta({
        description:
          "Service accounts that it may act as: `name`, in each namespace with deployments, or `namespace/name`. Deployments that name none are deployed as the first name. `*` is all of them: with it, the server can do whatever any of them can.",
      }),
    readSecrets: flag(
      false,
      "Lets it read all Secrets of those namespaces. If not, the Secrets that a deployment names are read as its service account, which needs `get` on them.",
    ),
    pageUsers: texts(
      "People, as the cluster knows them, whom it may act as when they ask for something on the page, with their groups in `config.ui.operatorGroups` and `config.ui.viewerGroups`. `*` is everybody: with it, the server can do whatever any user can.",
    ),
    awsRoles: flag(
      false,
      "Lets it ask for tokens of `rbac.serviceAccounts`, to decrypt with the AWS roles in their annotations.",
    ),
    aggregate: section("Adds to Kubernetes's own roles for people, in every namespace that they have them in.", {
      view: flag(false, "Whoever may `view` may look at KluctlDeployments."),
      edit: flag(
        false,
        "Whoever may `edit`, or is `admin`, may change them: and so deploy as the accounts that the server may act as.",
      ),
    }),
  }),
  preview: section("Previews of pull requests.", {
    serviceAccount: section("The identity that previews act as, so that they cannot change anything.", {
      create: flag(false, "Whether the chart makes it, with a role for comparing. Needs `admissionPolicy.enabled`."),
      name: text("Its name, the same in each deployment's namespace; empty: the deployment's own."),
      annotations: labels("Annotations."),
      namespaces: texts("Namespaces to make it in: those with KluctlDeployments. Empty: `rbac.namespaces`."),
      comparesIn: texts(
        "Namespaces that are deployed to, whose objects it may read and try to change, Secrets included. Empty: those it is in. `*`: all.",
      ),
      resources: list("What it may read and try to change there: name the kinds that your projects deploy.", [
        { apiGroup: "", resources: ["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"] },
        { apiGroup: "apps", resources: ["daemonsets", "deployments", "statefulsets"] },
        { apiGroup: "autoscaling", resources: ["horizontalpodautoscalers"] },
        { apiGroup: "batch", resources: ["cronjobs", "jobs"] },
        { apiGroup: "networking.k8s.io", resources: ["ingresses", "networkpolicies"] },
        { apiGroup: "policy", resources: ["poddisruptionbudgets"] },
      ]),
    }),
    runner: section(
      "Pods of their own for previews, which reach nothing, have no login and know no Secret but the token that the server knows them by: docs/preview-security.md.",
      {
        enabled: flag(
          false,
          "Renders previews there, and not in the server's pods. Needs `config.preview.isolation` to be `required` or `auto`.",
        ),
        replicaCount: integer(0, 1, "Pods."),
        auth: section("The token. Without `existingSecret` one is made at the first install, and kept by upgrades.", {
          existingSecret: text(
            "Secret with the token, of 24 characters or more. Needed where charts are rendered without a cluster, as Argo CD does.",
          ),
          tokenKey: text("Key of the token.", "token"),
        }),
        resources: passed(
          "Resources of a pod. Without `limits.memory` it is 3 GiB for each of `config.preview.concurrency`, and 512 MiB.",
          { requests: { cpu: "100m", memory: "256Mi" } },
        ),
        volumeSize: matching(
          quantity,
          "Limit of what a pod writes: working copies and kluctl's cache. Empty: 3 GiB for each of `config.preview.concurrency`, and 512 MiB.",
        ),
        podLabels: labels("More labels of the pods."),
        podAnnotations: labels("More annotations of the pods."),
        runtimeClassName: text("Runtime class, as for gVisor or Kata; empty: the cluster's default."),
        priorityClassName: text("Priority class."),
        nodeSelector: labels("Node selector."),
        tolerations: list("Tolerations."),
        affinity: passed("Affinity."),
      },
    ),
  }),
  admissionPolicy: section("Rules of the API server for what roles cannot say. Kubernetes 1.30 or newer.", {
    enabled: flag(
      true,
      "Makes them: previews may only try, and of KluctlDeployments and Leases the server may change only what is its to change.",
    ),
  }),
  crds: section("The definition of KluctlDeployments.", {
    install: flag(
      true,
      "Installs it, unless the cluster has one that this release did not install. It is kept when the release goes.",
    ),
  }),
  page: section("The page, for people: docs/page.md. Without access to it there is none.", {
    existingSecret: text(
      "Secret with its token, or with the secret of `config.ui.oidc` or of a proxy. Or set `config.ui.proxyHeader`, for a proxy that asks people who they are.",
    ),
    tokenKey: text("Key of the token; empty: there is none.", "token"),
    oidcSecretKey: text("Key of the secret that goes with `config.ui.oidc.clientId`; empty: there is none."),
    proxySecretKey: text("Key of what the proxy of `config.ui.proxyHeader` sends along; empty: there is none."),
  }),
  service: section("A Service for each port, so that only that of webhooks can be opened to the internet.", {
    webhooks: service(80, "Where webhooks arrive."),
    page: service(80, "The page, if there is one."),
    admin: service(9090, "Health and metrics."),
  }),
  ingress: section("An Ingress that lets in what is below `/webhooks/`, and nothing else.", {
    enabled: flag(false, "Whether there is one."),
    className: text("Ingress class; empty: the cluster's default."),
    annotations: labels("Annotations, as for a certificate."),
    hosts: texts("Host names, as `towline.example.com`."),
    tls: list("TLS, as `- secretName: …` with `hosts: […]`."),
  }),
  httpRoute: section("The same for the Gateway API.", {
    enabled: flag(false, "Whether there is one."),
    annotations: labels("Annotations."),
    hostnames: texts("Host names."),
    parentRefs: list("Gateways, as `- name: …` with `namespace: …`."),
  }),
  networkPolicy: section("Who may reach whom, where the cluster's network holds policies.", {
    enabled: flag(true, "Whether there are policies. Redis is then reached by the server only."),
    webhooksFrom: list("From where webhooks may come; empty: anywhere."),
    adminFrom: list("From where health and metrics may be asked for; empty: anywhere.", [{ namespaceSelector: {} }]),
    pageFrom: list("From where the page may be asked for; empty: anywhere.", [{ namespaceSelector: {} }]),
    egress: section("What the server, and what it renders, may reach.", {
      enabled: flag(false, "Limits it: to DNS, Redis, the ports below and what `extra` allows."),
      ports: z
        .array(z.int().min(1).max(65_535))
        .prefault([22, 80, 443, 6443])
        .meta({ description: "TCP ports anywhere: git hosts, registries, API servers." }),
      extra: list("More egress rules, as a git host on another port, or your own Redis."),
    }),
  }),
  podDisruptionBudget: section("How many servers may be taken away at once.", {
    enabled: flag(true, "Whether there is a budget."),
    maxUnavailable: z
      .union([z.int().min(0), z.string()])
      .prefault(1)
      .meta({ description: "Number or percentage." }),
  }),
  metrics: section("For Prometheus and Grafana.", {
    serviceMonitor: section("A ServiceMonitor of the Prometheus operator.", {
      enabled: flag(false, "Whether there is one."),
      labels: labels("Labels by which your Prometheus finds it."),
      interval: text("How often it is scraped; empty: as Prometheus does.", ""),
      relabelings: list("Relabelings of the target."),
      metricRelabelings: list("Relabelings of the metrics."),
    }),
    prometheusRule: section("Alerts and recording rules, as a PrometheusRule.", {
      enabled: flag(false, "Whether there is one."),
      labels: labels("Labels by which your Prometheus finds it."),
      runbookUrl: z
        .string()
        .regex(/^(https?:\/\/[^\s#]+)?$/)
        .prefault("")
        .meta({
          description:
            "Where you have the runbook, for the links of the alerts. None: they have its path in the sources.",
        }),
    }),
    dashboard: section("The Grafana dashboard, in a ConfigMap that Grafana's sidecar finds.", {
      enabled: flag(false, "Whether there is one."),
      labels: z
        .record(z.string(), z.string())
        .prefault({ grafana_dashboard: "1" })
        .meta({ description: "Labels by which the sidecar finds it." }),
      annotations: labels("Annotations, as for a folder."),
    }),
  }),
  resources: passed("Resources of a server: with four deployments at once, and kluctl's 200 MB for each.", {
    requests: { cpu: "100m", memory: "512Mi" },
    limits: { memory: "2Gi" },
  }),
  volumes: section("What a server may write to. Nothing in it is missed when it is lost.", {
    dataSize: matching(quantity, "Limit of its data: mirrors of repositories.", "10Gi"),
    cacheSize: matching(quantity, "Limit of kluctl's cache.", "5Gi"),
    tmpSize: matching(quantity, "Limit of what runs write: working copies.", "5Gi"),
  }),
  updateStrategy: passed("How pods are exchanged.", { type: "RollingUpdate", rollingUpdate: { maxUnavailable: 0 } }),
  podSecurityContext: podSecurity(),
  securityContext: containerSecurity(),
  podLabels: labels("More labels of the server's pods."),
  podAnnotations: labels("More annotations of the server's pods."),
  priorityClassName: text("Priority class."),
  nodeSelector: labels("Node selector."),
  tolerations: list("Tolerations."),
  affinity: passed("Affinity."),
  topologySpreadConstraints: list("How servers are spread; empty: over nodes and zones, as far as that goes."),
  extraArgs: texts("More options of `towline serve`, as `--log-level=debug`."),
  extraEnv: list("More variables: `TOWLINE_…`, which come before `config`, or what kluctl's projects read."),
  extraEnvFrom: list("Secrets and ConfigMaps whose keys are variables."),
  extraVolumes: list("More volumes."),
  extraVolumeMounts: list("Where they are mounted."),
  extraPodSpec: passed(
    "More of the server's pod, as `hostAliases`, `dnsConfig`, `runtimeClassName` or `initContainers`; nothing that the chart writes itself.",
  ),
  extraObjects: z
    .array(z.union([z.string(), z.record(z.string(), z.unknown())]))
    .prefault([])
    .meta({ description: "More objects of the release. Templates in them are rendered." }),
});

/** Values that Helm sets for a chart that is part of another. */
export const helmsOwn = { global: { type: "object" } };
