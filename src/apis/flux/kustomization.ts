/** Flux's Kustomization, as far as it shows which commit was applied. */
import { z } from "zod";
import { annotation, commitOfRevision, type FluxDeployment } from "../../model.ts";
import { Conditions, conditionsBy, Metadata, optionalCount, optionalFlag, optionalText } from "./conditions.ts";

const Resource = z.object({
  metadata: Metadata,
  spec: z.object({
    sourceRef: z.object({ kind: z.string(), name: z.string().min(1), namespace: optionalText }),
    path: optionalText,
    suspend: optionalFlag,
  }),
  status: z
    .object({
      observedGeneration: optionalCount,
      conditions: Conditions,
      lastAttemptedRevision: optionalText,
      lastAppliedRevision: optionalText,
      history: z
        .array(z.object({ firstReconciled: z.string(), lastReconciledStatus: z.string() }))
        .nullish()
        .catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

/** Returns `undefined` if it is not a Kustomization of Flux. */
export function parseKustomization(resource: unknown): FluxDeployment | undefined {
  const { data } = Resource.safeParse(resource);
  if (data === undefined) return undefined;
  const { metadata, spec, status } = data;
  const { namespace, name, uid, generation } = metadata;
  const { kind, name: sourceName, namespace: sourceNamespace } = spec.sourceRef;
  const conditionOf = conditionsBy(status?.conditions);
  const succeeded = status?.history?.find(({ lastReconciledStatus: last }) => last === "ReconciliationSucceeded");
  return {
    ...{ kind: "Kustomization", key: { namespace, name }, uid, generation },
    annotations: settingsIn(metadata.annotations ?? {}),
    source: kind === "GitRepository" ? { namespace: sourceNamespace || namespace, name: sourceName } : undefined,
    path: spec.path ?? undefined,
    suspended: spec.suspend === true,
    observedGeneration: status?.observedGeneration ?? undefined,
    ready: conditionOf("Ready"),
    isStalled: conditionOf("Stalled")?.status === "True",
    attempting: commitNamedIn(conditionOf("Reconciling")?.message),
    attempted: commitOfRevision(status?.lastAttemptedRevision ?? undefined),
    applied: commitOfRevision(status?.lastAppliedRevision ?? undefined),
    appliedAt: Date.parse(succeeded?.firstReconciled ?? "") || undefined,
  };
}

/** Other annotations may be large, and are not kept. */
function settingsIn(all: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const settings: readonly string[] = [annotation.preview, annotation.ignoreChanges];
  return Object.fromEntries(Object.entries(all).filter(([name]) => settings.includes(name)));
}

/** Flux names the revision only here until the objects are built: "Fetching manifests for revision main@sha1:…". */
function commitNamedIn(message = ""): string | undefined {
  const [, revision] = / for revision (\S+)/.exec(message) ?? [];
  return commitOfRevision(revision);
}
