/** Resources of Flux, as the server reads them. */
import { parseKustomization } from "../../src/apis/flux/kustomization.ts";
import { parseHelmRelease } from "../../src/apis/flux/helm-release.ts";
import {
  type FluxChart,
  type FluxDeployment,
  type FluxRef,
  type FluxSource,
  keyText,
  type RepoId,
} from "../../src/model.ts";
import { repoId } from "../../src/model/repo-url.ts";
import type { FluxDeployments, FluxSources, OnResourceChange } from "../../src/ports.ts";

export function aFluxSource({
  name = "shop",
  url = "https://git.example.com/org/shop",
  ref = { branch: "main" },
  commit = undefined as string | undefined,
  suspended = false,
  generation = 1,
}: {
  name?: string;
  url?: string;
  ref?: FluxRef;
  commit?: string;
  suspended?: boolean;
  generation?: number;
} = {}): FluxSource {
  const key = { namespace: "flux-system", name };
  const state = { suspended, webhooks: true, isRequested: false };
  return { key, uid: `uid-${name}`, generation, repo: repoId(url)!, url, ref, commit, ...state };
}

export interface PlayedStatus {
  readonly generation?: number;
  readonly observedGeneration?: number;
  /** The generation of which the conditions are. */
  readonly seenGeneration?: number;
  readonly attempted?: string;
  readonly applied?: string;
  /** The commit of the attempt in progress, or of one that is repeated. */
  readonly attempting?: string;
  readonly ready?: readonly ["True" | "False" | "Unknown", string, string?];
  readonly isStalled?: boolean;
}

const revisionOf = (commit: string | undefined) => commit && `main@sha1:${commit}`;

/** The status of a Kustomization, as Flux's kustomize-controller writes it. */
export function playedStatus(played: PlayedStatus): object {
  const { generation = 1, observedGeneration = generation, attempted, applied, attempting, ready, isStalled } = played;
  const { seenGeneration = generation } = played;
  const [status, reason = "", message = ""] = ready ?? [];
  const of = (type: string, value: string, reason: string, message: string) => ({
    ...{ type, status: value, reason, message, lastTransitionTime: "2026-01-01T00:00:00Z" },
    observedGeneration: seenGeneration,
  });
  const progress = `Building manifests for revision ${revisionOf(attempting)} with a timeout of 5m0s`;
  return {
    observedGeneration,
    conditions: [
      ...(attempting ? [of("Reconciling", "True", "Progressing", progress)] : []),
      ...(isStalled ? [of("Stalled", "True", reason, message)] : []),
      ...(status ? [of("Ready", status, reason, message)] : []),
    ],
    lastAttemptedRevision: revisionOf(attempted),
    lastAppliedRevision: revisionOf(applied),
  };
}

export function aKustomization(
  name = "apps",
  { spec = {}, annotations, generation = 1, ...played }: PlayedStatus & { spec?: object; annotations?: object } = {},
): FluxDeployment {
  return parseKustomization({
    metadata: { namespace: "flux-system", name, uid: `uid-${name}`, generation, annotations },
    spec: { sourceRef: { kind: "GitRepository", name: "shop" }, path: "./apps", prune: true, ...spec },
    status: playedStatus({ generation, ...played }),
  })!;
}

/** A HelmRelease, as Flux's helm-controller and source-controller leave it, in the Kustomization `apps`. */
export function aHelmRelease(
  name = "web",
  {
    spec = {},
    generation = 1,
    chart,
    version,
    owner = "apps",
    ...played
  }: PlayedStatus & { spec?: object; chart?: FluxChart; version?: string; owner?: string } = {},
): FluxDeployment {
  const label = "kustomize.toolkit.fluxcd.io";
  const labels = owner && { [`${label}/name`]: owner, [`${label}/namespace`]: "flux-system" };
  const release = parseHelmRelease({
    metadata: { namespace: "web", name, uid: `uid-release-${name}`, generation, labels },
    spec,
    status: { ...playedStatus({ generation, ...played }), lastAttemptedRevision: version },
  })!;
  return { ...release, ...(chart && { chart, source: release.source ?? chart.source }) };
}

/** A cluster with resources of Flux; setting one again is a change of it. */
export function fakeFlux() {
  const sources = fakeKind<FluxSource>();
  const deployments = fakeKind<FluxDeployment>();
  /** What the API server has and the watch does not show yet. */
  const ahead = new Map<string, FluxDeployment | Error>();
  return {
    ahead,
    set(...those: (FluxSource | FluxDeployment)[]) {
      for (const one of those) {
        if ("kind" in one) deployments.set(one);
        else sources.set(one);
      }
    },
    remove(...those: (FluxSource | FluxDeployment)[]) {
      for (const one of those) {
        if ("kind" in one) deployments.remove(one);
        else sources.remove(one);
      }
    },
    /** Whether Kustomizations have been listed. */
    state: deployments.state,
    fluxSources: {
      synced: () => true,
      all: sources.all,
      onChange: sources.onChange,
      find: (key) => sources.all().find((one) => keyText(one.key) === keyText(key)),
      following: (repo: RepoId) => sources.all().filter((one) => one.repo === repo),
    } satisfies Partial<FluxSources>,
    fluxDeployments: {
      synced: () => deployments.state.synced,
      all: deployments.all,
      onChange: deployments.onChange,
      find: (key) => deployments.all().find((one) => one.kind === "Kustomization" && keyText(one.key) === keyText(key)),
      kustomization: () => Promise.resolve(undefined),
      read({ kind, key }) {
        const newer = ahead.get(keyText(key));
        if (newer instanceof Error) return Promise.reject(newer);
        const known = deployments.all().find((one) => one.kind === kind && keyText(one.key) === keyText(key));
        return Promise.resolve(newer ?? known);
      },
    } satisfies FluxDeployments,
  };
}

function fakeKind<T extends FluxSource | FluxDeployment>() {
  const known = new Map<string, T>();
  const listeners: OnResourceChange<T>[] = [];
  const change = (key: string, after: T | undefined) => {
    const before = known.get(key);
    if (after) known.set(key, after);
    else known.delete(key);
    for (const listener of listeners) listener(before, after);
  };
  return {
    state: { synced: true },
    all: () => [...known.values()],
    onChange: (listener: OnResourceChange<T>) => void listeners.push(listener),
    set: (one: T) => change(idOf(one), one),
    remove: (one: T) => change(idOf(one), undefined),
  };
}

function idOf(one: FluxSource | FluxDeployment): string {
  return `${"kind" in one ? one.kind : ""} ${keyText(one.key)}`;
}
