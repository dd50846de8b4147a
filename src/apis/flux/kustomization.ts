/** Flux's Kustomization, as far as it shows which commit was applied. */
import { z } from "zod";
import { commitOfRevision, type Condition, type FluxDeployment } from "../../model.ts";

const optionalText = z.string().nullish().catch(undefined);
const optionalCount = z.number().nullish().catch(undefined);

/** Parsed leniently: what cannot be read counts as absent. */
const Conditions = z
  .array(
    z
      .object({
        type: z.string(),
        status: z.enum(["True", "False", "Unknown"]),
        reason: z.string().catch(""),
        message: z.string().catch(""),
        lastTransitionTime: z.string().catch(""),
        observedGeneration: optionalCount,
      })
      .optional()
      .catch(undefined),
  )
  .nullish()
  .catch(undefined);

const Resource = z.object({
  metadata: z.object({
    name: z.string().min(1),
    namespace: z.string().min(1),
    uid: z.string().min(1),
    generation: z.number().catch(1),
  }),
  spec: z.object({
    sourceRef: z.object({ kind: z.string(), name: z.string().min(1), namespace: optionalText }),
    path: optionalText,
    suspend: z.boolean().nullish().catch(undefined),
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
  const { sourceRef } = spec;
  const conditions = (status?.conditions ?? []).flatMap((one): Condition[] =>
    one ? [{ ...one, observedGeneration: one.observedGeneration ?? undefined }] : [],
  );
  const conditionOf = (type: string) => conditions.find((one) => one.type === type);
  const ready = conditionOf("Ready");
  const applied = commitOfRevision(status?.lastAppliedRevision ?? undefined);
  return {
    ...{ kind: "Kustomization", key: { namespace, name }, uid, generation, ready, applied },
    source:
      sourceRef.kind === "GitRepository"
        ? { namespace: sourceRef.namespace || namespace, name: sourceRef.name }
        : undefined,
    path: spec.path ?? undefined,
    suspended: spec.suspend === true,
    observedGeneration: status?.observedGeneration ?? undefined,
    isStalled: conditionOf("Stalled")?.status === "True",
    attempting: commitNamedIn(conditionOf("Reconciling")?.message),
    attempted: commitOfRevision(status?.lastAttemptedRevision ?? undefined),
    appliedAt: timeOf(
      status?.history?.find(({ lastReconciledStatus }) => lastReconciledStatus === succeeded)?.firstReconciled,
    ),
  };
}

/** Flux names the revision only here until the objects are built: "Fetching manifests for revision main@sha1:…". */
function commitNamedIn(message = ""): string | undefined {
  const [, revision] = / for revision (\S+)/.exec(message) ?? [];
  return commitOfRevision(revision);
}

const succeeded = "ReconciliationSucceeded";

function timeOf(text = ""): number | undefined {
  return Date.parse(text) || undefined;
}
