/**
 * The schema of the chart's values, from which values.yaml, values.schema.json and the chart's README are generated
 * (`npm run docs`). The server's own keys come from the schema of its configuration.
 */
import { z } from "zod";
import { routeSchema, targetSchema } from "../../src/config/notifications-schema.ts";
import { forgeSchema } from "../../src/config/forge-schema.ts";
import { configFields, type Field, forgeFields } from "../../src/config/fields.ts";

/** Configuration keys that the chart sets itself, or whose value is fixed by the image. */
const written = [
  "dataDir",
  "webhooks.host",
  "admin.enabled",
  "admin.host",
  "page.host",
  "kluctl.path",
  "kluctl.cacheDir",
  "kluctl.unpackedDir",
  "flux.renderer",
  "kubernetes.namespaces",
  "kubernetes.readSecretsAs",
  "preview.serviceAccountName",
  "preview.runner.address",
  "preview.runner.tokenFile",
  "preview.runner.bindAddress",
  "recording.keyFiles",
];

/** The keys of `config`. Secrets are excluded, because values are stored in the cluster and often in git. */
export function configurable(): readonly Field[] {
  return configFields().filter(({ path, secret }) => !secret && !path.startsWith("redis.") && !written.includes(path));
}

const text = (description: string, value = "") => z.string().prefault(value).meta({ description });
const matching = (pattern: RegExp, description: string, value = "") =>
  z.string().regex(pattern).prefault(value).meta({ description });
