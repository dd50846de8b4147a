/** Flux's GitRepository, as far as it decides which pushes affect it. */
import { z } from "zod";
import { annotation, commitOfRevision, type FluxSource, isSwitchedOff } from "../../model.ts";
import { repoId } from "../../model/repo-url.ts";

export const requestAnnotation = "reconcile.fluxcd.io/requestedAt";

const optionalText = z.string().nullish().catch(undefined);
const refFields = ["branch", "tag", "semver", "name", "commit"] as const;

const Resource = z.object({
  metadata: z.object({
    name: z.string().min(1),
    namespace: z.string().min(1),
    uid: z.string().min(1),
    generation: z.number().catch(1),
    annotations: z.record(z.string(), z.string()).nullish().catch(undefined),
  }),
  spec: z.object({
    url: z.string(),
    suspend: z.boolean().nullish().catch(undefined),
    ref: z
      .object(Object.fromEntries(refFields.map((name) => [name, optionalText])) as Record<string, typeof optionalText>)
      .nullish()
      .catch(undefined),
  }),
  status: z
    .object({
      artifact: z.object({ revision: z.string() }).nullish().catch(undefined),
      lastHandledReconcileAt: optionalText,
    })
    .nullish()
    .catch(undefined),
});

/** Returns `undefined` if it is not a GitRepository, or its URL is not that of a remote repository. */
export function parseFluxSource(resource: unknown): FluxSource | undefined {
  const { data } = Resource.safeParse(resource);
  const repo = data && repoId(data.spec.url);
  if (data === undefined || repo === undefined) return undefined;
  const { metadata, spec, status } = data;
  const { namespace, name, uid, generation } = metadata;
  const annotations = metadata.annotations ?? {};
  const requested = annotations[requestAnnotation];
  const ref = Object.fromEntries(refFields.map((field) => [field, spec.ref?.[field] || undefined]));
  return {
    ...{ key: { namespace, name }, uid, generation, repo, url: spec.url, ref },
    suspended: spec.suspend === true,
    webhooks: !isSwitchedOff({ annotations }, annotation.webhooks),
    commit: commitOfRevision(status?.artifact?.revision),
    lastRequest: requested,
    isRequested: requested !== undefined && requested !== status?.lastHandledReconcileAt,
  };
}
