import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { createKubeClient } from "../../../src/kube/client.ts";
import type { CommandResult, ResultObject, ValidateResult } from "../../../src/model.ts";
import { isKnownReady } from "../../../src/skipping/known-ready.ts";
import {
  collectLogs,
  createProject,
  fakeHeld,
  newKluctl,
  newRun,
  noDeployOptions,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { patience } from "../../support/patience.ts";
import { uniqueName, useCluster, useKluctl, useTempDir } from "../../support/world.ts";

interface Generated {
  readonly apiVersion: string;
  readonly kind: string;
  readonly cluster?: true;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: Readonly<Record<string, unknown>>;
  /** Written into the status of a created object that no controller looks after. */
  readonly status?: Readonly<Record<string, unknown>> | undefined;
}

const labels = { app: "generated" };
const template = { metadata: { labels }, spec: { containers: [{ name: "app", image: "registry.example/app" }] } };
const count = fc.integer({ min: 0, max: 3 });
const maybe = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined });
const condition = (...types: readonly string[]) =>
  fc.record({
    type: fc.constantFrom(...types),
    status: fc.constantFrom("True", "False", "Unknown"),
    reason: fc.constant("Generated"),
    message: fc.constant("generated"),
    lastTransitionTime: fc.constant("2026-01-01T00:00:00Z"),
  });
const conditions = (...types: readonly string[]) =>
  fc.uniqueArray(condition(...types), { maxLength: 2, selector: ({ type }) => type });
/** Mostly the generation that a new object has. */
const observedGeneration = maybe(fc.constantFrom(1, 1, 1, 2));
const annotations = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  fc.constant({ "example.com/other": "x" }),
  fc.constantFrom("true", "false").map((value) => ({ "kluctl.io/is-ready": value })),
  fc.constantFrom("true", "false").map((value) => ({ "kluctl.io/validate-ignore": value })),
  fc.constant({ "validate-result.kluctl.io/note": "look here" }),
);

const kind = (
  apiVersion: string,
  name: string,
  spec: fc.Arbitrary<Record<string, unknown>> = fc.constant({}),
  status: fc.Arbitrary<Record<string, unknown> | undefined> = fc.constant(undefined),
  more: { readonly cluster?: true } = {},
): fc.Arbitrary<Generated> =>
  fc.record({ annotations, spec, status }).map((parts) => ({ apiVersion, kind: name, ...more, ...parts }));

const subjects = [{ kind: "ServiceAccount", name: "default", namespace: "default" }];

