/**
 * Kustomizations with every field that influences what Flux builds. Each has a directory of its own in one repository, and a
 * namespace of its own in the cluster.
 */
import { stringify } from "yaml";

export interface RenderCase {
  /** Relative to the directory of the case. */
  readonly files: Readonly<Record<string, string>>;
  /** `path` is relative to the directory of the case. */
  readonly spec?: Readonly<Record<string, unknown>>;
  /** The data of ConfigMaps and Secrets that `postBuild.substituteFrom` names, in its order. */
  readonly from?: readonly { readonly kind: "ConfigMap" | "Secret"; readonly data: Readonly<Record<string, string>> }[];
}

export const configMap = (name: string, data: Readonly<Record<string, unknown>> = { color: "red" }, more = {}) =>
  stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, ...more }, data });

const container = (image: string) => ({ name: "main", image, ports: [{ containerPort: 80 }] });

const deployment = (name: string, image = "registry.example/shop:1") =>
  stringify({
    ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name } },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: name } },
      template: { metadata: { labels: { app: name } }, spec: { containers: [container(image)] } },
    },
  });

const service = stringify({
  ...{ apiVersion: "v1", kind: "Service", metadata: { name: "shop" } },
  spec: { selector: { app: "shop" }, ports: [{ port: 80 }, { port: 81, name: "b" }].map((port, i) => ({ name: `p${i}`, ...port })) }, // prettier-ignore
});

const kustomization = (fields: Readonly<Record<string, unknown>>) =>
  stringify({ apiVersion: "kustomize.config.k8s.io/v1beta1", kind: "Kustomization", ...fields });

const thing = {
  definition: stringify({
    ...{ apiVersion: "apiextensions.k8s.io/v1", kind: "CustomResourceDefinition" },
    metadata: { name: "things.example.com" },
    spec: {
      ...{ group: "example.com", scope: "Namespaced" },
      names: { kind: "Thing", plural: "things", singular: "thing", listKind: "ThingList" },
      versions: [
        {
          ...{ name: "v1", served: true, storage: true },
          schema: { openAPIV3Schema: { type: "object", properties: { spec: { type: "object", "x-kubernetes-preserve-unknown-fields": true } } } }, // prettier-ignore
        },
      ],
    },
  }),
  object: (name: string) =>
    stringify({
      apiVersion: "example.com/v1",
      kind: "Thing",
      metadata: { name },
      spec: { size: 3, parts: [{ a: 1 }] },
    }),
};

/** Within a text, because a number alone would no longer be a string. */
const expressions = [
  "${word}",
  "${#word}",
  "${word^}",
  "${word^^}",
  "${upper,}",
  "${upper,,}",
  "${word:2}",
  "${word:1:3}",
  "${path#*/}",
  "${path##*/}",
  "${path%/*}",
  "${path%%/*}",
  "${word/l/L}",
  "${word//l/L}",
  "${word/#he/HE}",
  "${word/%lo/LO}",
  "${none=default}",
  "${none:=default}",
  "${none:-default}",
  "${empty:-default}",
  "${none:-${word}}",
  "$word",
  "$(word)",
  "$$",
  "$${word}",
  "a $$b c",
  "${word}-${upper}",
  "${several_lines}",
];

const variables = {
  ...{ word: "hello", upper: "WORLD", path: "a/b/c.txt", empty: "", several_lines: "one\ntwo\n" },
  ...{ number: "3", truth: "yes", octal: "012", real: "1e3", blank: "" },
};

const substituted = Object.fromEntries(expressions.map((text, i) => [`e${String(i).padStart(2, "0")}`, `is ${text}.`]));