/** A Kubernetes quantity, or empty. */
const quantity = /^(([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[kMGTPE]|[eE][0-9]+)?)?$/;
const flag = (value: boolean, description: string) => z.boolean().prefault(value).meta({ description });
const integer = (least: number, value: number, description: string) =>
  z.int().min(least).prefault(value).meta({ description });

/** Defaults that differ in the chart; the concurrency fits the default memory limit. */
export const defaultsInPods: Readonly<Record<string, unknown>> = {
  concurrency: 4,
  "preview.concurrency": 2,
  "log.format": "json",
};

type Json = { readonly [key: string]: unknown };

/** A part of a Kubernetes object that is passed through unchanged. */
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

/** `reference`: `name:tag` or `name:tag@sha256:…`. A digest is part of the tag, so that a user's tag replaces both. */
const image = (reference: string, tagText: string) => {
  const [repository = "", ...tag] = reference.split(":");
  return section("Container image. Without a registry in `repository`, the cluster's default registry is used.", {
    repository: text("Repository, with the registry unless it is the cluster's default.", repository),
    tag: text(tagText, tag.join(":")),
    digest: text("Digest (`sha256:…`) that pins the image."),
    pullPolicy: z
      .enum(["Always", "IfNotPresent", "Never"])
      .prefault("IfNotPresent")
      .meta({ description: "Pull policy." }),
  });
};

/** Required by the restricted Pod Security Standard. */
const podSecurity = () =>
  passed(
    "Security context of the pod. Set a key to `null` to remove it, for example on OpenShift, which assigns user and group.",
    {
      runAsNonRoot: true,
      runAsUser: 65_532,
      runAsGroup: 65_532,
      fsGroup: 65_532,
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
  );
const containerSecurity = () =>
  passed("Security context of the container.", {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });

const service = (port: number, whose: string) =>
  section(whose, {
    type: z
      .enum(["ClusterIP", "NodePort", "LoadBalancer"])
      .prefault("ClusterIP")
      .meta({ description: "Service type." }),
    port: integer(1, port, "Port."),
    annotations: labels("Annotations."),
    extraSpec: passed(
      "Additional fields of the Service's spec, such as `loadBalancerSourceRanges` or `externalTrafficPolicy`.",
    ),
  });

/** One git host: the keys of the configuration except for secrets, which are in a Secret of the release's namespace. */
const forge = z.strictObject({
  ...forgeSchema.pick({
    id: true,
    kind: true,
    apiUrl: true,
    webUrl: true,
    hosts: true,
    webhooks: true,
    deployments: true,
    appId: true,
    reportAs: true,
    insecureAllowUnsigned: true,
  }).shape,
  existingSecret: z.string().min(1).optional().meta({ description: "Secret with the entries listed in `keys`." }),
  keys: z
    .strictObject(
      Object.fromEntries(
        forgeFields("<KIND>")
          .filter(({ secret }) => secret)
          .map(({ path, description = "" }) => [path, z.string().min(1).optional().meta({ description })]),
      ),
    )
    .optional()
    .meta({ description: "Keys in the Secret; only the keys set here are read." }),
});

const inSecret = z.string().min(1).optional();

function withoutSecrets({
  url: _url,
  urlFile: _urlFile,
  token: _token,
  tokenFile: _tokenFile,
  signingKeys: _signingKeys,
  signingKeyFiles: _signingKeyFiles,
  ...shape
}: typeof targetSchema.shape) {
  return shape;
}

/** One target of notifications, like a git host. */
const target = z.strictObject({
  ...withoutSecrets(targetSchema.shape),
  existingSecret: inSecret.meta({ description: "Secret with the entries listed in `keys`." }),
  keys: z
    .strictObject(
      Object.fromEntries(
        (["url", "token", "signingKeys"] as const).map((key) => [
          key,
          inSecret.meta({ description: targetSchema.shape[key].meta()?.description ?? "" }),
        ]),
      ),
    )
    .optional()
    .meta({ description: "Keys in the Secret; only the keys set here are read." }),
});

export const valuesSchema = z.strictObject({
  nameOverride: text("Replaces the chart's name in names and labels."),
  fullnameOverride: text("Replaces the full name, which is made of the release's and the chart's name."),
  commonLabels: labels("Labels of every object."),
  image: image("towline/towline", "Tag; empty: the chart's appVersion."),
  imagePullSecrets: list("Pull secrets for images, as `- name: …`."),
  replicaCount: integer(
    0,
    2,
    "Number of servers. They share the work. One is enough; two keep running if a node fails.",
  ),
  forges: z
    .array(forge)
    .prefault([])
    .meta({ description: "Git hosts that send webhooks. Without any, git is only polled." }),
  notifications: section("Who is notified of what: see docs/notifications.md.", {
    targets: z.array(target).prefault([]).meta({ description: "Where notifications are sent." }),
    routes: z
      .array(routeSchema)
      .prefault([])
      .meta({ description: "Which target receives what. A target that no route names receives everything." }),
  }),
  config: z
    .record(z.string(), z.unknown())
    .prefault({})
    .meta({ description: "The server's configuration, as in docs/configuration.md." }),
  redis: section("A small Valkey for this release: one pod with a persistent queue.", {
    enabled: flag(true, "Installs Valkey. If false, set `externalRedis`."),
    image: image(
      "valkey/valkey:8.1.10@sha256:640c5e62cea04b6d6f2084232651d0cc70362d31f4f805e7be94dbed6855e8f2",
      "Tag, with the digest of the image.",
    ),
    auth: section("Password. Without `existingSecret` it is generated at the first install and kept by upgrades.", {
      existingSecret: text(
        "Secret with the password (letters and digits). Required if charts are rendered without access to the cluster, as by Argo CD.",
      ),
      passwordKey: text("Key of the password.", "password"),
    }),
    persistence: section("Persistent volume.", {
      enabled: flag(true, "If false, the queue is lost with the pod; the next sweep finds pending work again."),
      size: matching(quantity, "Size.", "1Gi"),
      storageClass: text("Storage class; empty: the cluster's default."),
      retain: flag(false, "Keeps the volume when the release is uninstalled. It contains no data worth keeping."),
    }),
    podSecurityContext: podSecurity(),
    securityContext: containerSecurity(),
    resources: passed("Resources.", { requests: { cpu: "20m", memory: "32Mi" }, limits: { memory: "256Mi" } }),
    nodeSelector: labels("Node selector."),
    tolerations: list("Tolerations."),
    affinity: passed("Affinity."),
    priorityClassName: text("Priority class."),
  }),
  externalRedis: section("Your own Redis, 6.2 or newer, or Valkey, with `noeviction` and preferably AOF.", {
    url: matching(/^(rediss?:\/\/([^:@/\s]*@)?[^@\s]+)?$/, "`redis://` or `rediss://` (TLS), without the password."),
    existingSecret: text("Secret with the keys below."),
    passwordKey: text("Key of the password; empty: no password."),
    urlKey: text("Key of the URL, instead of `url`."),
    caKey: text("Key of the certificate authorities (PEM), if Redis's certificate is not signed by a public one."),
    sentinels: z
      .array(z.string().regex(/^\S+:[0-9]+$/))
      .prefault([])
      .meta({
        description:
          "Redis Sentinels, as `host:port`. The host of `url` is then the name of the master: `redis://mymaster`.",
      }),
    sentinelPasswordKey: text("Key of the sentinels' password; empty: no password."),
  }),
  serviceAccount: section("The server's service account.", {
    create: flag(true, "Creates the service account."),
    name: text("Name; empty: the full name of the release, or `default` if `create` is false."),
    annotations: labels("Annotations, for example for a cloud's workload identity."),
  }),
  rbac: section("Permissions of the server's service account: docs/rights.md.", {
    create: flag(true, "Creates roles and bindings."),
    tier: z.enum(["impersonation", "namespaced", "cluster-admin"]).prefault("impersonation").meta({
      description:
        "`impersonation`: what the server needs for itself, and impersonation of `rbac.serviceAccounts`. `namespaced`: the same, in `rbac.namespaces` only. `cluster-admin`: everything, like kluctl's controller.",
    }),
    namespaces: texts(
      "Namespaces with KluctlDeployments; empty: all. The server watches only these, and its roles are limited to them.",
    ),
    serviceAccounts: z
      .array(z.string().regex(/^(\*|([a-z0-9]([-a-z0-9]*[a-z0-9])?\/)?[a-z0-9]([-.a-z0-9]*[a-z0-9])?)$/))
      .prefault(["towline-deployer"])
      .meta({
        description:
          "Service accounts that the server may impersonate: `name`, in each namespace with deployments, or `namespace/name`. Deployments without `serviceAccountName` use the first name. `*`: all, which gives the server the permissions of every service account.",
      }),
    readSecrets: flag(
      false,
      "Allows the server to read all Secrets of these namespaces. If false, the Secrets of a deployment are read with its service account, which needs `get` on them.",
    ),
    pageUsers: texts(
      "Users, by their names in the cluster, that the server may impersonate for requests on the page, with their groups in `config.page.operatorGroups` and `config.page.viewerGroups`. `*`: all, which gives the server the permissions of every user.",
    ),
    awsRoles: flag(
      false,
      "Allows the server to create tokens of `rbac.serviceAccounts`, to decrypt with the AWS roles in their annotations.",
    ),
    aggregate: section("Aggregation to Kubernetes's default roles for users.", {
      view: flag(false, "Role `view` may read KluctlDeployments."),
      edit: flag(
        false,
        "Roles `edit` and `admin` may change KluctlDeployments, and so deploy with the service accounts that the server may impersonate.",
      ),
    }),
  }),
  preview: section("Previews of pull requests.", {
    serviceAccount: section("Service account of previews, which cannot change anything.", {
      create: flag(false, "Creates the service account, with a role for comparing. Needs `admissionPolicy.enabled`."),
      name: text("Name, the same in each deployment's namespace; empty: the deployment's own service account."),
      annotations: labels("Annotations."),
      namespaces: texts("Namespaces to create it in: those with KluctlDeployments. Empty: `rbac.namespaces`."),
      comparesIn: texts(
        "Namespaces of deployed objects, in which it may read objects, Secrets included, and dry-run changes. Empty: the namespaces that it is created in. `*`: all.",
      ),
      resources: list("Resources that it may read and dry-run changes of: list the kinds that your projects deploy.", [
        { apiGroup: "", resources: ["configmaps", "persistentvolumeclaims", "secrets", "serviceaccounts", "services"] },
        { apiGroup: "apps", resources: ["daemonsets", "deployments", "statefulsets"] },
        { apiGroup: "autoscaling", resources: ["horizontalpodautoscalers"] },
        { apiGroup: "batch", resources: ["cronjobs", "jobs"] },
        { apiGroup: "networking.k8s.io", resources: ["ingresses", "networkpolicies"] },
        { apiGroup: "policy", resources: ["poddisruptionbudgets"] },
      ]),
    }),
    runner: section(
      "Separate pods for previews, without network access or credentials and with no Secret but the token that they share with the server: docs/preview-security.md.",
      {
        enabled: flag(
          false,
          "Renders previews in these pods instead of the server's pods. Needs `config.preview.isolation` `required` or `auto`.",
        ),
        replicaCount: integer(0, 1, "Number of pods."),
        auth: section("Token. Without `existingSecret` it is generated at the first install and kept by upgrades.", {
          existingSecret: text(
            "Secret with the token, 24 characters or more. Required if charts are rendered without access to the cluster, as by Argo CD.",
          ),
          tokenKey: text("Key of the token.", "token"),
        }),
        resources: passed(
          "Resources of a pod. `limits.memory` defaults to 512 MiB plus 3 GiB for each of `config.preview.concurrency`.",
          { requests: { cpu: "100m", memory: "256Mi" } },
        ),
        volumeSize: matching(
          quantity,
          "Size limit of a pod's volume for working copies and kluctl's cache. Empty: 512 MiB plus 3 GiB for each of `config.preview.concurrency`.",
        ),
        podLabels: labels("Additional labels of the pods."),
        podAnnotations: labels("Additional annotations of the pods."),
        runtimeClassName: text("Runtime class, for example for gVisor or Kata; empty: the cluster's default."),
        priorityClassName: text("Priority class."),
        nodeSelector: labels("Node selector."),
        tolerations: list("Tolerations."),
        affinity: passed("Affinity."),
      },
    ),
  }),
  admissionPolicy: section("Admission policies for limits that roles cannot express. Kubernetes 1.30 or newer.", {
    enabled: flag(
      true,
      "Creates them: previews may only dry-run, and the server may change only its own fields of KluctlDeployments and its own Leases.",
    ),
  }),
  crds: section("The CRD of KluctlDeployments.", {
    install: flag(
      true,
      "Installs the CRD, unless the cluster has one that this release did not install. It is kept when the release is uninstalled.",
    ),
  }),
  page: section("The page: docs/page.md. Enabled by one of these secrets or `config.page.proxyHeader`.", {
    existingSecret: text(
      "Secret with the page's token, the client secret of `config.page.oidc` or the secret of a proxy. Not needed for an authenticating proxy with `config.page.proxyHeader` only.",
    ),
    tokenKey: text("Key of the token; empty: no token.", "token"),
    oidcSecretKey: text("Key of the client secret of `config.page.oidc.clientId`; empty: no client secret."),
    proxySecretKey: text("Key of the secret that the proxy of `config.page.proxyHeader` sends; empty: no secret."),
  }),
  recording: section("Keys that encrypt recorded deliveries, if `config.recording.enabled` is set: docs/webhooks.md.", {
    existingSecret: text("Secret with the keys, one per line, 32 random characters or more each."),
    keysKey: text("Key of the entry in the Secret.", "keys"),
  }),
  service: section("One Service per port, so that only the webhooks' Service can be exposed to the internet.", {
    webhooks: service(80, "Service for webhooks."),
    page: service(80, "Service for the page, if enabled."),
    admin: service(9090, "Service for health and metrics."),
  }),
  ingress: section("Ingress for paths below `/webhooks/` only.", {
    enabled: flag(false, "Creates the Ingress."),
    className: text("Ingress class; empty: the cluster's default."),
    annotations: labels("Annotations, for example for a certificate."),
    hosts: texts("Host names, such as `towline.example.com`."),
    tls: list("TLS, as `- secretName: …` with `hosts: […]`."),
  }),
  httpRoute: section("HTTPRoute of the Gateway API for paths below `/webhooks/` only.", {
    enabled: flag(false, "Creates the HTTPRoute."),
    annotations: labels("Annotations."),
    hostnames: texts("Host names."),
    parentRefs: list("Gateways, as `- name: …` with `namespace: …`."),
  }),
  networkPolicy: section("Network policies, if the cluster's network supports them.", {
    enabled: flag(true, "Creates network policies. Only the server can then reach Redis."),
    webhooksFrom: list("Allowed sources of webhooks; empty: any."),
    adminFrom: list("Allowed clients of health and metrics; empty: any.", [{ namespaceSelector: {} }]),
    pageFrom: list("Allowed clients of the page; empty: any.", [{ namespaceSelector: {} }]),
    egress: section("Egress of the server and of kluctl in its pods.", {
      enabled: flag(false, "Limits egress to DNS, Redis, the ports below and `extra`."),
      ports: z
        .array(z.int().min(1).max(65_535))
        .prefault([22, 80, 443, 6443])
        .meta({ description: "Allowed TCP ports at any address: git hosts, registries, API servers." }),
      extra: list("Additional egress rules, for example for a git host on another port or your own Redis."),
    }),
  }),
  podDisruptionBudget: section("PodDisruptionBudget of the servers.", {
    enabled: flag(true, "Creates the PodDisruptionBudget."),
    maxUnavailable: z
      .union([z.int().min(0), z.string()])
      .prefault(1)
      .meta({ description: "Maximum number or percentage of unavailable servers." }),
  }),
  metrics: section("Objects for Prometheus and Grafana.", {
    serviceMonitor: section("ServiceMonitor for the Prometheus operator.", {
      enabled: flag(false, "Creates the ServiceMonitor."),
      labels: labels("Labels that your Prometheus selects."),
      interval: text("Scrape interval; empty: the default of Prometheus.", ""),
      relabelings: list("Relabelings of the target."),
      metricRelabelings: list("Relabelings of the metrics."),
    }),
    prometheusRule: section("PrometheusRule with alerts and recording rules.", {
      enabled: flag(false, "Creates the PrometheusRule."),
      labels: labels("Labels that your Prometheus selects."),
      runbookUrl: z
        .string()
        .regex(/^(https?:\/\/[^\s#]+)?$/)
        .prefault("")
        .meta({
          description: "URL of the runbook for links in alerts; empty: alerts have its path in the sources.",
        }),
    }),
    dashboard: section("ConfigMap with the Grafana dashboard, for Grafana's sidecar.", {
      enabled: flag(false, "Creates the ConfigMap."),
      labels: z
        .record(z.string(), z.string())
        .prefault({ grafana_dashboard: "1" })
        .meta({ description: "Labels that the sidecar selects." }),
      annotations: labels("Annotations, for example for a folder."),
    }),
  }),
  resources: passed("Resources of a server, for four concurrent reconciliations with 200 MB each.", {
    requests: { cpu: "100m", memory: "512Mi" },
    limits: { memory: "2Gi" },
  }),
  volumes: section("Writable volumes of a server, which can be lost without data loss.", {
    dataSize: matching(quantity, "Size limit for mirrors of repositories.", "10Gi"),
    cacheSize: matching(quantity, "Size limit for kluctl's cache.", "5Gi"),
    tmpSize: matching(quantity, "Size limit for working copies.", "5Gi"),
  }),
  updateStrategy: passed("Update strategy of the Deployment.", {
    type: "RollingUpdate",
    rollingUpdate: { maxUnavailable: 0 },
  }),
  podSecurityContext: podSecurity(),
  securityContext: containerSecurity(),
  podLabels: labels("Additional labels of the server's pods."),
  podAnnotations: labels("Additional annotations of the server's pods."),
  priorityClassName: text("Priority class."),
  nodeSelector: labels("Node selector."),
  tolerations: list("Tolerations."),
  affinity: passed("Affinity."),
  topologySpreadConstraints: list("Topology spread constraints; empty: spread over nodes and zones if possible."),
  extraArgs: texts("Additional options of `towline serve`, such as `--log-level=debug`."),
  extraEnv: list(
    "Additional environment variables: `TOWLINE_…`, which take precedence over `config`, or variables of kluctl projects.",
  ),
  extraEnvFrom: list("Secrets and ConfigMaps whose keys become environment variables."),
  extraVolumes: list("Additional volumes."),
  extraVolumeMounts: list("Additional volume mounts."),
  extraPodSpec: passed(
    "Additional fields of the server's pod spec, such as `hostAliases`, `dnsConfig`, `runtimeClassName` or `initContainers`; fields that the chart sets are not allowed.",
  ),
  extraObjects: z
    .array(z.union([z.string(), z.record(z.string(), z.unknown())]))
    .prefault([])
    .meta({ description: "Additional objects of the release. Templates in them are rendered." }),
});

/** Values that Helm sets for subcharts. */
export const helmsOwn = { global: { type: "object" } };
