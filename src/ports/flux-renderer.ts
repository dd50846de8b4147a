/** Renders Flux's Kustomizations from files alone, by Flux's own code. */
export interface FluxRenderer {
  /**
   * Renders each Kustomization as kustomize-controller builds it: generated kustomization.yaml, overlay of its spec, substitution,
   * owner labels, commonMetadata. No network, no cluster, no decryption, no remote bases. In the order of the input.
   * Rejects if no process can be started or confined, if it exceeds its limits, or if the signal aborts.
   */
  render(input: FluxRenderInput, signal: AbortSignal): Promise<readonly FluxRendered[]>;
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
