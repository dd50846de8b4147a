/** Flux's HelmRelease, and the HelmChart that Flux builds for it, as far as they show which commit was applied. */
import { z } from "zod";
import { commitOfRevision, type FluxChart, type FluxDeployment, type Key } from "../../model.ts";
import { Conditions, conditionsBy, Metadata, optionalCount, optionalFlag, optionalText } from "./conditions.ts";

const Reference = z.object({ kind: z.string(), name: z.string().min(1), namespace: optionalText });

/** The resource that is referred to, if it is of this kind. */
function keyOf(
  reference: z.infer<typeof Reference> | null | undefined,
  kind: string,
  ownNamespace: string,
): Key | undefined {
  if (reference?.kind !== kind) return undefined;
  return { namespace: reference.namespace || ownNamespace, name: reference.name };
}

const Release = z.object({
  metadata: Metadata,
  spec: z.object({
    chart: z
      .object({
        spec: z.object({ chart: optionalText, sourceRef: Reference }),
      })
      .nullish()
      .catch(undefined),
    chartRef: Reference.nullish().catch(undefined),
    suspend: optionalFlag,
  }),
  status: z
    .object({
      observedGeneration: optionalCount,
      conditions: Conditions,
      helmChart: optionalText,
      lastAttemptedRevision: optionalText,
      history: z
        .array(z.object({ lastDeployed: z.string(), status: z.string() }))
        .nullish()
        .catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

const ownerLabel = "kustomize.toolkit.fluxcd.io";

/** Without what its HelmChart shows. Returns `undefined` if it is not a HelmRelease of Flux. */
export function parseHelmRelease(resource: unknown): FluxDeployment | undefined {
  const { data } = Release.safeParse(resource);
  if (data === undefined) return undefined;
  const { metadata, spec, status } = data;
  const { namespace, name, uid, generation, labels } = metadata;
  const { chart, sourceRef } = spec.chart?.spec ?? {};
  const conditionOf = conditionsBy(status?.conditions);
  const [ownerName, ownerNamespace] = [labels?.[`${ownerLabel}/name`], labels?.[`${ownerLabel}/namespace`]];
  const deployed = status?.history?.find((one) => one.status === "deployed");
  return {
    ...{ kind: "HelmRelease", key: { namespace, name }, uid, generation },
    source: keyOf(sourceRef, "GitRepository", namespace),
    owner: ownerName && ownerNamespace ? { namespace: ownerNamespace, name: ownerName } : undefined,
    chartKey: keyOf(spec.chartRef, "HelmChart", namespace) ?? keyIn(status?.helmChart ?? ""),
    attemptedVersion: status?.lastAttemptedRevision ?? undefined,
    path: chart ?? undefined,
    suspended: spec.suspend === true,
    observedGeneration: status?.observedGeneration ?? undefined,
    ready: conditionOf("Ready"),
    isStalled: conditionOf("Stalled")?.status === "True",
    appliedAt: Date.parse(deployed?.lastDeployed ?? "") || undefined,
  };
}

const Chart = z.object({
  metadata: Metadata,
  spec: z.object({ sourceRef: Reference }),
  status: z
    .object({
      observedGeneration: optionalCount,
      conditions: Conditions,
      observedSourceArtifactRevision: optionalText,
      artifact: z.object({ revision: z.string() }).nullish().catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

/** Returns `undefined` if it is not a HelmChart of Flux. */
export function parseHelmChart(resource: unknown): (FluxChart & { readonly key: Key }) | undefined {
  const { data } = Chart.safeParse(resource);
  if (data === undefined) return undefined;
  const { namespace, name, generation } = data.metadata;
  const { observedGeneration, conditions, observedSourceArtifactRevision: revision, artifact } = data.status ?? {};
  // Flux records the source's revision before it has built the chart from it.
  const isBuilt = conditionsBy(conditions)("Ready")?.status === "True" && observedGeneration === generation;
  return {
    key: { namespace, name },
    source: keyOf(data.spec.sourceRef, "GitRepository", namespace),
    commit: isBuilt ? commitOfRevision(revision ?? undefined) : undefined,
    version: isBuilt ? artifact?.revision : undefined,
  };
}

function keyIn(text: string): Key | undefined {
  const [namespace, name, ...rest] = text.split("/");
  return namespace && name && rest.length === 0 ? { namespace, name } : undefined;
}
