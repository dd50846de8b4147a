/** Flux's resources in a cluster, what its code would render of two commits, and a cluster that is only asked. */
import { type JsonObject, isRecord } from "../../src/kit/json.ts";
import { type ObjectRef, refId } from "../../src/model.ts";
import type {
  DryRun,
  FluxRendered,
  FluxRenderer,
  PreviewClusters,
  RefusedApply,
  ReleaseToRender,
  RenderedRelease,
} from "../../src/ports.ts";
import type { FluxPreviewsDeps } from "../../src/preview/flux/compare-flux.ts";
import { refOf } from "../../src/preview/flux/manifests.ts";
import { parseKustomization } from "../../src/apis/flux/kustomization.ts";
import { aFluxSource } from "./flux.ts";

export interface ManifestOptions {
  readonly namespace?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A ConfigMap as a Kustomization renders it. */
export function aConfigMap(name: string, data: Readonly<Record<string, string>>, options: ManifestOptions = {}) {
  const { namespace = "shop", ...metadata } = options;
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace, ...metadata }, data };
}

export interface FluxResourceOptions {
  readonly namespace?: string;
  readonly spec?: JsonObject;
  readonly applied?: string;
  /** Of objects that were applied. */
  readonly inventory?: readonly JsonObject[];
  readonly owner?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A Kustomization, as a manifest or as the cluster has it. */
export function aFluxResource(name: string, options: FluxResourceOptions = {}): JsonObject {
  const { namespace = "flux-system", spec = {}, applied, inventory = [], owner, annotations } = options;
  const prefix = "kustomize.toolkit.fluxcd.io";
  const labels = owner && { [`${prefix}/name`]: owner, [`${prefix}/namespace`]: "flux-system" };
  const entries = inventory.map((object) => {
    const { namespace: at = "", name: of, group = "", kind, version } = refOf(object) as ObjectRef;
    return { id: `${at}_${of}_${group}_${kind}`, v: version };
  });
  return {
    apiVersion: `${prefix}/v1`,
    kind: "Kustomization",
    metadata: { name, namespace, ...(labels && { labels }), ...(annotations && { annotations }) },
    spec: {
      sourceRef: { kind: "GitRepository", name: "shop", namespace: "flux-system" },
      path: `./${name}`,
      prune: true,
      ...spec,
    },
    ...(applied && { status: { lastAppliedRevision: `main@sha1:${applied}`, inventory: { entries } } }),
  };
}

/** With the labels by which Flux recognizes what a Kustomization has applied. */
export function ownedBy<T extends JsonObject>(name: string, object: T, of = "flux-system"): T {
  const prefix = "kustomize.toolkit.fluxcd.io";
  const labels = { [`${prefix}/name`]: name, [`${prefix}/namespace`]: of };
  const metadata = object["metadata"] as JsonObject;
  return { ...object, metadata: { ...metadata, labels: { ...(metadata["labels"] as object), ...labels } } };
}

type RendersOf = Readonly<Record<string, readonly JsonObject[] | string>>;

/** What each commit renders: by the name of the Kustomization, its objects, or why it cannot be built. */
export interface PlayedRenders {
  base: RendersOf;
  merged: RendersOf;
  /** Of a HelmRelease; without it, no chart can be rendered. */
  release?: (root: string, release: ReleaseToRender) => RenderedRelease;
  /** Of a Kustomization, besides what is given above: as its spec and its variables have it. */
  render?: (resource: JsonObject, variables: Readonly<Record<string, string>>) => FluxRendered | undefined;
}

const idOf = (object: JsonObject) => refId(refOf(object) as ObjectRef);
const nameIn = (resource: JsonObject) => (resource["metadata"] as { name: string }).name;

/** A cluster with Kustomizations of the GitRepository `shop`; nothing in it can be written. */
export function fakeFluxPreviews(resources: readonly JsonObject[], renders: PlayedRenders) {
  const live = new Map<string, JsonObject>();
  const refusals = new Map<string, RefusedApply>();
  const unserved = new Set<string>();
  const asked: string[] = [];
  const accounts: (string | undefined)[] = [];
  const rendered: { root: string; names: string[] }[] = [];
  const source = aFluxSource();
  const gitRepository: { spec: JsonObject } = { spec: {} };

  const renderer: FluxRenderer = {
    render({ root, kustomizations }) {
      rendered.push({ root, names: kustomizations.map(({ resource }) => nameIn(resource)) });
      const of = root.startsWith("/base") ? renders.base : renders.merged;
      return Promise.resolve(
        kustomizations.map(({ resource, variables }): FluxRendered => {
          const special = renders.render?.(resource, variables);
          if (special) return special;
          const objects = of[nameIn(resource)] ?? [];
          return typeof objects === "string" ? { error: objects } : { objects, files: [`${nameIn(resource)}/a.yaml`] };
        }),
      );
    },
    renderReleases({ root, releases }) {
      const unknown = { error: "no chart found", isUnsupported: false, files: [] };
      return Promise.resolve(releases.map((one) => renders.release?.(root, one) ?? unknown));
    },
  };
  const clusters: PreviewClusters = {
    open({ impersonate }) {
      accounts.push(impersonate);
      return Promise.resolve({
        find(object) {
          asked.push(`find ${idOf(object)}`);
          if (unserved.has(String(object["kind"]))) return Promise.resolve({ problem: "unserved" as const });
          return Promise.resolve({ live: live.get(idOf(object)) });
        },
        dryRun(object): Promise<DryRun> {
          asked.push(`dry run ${idOf(object)}`);
          const refusal = refusals.get(idOf(object));
          if (refusal) return Promise.resolve({ refusal });
          return Promise.resolve({ applied: applied(live.get(idOf(object)), object) });
        },
        capabilities: () => Promise.resolve({ kubeVersion: "v1.32.2", apiVersions: ["v1", "v1/ConfigMap"] }),
        maskedValues: () => [],
        requests: () => asked.length,
        close: () => Promise.resolve(),
      });
    },
  };
  const deps: FluxPreviewsDeps = {
    sources: {
      following: (repo) => (repo === source.repo ? [source] : []),
      find: () => source,
      resource: () => Promise.resolve({ ...gitRepository }),
    },
    deployments: {
      all: () => resources.flatMap((one) => parseKustomization(withUid(one)) ?? []),
      kustomization: ({ name }) => Promise.resolve(resources.find((one) => nameIn(one) === name)),
    },
    isLoading: () => false,
    ...{ renderer, clusters },
  };
  return {
    ...{ deps, renders, live, refusals, unserved, asked, accounts, rendered, gitRepository },
    has: (...objects: readonly JsonObject[]) => {
      for (const object of objects) live.set(idOf(object), { ...object, status: {} });
    },
    refuse: (object: JsonObject, refusal: RefusedApply) => void refusals.set(idOf(object), refusal),
  };
}

function withUid(resource: JsonObject): JsonObject {
  return {
    ...resource,
    metadata: { ...(resource["metadata"] as object), uid: `uid-${nameIn(resource)}`, generation: 1 },
  };
}

/** What is not in the object stays as it is. */
function applied(before: unknown, object: JsonObject): JsonObject {
  const merged = Object.entries(object).map(([key, value]) => {
    const old = isRecord(before) ? before[key] : undefined;
    return [key, isRecord(value) ? applied(old, value) : value];
  });
  return { ...(isRecord(before) ? before : {}), ...(Object.fromEntries(merged) as JsonObject) };
}

/**
 * As Flux substitutes, in its simplest form. Afterwards, the objects are sorted as Flux applies them, and plain texts of Secrets
 * are encoded.
 */
export function substitute(
  objects: readonly JsonObject[],
  resource: JsonObject,
  variables: Readonly<Record<string, string>>,
): FluxRendered {
  const { postBuild } = resource["spec"] as { postBuild?: { substitute?: Record<string, string> } };
  const all: Readonly<Record<string, string>> = { ...variables, ...postBuild?.substitute };
  const valueOf = (whole: string, name: string, from?: string, length?: string) =>
    from === undefined ? (all[name] ?? whole) : (all[name] ?? "").slice(Number(from), Number(from) + Number(length));
  const text = JSON.stringify(objects);
  const texts = postBuild ? text.replaceAll(/\$\{(\w+)(?::(\d+):(\d+))?\}/g, valueOf) : text;
  const made = JSON.parse(texts) as JsonObject[];
  return {
    objects: made.map(withoutStringData).toSorted((one, other) => (nameIn(one) < nameIn(other) ? -1 : 1)),
    files: [],
  };
}

function withoutStringData({ stringData, ...object }: JsonObject): JsonObject {
  if (!isRecord(stringData) || "sops" in object) return { ...object, ...(stringData !== undefined && { stringData }) };
  const values = Object.entries(stringData).map(([key, text]) => [key, Buffer.from(String(text)).toString("base64")]);
  return { ...object, data: Object.fromEntries(values) as JsonObject };
}
