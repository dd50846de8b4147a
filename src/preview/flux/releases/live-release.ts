/** What the cluster knows of a HelmRelease. Its status is read, the release that Helm stores in a Secret is not. */
import { z } from "zod";
import { isDenied } from "../../../errors.ts";
import type { PreviewCluster } from "../../../ports/preview-cluster.ts";
import { readRelease, type FluxRelease } from "./release.ts";

export interface LiveRelease {
  readonly exists: boolean;
  readonly suspended: boolean;
  /** Whether Helm has a release of it, so that the next one is an upgrade; `undefined`: not known. */
  readonly isInstalled?: boolean | undefined;
  /** Whether what it last released is known to have no values from Secrets, so that live objects may be shown. */
  readonly isOpen: boolean;
  /** What Flux added to the version of the chart that it released. */
  readonly versionMetadata?: string | undefined;
  /** The labels by which the Kustomization that applied it is known. */
  readonly resource?: Readonly<Record<string, unknown>> | undefined;
}

const Live = z.object({
  metadata: z.object({ generation: z.int().optional() }),
  spec: z.object({ suspend: z.boolean().nullish().catch(undefined) }),
  status: z
    .object({
      observedGeneration: z.int().nullish(),
      conditions: z.array(z.object({ type: z.string(), status: z.string() })).nullish(),
      history: z.array(z.object({ chartVersion: z.string(), status: z.string().nullish() })).nullish(),
    })
    .nullish()
    .catch(undefined),
});

const none: LiveRelease = { exists: false, suspended: false, isInstalled: false, isOpen: true };
const unknown: LiveRelease = { exists: true, suspended: false, isOpen: false };

/** Throws ApiError if the cluster does not answer; if it refuses to, nothing is known. */
export async function readLiveRelease(
  release: FluxRelease | undefined,
  cluster: () => Promise<Pick<PreviewCluster, "find">>,
  signal: AbortSignal,
): Promise<LiveRelease> {
  if (release === undefined) return none;
  try {
    const found = await (await cluster()).find(release.resource, signal);
    if ("problem" in found || found.live === undefined) return none;
    const { data } = Live.safeParse(found.live);
    const known = readRelease(found.live);
    if (data === undefined || known === undefined) return { ...unknown, resource: found.live };
    const { metadata, spec, status } = data;
    const isReady = status?.conditions?.some((one) => one.type === "Ready" && one.status === "True") === true;
    const isSettled = isReady && status?.observedGeneration === metadata.generation;
    const [last] = status?.history ?? [];
    return {
      ...{ exists: true, suspended: spec.suspend === true, resource: found.live },
      isOpen: isSettled && !known.valuesFrom.some(({ kind }) => kind === "Secret"),
      isInstalled: last !== undefined && last.status !== "uninstalled",
      versionMetadata: last?.chartVersion.split("+")[1],
    };
  } catch (error) {
    if (isDenied(error)) return unknown;
    throw error;
  }
}
