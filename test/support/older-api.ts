/** The legacy APIs: minimal CRDs for the tests, and their resources. */
import type { KubernetesObject } from "@kubernetes/client-node";
import { expect } from "vitest";
import { createKubeClient } from "../../src/kube/client.ts";
import { patience } from "./patience.ts";

const anything = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const text = { type: "string" };
const flag = { type: "boolean" };
const result = {
  type: "object",
  required: ["time"],
  properties: {
    time: { type: "string", format: "date-time" },
    revision: text,
    target: text,
    targetNameOverride: text,
    objectsHash: text,
    rawResult: text,
    error: text,
  },
};

/** Like the original, its schema prunes status fields that the legacy API does not have. */
const legacyStatus = {
  type: "object",
  properties: {
    lastHandledReconcileAt: text,
    lastHandledDeployAt: text,
    observedGeneration: { type: "integer", format: "int64" },
    conditions: { type: "array", items: anything },
    lastAttemptedRevision: text,
    lastDeployResult: result,
    lastPruneResult: result,
    lastValidateResult: { ...result, required: ["time", "error"] },
    discriminator: text,
    rawTarget: text,
    readyForMigration: flag,
  },
};

/** A CRD that accepts any spec. */
function definition(group: string, version: string, kind: string, plural: string, status: object) {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase() },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: "object", properties: { spec: anything, status } } },
        },
      ],
    },
  };
}

/** The definition of the legacy KluctlDeployments. */
export const legacyDefinition = definition(
  "flux.kluctl.io",
  "v1alpha1",
  "KluctlDeployment",
  "kluctldeployments",
  legacyStatus,
);

const definitions = [
  legacyDefinition,
  definition("source.toolkit.fluxcd.io", "v1", "GitRepository", "gitrepositories", anything),
];

export async function installOlderApis(kubeconfig: string): Promise<void> {
  await installDefinitions(kubeconfig, definitions);
}

/** Installs the CRDs and leaves them, because they do not affect other tests. */
async function installDefinitions(kubeconfig: string, wanted: readonly ReturnType<typeof definition>[]): Promise<void> {
  const client = createKubeClient({ kubeconfig });
  try {
    for (const crd of wanted) {
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${crd.metadata.name}`;
      const query = { fieldManager: "test", force: true };
      await client.request({ method: "PATCH", patch: "apply", path, query, body: crd });
      const { group, names, versions } = crd.spec;
      const served = () =>
        client.list(`/apis/${group}/${versions[0]?.name}/${names.plural}`).then(
          () => true,
          () => false,
        );
      await expect.poll(served, patience).toBe(true);
    }
  } finally {
    client.close();
  }
}

export function olderDeployment(
  name: string,
  spec: object,
  annotations: Record<string, string> = {},
): KubernetesObject {
  const apiVersion = "flux.kluctl.io/v1alpha1";
  return { apiVersion, kind: "KluctlDeployment", metadata: { name, annotations }, spec } as KubernetesObject;
}

const ofFlux = [
  definition("source.toolkit.fluxcd.io", "v1", "HelmChart", "helmcharts", anything),
  definition("kustomize.toolkit.fluxcd.io", "v1", "Kustomization", "kustomizations", anything),
  definition("helm.toolkit.fluxcd.io", "v2", "HelmRelease", "helmreleases", anything),
];

export async function installFlux(kubeconfig: string): Promise<void> {
  await installDefinitions(kubeconfig, [...definitions, ...ofFlux]);
}

export function kustomization(name: string, spec: object): KubernetesObject {
  const apiVersion = "kustomize.toolkit.fluxcd.io/v1";
  return { apiVersion, kind: "Kustomization", metadata: { name }, spec } as KubernetesObject;
}

export function helmRelease(name: string, labels: Record<string, string>): KubernetesObject {
  const apiVersion = "helm.toolkit.fluxcd.io/v2";
  return { apiVersion, kind: "HelmRelease", metadata: { name, labels }, spec: {} } as KubernetesObject;
}

export function gitRepository(name: string, spec: object): KubernetesObject {
  const apiVersion = "source.toolkit.fluxcd.io/v1";
  return { apiVersion, kind: "GitRepository", metadata: { name }, spec } as KubernetesObject;
}