export const renderCases: Readonly<Record<string, RenderCase>> = {
  generated: {
    files: {
      "a.yaml": configMap("a"),
      "b.yml": `${configMap("b1")}---\n${configMap("b2")}`,
      "nested/deep/c.yaml": configMap("c"),
      "nested/own/kustomization.yml": kustomization({ resources: ["d.yaml"], nameSuffix: "-own" }),
      "nested/own/d.yaml": configMap("d"),
      "nested/own/unused.yaml": configMap("unused"),
      "nested/other/Kustomization": kustomization({ resources: ["../../../shared/base"] }),
      "README.md": "no manifest",
      "ignored/values.yaml": "replicas: 3",
      "hidden.yaml": configMap("hidden"),
      ".sourceignore": "/hidden.yaml\n",
    },
  },
  existing: {
    files: {
      "kustomization.yaml": kustomization({
        resources: ["used.yaml", "../shared/base"],
        commonAnnotations: { a: "b" },
      }),
      "used.yaml": configMap("used"),
      "unused.yaml": configMap("unused"),
    },
  },
  empty: { files: { "README.md": "nothing" } },
  overlay: {
    files: { "all.yaml": [configMap("settings"), deployment("shop"), service].join("---\n") },
    spec: {
      ...{ targetNamespace: "overlay-target", namePrefix: "pre-", nameSuffix: "-post" },
      commonMetadata: { labels: { team: "a", app: "b" }, annotations: { owner: "ada" } },
    },
  },
  patched: {
    files: {
      "kustomization.yaml": kustomization({
        resources: ["all.yaml"],
        patches: [{ patch: configMap("settings", { color: "green", size: "1" }) }],
      }),
      "all.yaml": [configMap("settings"), configMap("other"), deployment("shop")].join("---\n"),
    },
    spec: {
      patches: [
        { patch: configMap("settings", { size: "2" }) },
        { patch: '- op: add\n  path: /data/added\n  value: "1"\n', target: { kind: "ConfigMap", name: "o.*" } },
        {
          target: { kind: "Deployment", labelSelector: "!none" },
          patch: stringify({
            apiVersion: "apps/v1",
            kind: "Deployment",
            metadata: { name: "any" },
            spec: { replicas: 4 },
          }),
        },
        { target: { kind: "ConfigMap", name: "other" }, patch: "- op: remove\n  path: /data/color\n" },
      ],
    },
  },
  images: {
    files: {
      "kustomization.yaml": kustomization({
        resources: ["all.yaml"],
        images: [
          { name: "registry.example/a", newTag: "2" },
          { name: "registry.example/b", newName: "registry.example/b2", newTag: "2" },
          { name: "registry.example/c", digest: `sha256:${"a".repeat(64)}` },
        ],
      }),
      "all.yaml": ["a", "b", "c", "d"].map((name) => deployment(name, `registry.example/${name}:1`)).join("---\n"),
    },
    spec: {
      images: [
        { name: "registry.example/a", newName: "mirror.example/a" },
        { name: "registry.example/b", digest: `sha256:${"b".repeat(64)}` },
        { name: "registry.example/c", newTag: "3" },
        { name: "registry.example/d", newName: "mirror.example/d", newTag: "4" },
      ],
    },
  },
  components: {
    files: {
      "app/kustomization.yaml": kustomization({ resources: ["a.yaml"], components: ["../first"] }),
      "app/a.yaml": configMap("a"),
      "first/kustomization.yaml": stringify({
        ...{ apiVersion: "kustomize.config.k8s.io/v1alpha1", kind: "Component" },
        patches: [{ patch: configMap("a", { first: "1" }) }],
      }),
      "second/kustomization.yaml": stringify({
        ...{ apiVersion: "kustomize.config.k8s.io/v1alpha1", kind: "Component" },
        ...{ resources: ["b.yaml"], nameSuffix: "-second" },
      }),
      "second/b.yaml": configMap("b"),
    },
    spec: { path: "app", components: ["../second", "../missing"], ignoreMissingComponents: true },
  },
  metadata: {
    files: {
      "kustomization.yaml": kustomization({
        ...{ resources: ["a.yaml"], namePrefix: "x-" },
        configMapGenerator: [{ name: "generated", literals: ["a=b"] }],
      }),
      "a.yaml": configMap("a"),
    },
    spec: { buildMetadata: ["originAnnotations", "transformerAnnotations"] },
  },
  substituted: {
    files: {
      "texts.yaml": configMap("texts", substituted),
      "types.yaml": [
        ...["apiVersion: apps/v1", "kind: Deployment", 'metadata: {name: types, labels: {n: "v${number}"}}', "spec:"],
        ...["  replicas: ${number}", "  selector: {matchLabels: {app: types}}", "  template:"],
        ...["    metadata: {labels: {app: types}}", "    spec:", "      hostNetwork: ${truth}"],
        ...[
          "      terminationGracePeriodSeconds: ${octal}",
          "      containers:",
          "      - name: main",
          "        image: a",
          "        tty: ${blank:=on}",
        ],
      ].join("\n"),
      "key.yaml": configMap("keys", { "${word}-key": "is ${real}" }),
      "named.yaml": configMap("named-${word}"),
      "raw.yaml": configMap("raw", { text: "${not_set} $$ ${a-b}" }, { annotations: { "kustomize.toolkit.fluxcd.io/substitute": "disabled" } }), // prettier-ignore
      "labelled.yaml": configMap("labelled", { text: "${not_set}" }, { labels: { "kustomize.toolkit.fluxcd.io/substitute": "disabled" } }), // prettier-ignore
      "secret.yaml": stringify({
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name: "text" },
        stringData: { word: "${word}" },
      }),
    },
    spec: { postBuild: { substitute: { upper: variables.upper, number: "3" } } },
    from: [
      { kind: "ConfigMap", data: { ...variables, word: "overridden", number: "9" } },
      { kind: "Secret", data: { word: "hello" } },
    ],
  },
  always: {
    files: { "a.yaml": configMap("a", { text: "${none:=default} $$" }) },
    spec: { postBuild: { substituteStrategy: "Always" } },
  },
  untouched: {
    files: { "a.yaml": configMap("a", { text: "${none} $$ ${b:=c}" }) },
    spec: { postBuild: { substitute: {} } },
  },
  generators: {
    files: {
      "kustomization.yaml": kustomization({
        resources: ["deployment.yaml"],
        configMapGenerator: [
          { name: "files", files: ["a.txt", "renamed=b.bin"] },
          { name: "env", envs: ["some.env"], options: { disableNameSuffixHash: true, labels: { a: "b" } } },
        ],
        secretGenerator: [{ name: "secret", literals: ["password=x"], type: "Opaque" }],
        generatorOptions: { annotations: { generated: "yes" } },
      }),
      "a.txt": "first\nsecond\n",
      "b.bin": "\u0000\u0001binary",
      "some.env": "A=1\n# comment\nB=two words\n",
      "deployment.yaml": stringify({
        ...{ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "uses" } },
        spec: {
          selector: { matchLabels: { app: "uses" } },
          template: {
            metadata: { labels: { app: "uses" } },
            spec: {
              containers: [
                { ...container("a"), envFrom: [{ configMapRef: { name: "env" } }, { secretRef: { name: "secret" } }] },
              ],
              volumes: [{ name: "files", configMap: { name: "files" } }],
            },
          },
        },
      }),
    },
  },
  staged: {
    files: {
      "z-definition.yaml": thing.definition,
      "namespace.yaml": stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: "staged-own" } }),
      "in/kustomization.yaml": kustomization({
        ...{ namespace: "staged-own", resources: ["thing.yaml", "inside.yaml", "service.yaml", "account.yaml"] },
      }),
      "in/thing.yaml": thing.object("one"),
      "in/inside.yaml": configMap("inside"),
      "in/service.yaml": service,
      "in/account.yaml": stringify({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "robot" } }),
      "role.yaml": stringify({
        ...{ apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata: { name: "example:staged" } },
        rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get"] }],
      }),
      "binding.yaml": stringify({
        ...{ apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRoleBinding", metadata: { name: "staged" } },
        roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "example:staged" },
        subjects: [{ kind: "ServiceAccount", name: "robot", namespace: "staged-own" }],
      }),
      "class.yaml": stringify({
        ...{ apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name: "staged" } },
        value: 5,
      }),
    },
    spec: { targetNamespace: undefined },
  },
  normalized: {
    files: {
      "secret.yaml": stringify({
        ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "mixed" } },
        ...{ data: { a: "YQ==", b: "YQ==" }, stringData: { b: "overrides", c: "plain" } },
      }),
      "service.yaml": service,
      "list.yaml": stringify({
        ...{ apiVersion: "v1", kind: "List" },
        items: ["l1", "l2"].map((name) => ({
          apiVersion: "v1",
          kind: "ConfigMap",
          metadata: { name },
          data: { n: name },
        })),
      }),
      "status.yaml": stringify({
        ...{
          apiVersion: "v1",
          kind: "ConfigMap",
          metadata: { name: "dated", creationTimestamp: null, labels: { n: "1" } },
        },
        data: { n: "1" },
      }),
      "job.yaml": stringify({
        ...{ apiVersion: "batch/v1", kind: "CronJob", metadata: { name: "nightly" } },
        spec: {
          schedule: "0 1 * * *",
          jobTemplate: { spec: { template: { spec: { restartPolicy: "Never", containers: [container("a")] } } } },
        },
        status: { active: [] },
      }),
      "empty.yaml": "# nothing but a comment\n---\n",
      "unknown.yaml": stringify({
        ...{ apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name: "deny" } },
        spec: { podSelector: {}, policyTypes: ["Ingress"] },
      }),
    },
  },
  transformed: {
    files: {
      "kustomization.yaml": kustomization({
        ...{
          resources: ["all.yaml"],
          namespace: "transformed",
          labels: [{ pairs: { a: "b" }, includeSelectors: true }],
        },
        replicas: [{ name: "shop", count: 5 }],
        replacements: [
          {
            source: { kind: "ConfigMap", name: "settings", fieldPath: "data.color" },
            targets: [
              { select: { kind: "Deployment" }, fieldPaths: ["metadata.annotations.color"], options: { create: true } },
            ],
          },
        ],
        openapi: { path: "schema.json" },
        sortOptions: { order: "fifo" },
      }),
      "all.yaml": [configMap("settings"), deployment("shop")].join("---\n"),
      "schema.json": JSON.stringify({ definitions: {} }),
    },
  },
};

