/** Flux's own controllers at the API server of a test, and the resources that they act on. */
import { onTestFinished } from "vitest";
import { fluxNamespace, type fluxTools, startFlux, startFluxController } from "../../dev/parts/flux.ts";
import type { ToolPaths } from "../../dev/tools.ts";
import { becomes, type ForeignDesk } from "./foreign-desk.ts";

/** The desk has to be set up with these tools. */
export { fluxTools } from "../../dev/parts/flux.ts";

export interface FluxResource {
  readonly metadata: {
    readonly generation?: number;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly managedFields?: readonly { readonly manager: string; readonly fieldsV1: object }[];
  };
  readonly spec: Readonly<Record<string, unknown>>;
  readonly status?: {
    readonly observedGeneration?: number;
    readonly lastHandledReconcileAt?: string;
    readonly lastAppliedRevision?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message?: string }[];
    readonly artifact?: { readonly revision: string };
    readonly inventory?: { readonly entries?: readonly { readonly id: string }[] };
  };
}

/** Annotation by which Flux is requested to reconcile a resource. */
export const requestedAt = "reconcile.fluxcd.io/requestedAt";

const paths = {
  GitRepository: "/apis/source.toolkit.fluxcd.io/v1",
  Kustomization: "/apis/kustomize.toolkit.fluxcd.io/v1",
} as const;

export function pathOf(kind: keyof typeof paths, name: string): string {
  return `${paths[kind]}/namespaces/${fluxNamespace}/${kind === "GitRepository" ? "gitrepositories" : "kustomizations"}/${name}`;
}

/** Starts the source-controller and the kustomize-controller. */
export async function useFlux({ tools, kubeconfig, dir }: ForeignDesk): Promise<void> {
  const flux = await startFlux({ tools: tools as ToolPaths<(typeof fluxTools)[number]>, kubeconfig, stateDir: dir });
  onTestFinished(() => flux.stop());
}

export async function useHelmController({ tools, kubeconfig, dir }: ForeignDesk): Promise<void> {
  const program = tools["helm-controller"] ?? "";
  const controller = await startFluxController("helm-controller", program, { kubeconfig, stateDir: dir });
  onTestFinished(() => controller.stop(500));
}

/** It fetches by itself once an hour only: what comes earlier was requested. */
export function aGitRepository({ name, url, branch = "main" }: Record<"name" | "url", string> & { branch?: string }) {
  return {
    ...{ apiVersion: "source.toolkit.fluxcd.io/v1", kind: "GitRepository" },
    ...{ metadata: { name, namespace: fluxNamespace }, spec: { interval: "1h", url, ref: { branch } } },
  };
}

/** Applies the directory `base` of the GitRepository of the same name. */
export function aKustomization({ name, prune }: { readonly name: string; readonly prune: boolean }) {
  const sourceRef = { kind: "GitRepository", name };
  return {
    ...{ apiVersion: "kustomize.toolkit.fluxcd.io/v1", kind: "Kustomization" },
    ...{ metadata: { name, namespace: fluxNamespace }, spec: { interval: "1h", path: "./base", prune, sourceRef } },
  };
}

/** Waits until Flux has fetched this commit. */
export async function isFetched(desk: ForeignDesk, name: string, commit: string): Promise<void> {
  const revision = async () =>
    (await desk.find<FluxResource>(pathOf("GitRepository", name)))?.status?.artifact?.revision;
  await becomes(revision, `main@sha1:${commit}`);
}

/** Waits until Flux has reconciled the current Kustomization. */
export async function isApplied(desk: ForeignDesk, name: string): Promise<void> {
  const look = async () => {
    const { metadata, status } = (await desk.find<FluxResource>(pathOf("Kustomization", name))) ?? {};
    const ready = status?.conditions?.find(({ type }) => type === "Ready");
    return metadata?.generation === status?.observedGeneration && ready?.status === "True";
  };
  await becomes(look, true);
}
