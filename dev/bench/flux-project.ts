/** The same three ConfigMaps for Flux and for kluctl: the files of their repositories, and the resources that apply them. */
import { stringify } from "yaml";
import type { FileChanges } from "../parts/work-copy.ts";
import type { KubernetesObject } from "./cluster.ts";

const objects = ["features", "limits", "settings"] as const;

/** What a deployment of this name applies. */
const objectsOf = (name: string) => objects.map((object) => `${name}-${object}`);

/** Plain manifests, as Flux applies them; each Kustomization sets its own prefix to their names. */
export function manifests(namespace: string, release: string): FileChanges {
  const files = objects.map((name) => [`${name}.yaml`, configMap({ name, namespace }, release)] as const);
  return Object.fromEntries(files);
}

/** A kluctl project with the same objects; `release.yaml` alone changes with a push. */
export function kluctlProject(release: string): FileChanges {
  const metadata = (object: string) => ({ name: `{{ args.name }}-${object}`, namespace: "{{ args.namespace }}" });
  const files = objects.map((name) => [`app/${name}.yaml`, configMap(metadata(name), "{{ release }}")] as const);
  return {
    ".kluctl.yaml": stringify({
      discriminator: "bench-{{ args.namespace }}-{{ args.name }}",
      args: [{ name: "name" }, { name: "namespace" }],
    }),
    "deployment.yaml": stringify({ deployments: [{ path: "app" }], vars: [{ file: "release.yaml" }] }),
    ...kluctlRelease(release),
    ...Object.fromEntries(files),
  };
}

export function kluctlRelease(release: string): FileChanges {
  return { "release.yaml": stringify({ release }) };
}

/** True if all objects of these deployments have the release. */
export function haveRelease(
  seen: ReadonlyMap<string, KubernetesObject>,
  names: readonly string[],
  release: string,
): boolean {
  return names.flatMap(objectsOf).every((name) => seen.get(name)?.data?.["release"] === release);
}

/** True if Flux has applied the commit and reports success. */
export function isApplied(object: KubernetesObject | undefined, commit: string): boolean {
  const { lastAppliedRevision, conditions = [] } = object?.status ?? {};
  const isReady = conditions.some(({ type, status }) => type === "Ready" && status === "True");
  return isReady && lastAppliedRevision === `main@sha1:${commit}`;
}

export const intervals = { gitRepository: "1m", deployment: "10m" } as const;

export function gitRepository(namespace: string, name: string, url: string): object {
  return {
    ...{ apiVersion: "source.toolkit.fluxcd.io/v1", kind: "GitRepository", metadata: { name, namespace } },
    spec: { interval: intervals.gitRepository, url, ref: { branch: "main" } },
  };
}

export function kustomization(namespace: string, name: string, source: string): object {
  const sourceRef = { kind: "GitRepository", name: source };
  return {
    ...{ apiVersion: "kustomize.toolkit.fluxcd.io/v1", kind: "Kustomization", metadata: { name, namespace } },
    spec: { interval: intervals.deployment, path: "./", prune: true, sourceRef, namePrefix: `${name}-` },
  };
}

/** Everything that has a default has its default: it is validated, for example. */
export function deploymentSpec(namespace: string, name: string, url: string): object {
  const source = { git: { url, ref: { branch: "main" } } };
  return { interval: intervals.deployment, source, args: { name, namespace } };
}

function configMap(metadata: object, release: string): string {
  return stringify({ apiVersion: "v1", kind: "ConfigMap", metadata, data: { release } });
}