/** Outside of the directories of the cases. */
export const sharedFiles = { "shared/base/kustomization.yaml": kustomization({ resources: ["base.yaml"] }), "shared/base/base.yaml": configMap("base") }; // prettier-ignore

/** `spec.ignore` of the GitRepository. */
export const ignoreOfSource = "values.yaml\n";

/** Kustomizations that neither builds, and which say why in the same words. */
export const brokenCases: Readonly<Record<string, RenderCase>> = {
  "no-variable": {
    files: { "a.yaml": configMap("a", { a: "${none}" }) },
    spec: { postBuild: { substitute: { b: "c" } } },
  },
  "no-grammar": {
    files: { "a.yaml": configMap("a", { a: "${a-b}" }) },
    spec: { postBuild: { substitute: { b: "c" } } },
  },
  "no-name": { files: { "a.yaml": configMap("a") }, spec: { postBuild: { substitute: { "b.c": "d" } } } },
  "no-manifest": { files: { "a.yaml": configMap("a"), "b.yaml": "replicas: 3" } },
  "no-file": { files: { "kustomization.yaml": kustomization({ resources: ["none.yaml"] }) } },
  "no-component": { files: { "a.yaml": configMap("a") }, spec: { components: ["none"] } },
  "no-chart": {
    files: {
      "kustomization.yaml": kustomization({ generators: ["chart.yaml"] }),
      "chart.yaml": stringify({ apiVersion: "builtin", kind: "HelmChartInflationGenerator", metadata: { name: "a" }, name: "a", repo: "a" }), // prettier-ignore
    },
  },
  "no-plugin": {
    files: {
      "kustomization.yaml": kustomization({ generators: ["plugin.yaml"] }),
      "plugin.yaml": stringify({ apiVersion: "example.com/v1", kind: "Anything", metadata: { name: "a" } }),
    },
  },
  "no-target": { files: { "a.yaml": configMap("a") }, spec: { patches: [{ patch: configMap("b") }] } },
};
