import type { ClusterCapabilities } from "./preview-cluster.ts";

/** Renders Flux's Kustomizations and charts from files alone, by Flux's and Helm's own code. */
export interface FluxRenderer {
  /**
   * Renders each Kustomization as kustomize-controller builds it: generated kustomization.yaml, overlay of its spec, substitution,
   * owner labels, commonMetadata. No network, no cluster, no decryption, no remote bases. In the order of the input.
   * Rejects if no process can be started or confined, if it exceeds its limits, or if the signal aborts.
   */
  render(input: FluxRenderInput, signal: AbortSignal): Promise<readonly FluxRendered[]>;
  /**
   * Renders the chart of each HelmRelease, which has to be part of the source, as helm-controller would install or upgrade it:
   * values, post-renderers, labels. `lookup` finds nothing, and nothing is fetched. Otherwise like `render`.
   */
  renderReleases(input: ReleaseRenderInput, signal: AbortSignal): Promise<readonly RenderedRelease[]>;
}
export interface FluxRenderInput {
  /** The root of the source's artifact: a checkout, without `.git`, after `ignore` was applied to it by the program. */
  readonly root: string;
  /** `spec.ignore` of the GitRepository; absent: Flux's defaults and `.sourceignore` files. */
  readonly ignore?: string | undefined;
  readonly kustomizations: readonly FluxToRender[];
}
export interface FluxToRender {
  /** The Kustomization (kustomize.toolkit.fluxcd.io/v1), as in the cluster or as rendered. */
  readonly resource: Readonly<Record<string, unknown>>;
  /** The values of `postBuild.substituteFrom`, already merged in its order; `postBuild.substitute` is applied over them by the program. */
  readonly variables: Readonly<Record<string, string>>;
}
export type FluxRendered =
  | { readonly objects: readonly Readonly<Record<string, unknown>>[]; readonly files: readonly string[] }
  /** What the controller's condition would say (BuildFailed), without paths of this machine. */
  | { readonly error: string };

export interface ReleaseRenderInput extends Pick<FluxRenderInput, "root" | "ignore"> {
  readonly releases: readonly ReleaseToRender[];
}
export interface ReleaseToRender {
  /** The HelmRelease (helm.toolkit.fluxcd.io/v2), as rendered. */
  readonly resource: Readonly<Record<string, unknown>>;
  /** What `valuesFrom` names, as far as it exists. */
  readonly objects: readonly ReleaseValues[];
  /** False for one that Helm has yet to install. */
  readonly isUpgrade: boolean;
  /** What Flux adds to the version of the chart; absent: nothing. */
  readonly versionMetadata?: string | undefined;
  /** What the cluster has; absent: what Helm assumes. */
  readonly capabilities?: ClusterCapabilities | undefined;
  /** Nothing is rendered: only the files of the chart are wanted. */
  readonly onlyFiles?: boolean | undefined;
}
/** A ConfigMap or Secret with values, in the namespace of the HelmRelease. */
export interface ReleaseValues {
  readonly kind: "ConfigMap" | "Secret";
  readonly name: string;
  readonly data: Readonly<Record<string, string>>;
}
export type RenderedRelease = RenderedObjectsOfRelease | FailedRelease;
export interface RenderedObjectsOfRelease {
  /** Without hooks. A namespaced object without a namespace belongs to that of the release. */
  readonly objects: readonly Readonly<Record<string, unknown>>[];
  /** Those that Flux may ever run, with the events that make it do so; tests only if the HelmRelease enables them. */
  readonly hooks: readonly { readonly object: Readonly<Record<string, unknown>>; readonly events: readonly string[] }[];
  /** From the directories `crds` of the charts, if the HelmRelease applies them. */
  readonly crds: readonly Readonly<Record<string, unknown>>[];
  readonly files: readonly string[];
  readonly chart: ChartVersion;
}
export interface FailedRelease {
  readonly error: string;
  /** A limit of previews, not a fault of the chart. */
  readonly isUnsupported: boolean;
  readonly files: readonly string[];
  /** Absent if not even its version can be read. */
  readonly chart?: ChartVersion | undefined;
}
export interface ChartVersion {
  readonly name: string;
  readonly version: string;
}