const objects = fc.oneof(
  kind("v1", "ConfigMap", fc.constant({ data: { color: "red" } })),
  kind("v1", "Secret", fc.constant({ stringData: { password: "generated" } })),
  kind("v1", "ServiceAccount"),
  kind("v1", "LimitRange", fc.constant({ spec: { limits: [{ type: "Container", max: { cpu: "1" } }] } })),
  kind("rbac.authorization.k8s.io/v1", "Role", fc.constant({ rules: [] })),
  kind(
    "rbac.authorization.k8s.io/v1",
    "RoleBinding",
    fc.constant({ subjects, roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "nobody" } }),
  ),
  kind("rbac.authorization.k8s.io/v1", "ClusterRole", fc.constant({ rules: [] }), undefined, { cluster: true }),
  kind("networking.k8s.io/v1", "NetworkPolicy", fc.constant({ spec: { podSelector: { matchLabels: labels } } })),
  kind("networking.k8s.io/v1", "IngressClass", fc.constant({ spec: { controller: "example.com/c" } }), undefined, {
    cluster: true,
  }),
  kind("scheduling.k8s.io/v1", "PriorityClass", fc.constant({ value: 1 }), undefined, { cluster: true }),
  kind(
    "networking.k8s.io/v1",
    "Ingress",
    fc.constant({ spec: { defaultBackend: { service: { name: "app", port: { number: 80 } } } } }),
  ),
  kind(
    "policy/v1",
    "PodDisruptionBudget",
    fc.constant({ spec: { maxUnavailable: 1, selector: { matchLabels: labels } } }),
  ),
  kind(
    "v1",
    "Service",
    fc.constantFrom("ClusterIP", "NodePort").map((type) => ({ spec: { type, ports: [{ port: 80 }] } })),
  ),
  kind("v1", "Service", fc.constant({ spec: { type: "ExternalName", externalName: "example.com" } })),
  kind(
    "v1",
    "Service",
    fc.constant({ spec: { type: "LoadBalancer", ports: [{ port: 80 }] } }),
    maybe(fc.constant({ loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } })),
  ),
  kind(
    "v1",
    "PersistentVolumeClaim",
    fc.constant({ spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } } }),
  ),
  kind(
    "apps/v1",
    "Deployment",
    count.map((replicas) => ({ spec: { replicas, selector: { matchLabels: labels }, template } })),
  ),
  kind(
    "apps/v1",
    "StatefulSet",
    fc
      .record({
        replicas: count,
        type: fc.constantFrom("RollingUpdate", "OnDelete"),
        partition: fc.constantFrom(0, 0, 1),
      })
      .map(({ replicas, type, partition }) => ({
        spec: {
          replicas,
          serviceName: "app",
          selector: { matchLabels: labels },
          template,
          updateStrategy: { type, ...(type === "RollingUpdate" && { rollingUpdate: { partition } }) },
        },
      })),
  ),
  kind(
    "apps/v1",
    "DaemonSet",
    fc
      .constantFrom("RollingUpdate", "OnDelete")
      .map((type) => ({ spec: { selector: { matchLabels: labels }, template, updateStrategy: { type } } })),
  ),
  kind("batch/v1", "Job", fc.constant({ spec: { template: { spec: { ...template.spec, restartPolicy: "Never" } } } })),
  kind(
    "example.com/v1",
    "Widget",
    fc.constant({ spec: { size: 1 } }),
    maybe(fc.record({ observedGeneration, conditions: conditions("Ready") })),
  ),
  kind("example.com/v1", "Plain", fc.constant({ spec: { size: 1 } })),
);

/** Widgets have a status, plain ones have none. */
function definition(kind: string, group: string, hasStatus: boolean) {
  const plural = `${kind.toLowerCase()}s`;
  const any = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties: { spec: any, ...(hasStatus && { status: any }) } } },
          ...(hasStatus && { subresources: { status: {} } }),
        },
      ],
    },
  };
}

interface Workload {
  readonly spec: { readonly replicas?: number };
  readonly status: {
    readonly readyReplicas?: number;
    readonly numberReady?: number;
    readonly desiredNumberScheduled?: number;
  };
}

const id = ({ kind, name }: { kind: string; name: string }) => `${kind} ${name}`;

/** The objects that kluctl finds ready and says nothing of. */
function faultless(objects: readonly ResultObject[], { document, errors, warnings }: ValidateResult): string[] {
  const results = (document["results"] ?? []) as { ref: { kind: string; name: string } }[];
  const blamed = new Set([...errors, ...warnings, ...results].map(({ ref }) => id(ref)));
  return objects.map(({ ref }) => id(ref)).filter((one) => !blamed.has(one));
}

function known(result: CommandResult, deployed: boolean): string[] {
  const now = Date.parse((result.document["command"] as { startTime: string }).startTime);
  return result.objects
    .filter((object) => isKnownReady({ ...result, objects: [object] }, { deployed, now }))
    .map(({ ref }) => id(ref));
}

test("kluctl finds ready what counts as known to be ready, for generated objects of every kind", async () => {
  const [cluster, binary, dir] = await Promise.all([useCluster(), useKluctl(), useTempDir()]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const cacheDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  const limits = { leaseSilenceMs: 300_000 };
  const kluctl = newKluctl(dir, { binary, log: collectLogs().log, kubeconfigFor: () => kubeconfig, cacheDir, limits });
  onTestFinished(async () => {
    await kluctl.stop();
    await rm(cacheDir, { recursive: true, force: true });
  });
  const group = `${uniqueName("known")}.example.com`;
  const { namespace } = cluster;
  const generated = fc.sample(objects, { numRuns: 150 }).map(({ status, spec, annotations, ...rest }, i) => ({
    status,
    manifest: {
      ...rest,
      apiVersion: rest.apiVersion.replace("example.com", group),
      metadata: { name: `${namespace}-${i}`, ...(!rest.cluster && { namespace }), annotations },
      ...spec,
    },
  }));
  const manifests = generated.map(({ manifest: { cluster: _, ...manifest } }) => manifest);
  const definitions = [definition("Widget", group, true), definition("Plain", group, false)];
  const projectDir = await createProject(join(dir, "project"), {
    ".kluctl.yaml": `discriminator: ${namespace}`,
    "deployment.yaml": "deployments: [{path: definitions}, {barrier: true}, {path: app}]",
    "definitions/all.yaml": definitions.map((one) => JSON.stringify(one)).join("\n---\n"),
    "app/all.yaml": manifests.map((one) => JSON.stringify(one)).join("\n---\n"),
  });
  const { signal } = new AbortController();
  const run = newRun({ projectDir, held: fakeHeld(), timeoutMs: 300_000 });
  onTestFinished(async () => {
    const clusterWide = generated.filter(({ manifest }) => manifest.cluster).map(({ manifest }) => manifest);
    for (const one of [...clusterWide, ...definitions]) await cluster.objects.delete(one).catch(() => undefined);
  });

  const deployed = await kluctl.deploy(run, noDeployOptions, signal);
  const first = await kluctl.validate(run, signal);
  expect([deployed.errors, deployed.warnings]).toEqual([[], []]);
  expect(deployed.objects).toHaveLength(manifests.length + definitions.length);

  const ready = new Set(faultless(deployed.objects, first));
  const knownAtOnce = known(deployed, true);
  expect(knownAtOnce.filter((one) => !ready.has(one))).toEqual([]);
  const kinds = (ids: readonly string[]) => [...new Set(ids.map((one) => one.split(" ")[0]))].toSorted();
  expect(kinds(knownAtOnce)).toEqual(expect.arrayContaining(["ClusterRole", "ConfigMap", "Secret", "Service"]));

  const client = createKubeClient({ kubeconfig: cluster.kubeconfig });
  onTestFinished(() => client.close());
  for (const { manifest, status } of generated) {
    if (status === undefined) continue;
    const { apiVersion, kind, metadata } = manifest;
    const api = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
    const path = `${api}/namespaces/${namespace}/${kind.toLowerCase()}s/${metadata.name}/status`;
    await client.request({ method: "PATCH", path, body: { status }, patch: "merge" });
  }
  await vi.waitFor(async () => {
    for (const kind of ["deployments", "statefulsets", "daemonsets"]) {
      const { items } = await client.list(`/apis/apps/v1/namespaces/${namespace}/${kind}`);
      for (const { spec, status } of items as Workload[]) {
        const wanted = spec.replicas ?? status.desiredNumberScheduled;
        expect(status.readyReplicas ?? status.numberReady ?? 0).toBe(wanted);
      }
    }
  }, patience);
  const compared = await kluctl.diff(run, noDiffOptions, signal);
  const then = await kluctl.validate(run, signal);
  const readyThen = new Set(faultless(compared.objects, then));
  const knownThen = known(compared, false);
  expect(knownThen.filter((one) => !readyThen.has(one))).toEqual([]);
  expect(kinds(knownThen)).toEqual(
    expect.arrayContaining(["DaemonSet", "Deployment", "PodDisruptionBudget", "Service", "StatefulSet", "Widget"]),
  );
  // kluctl has something to say of others of these kinds.
  expect(kinds([...readyThen].filter((one) => !knownThen.includes(one)))).toContain("Plain");
  expect(then.errors.length).toBeGreaterThan(10);
});
