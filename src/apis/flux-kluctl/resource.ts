/** A KluctlDeployment of `flux.kluctl.io/v1alpha1`, the API of the controller that preceded kluctl's own. */
import { z } from "zod";
import type { Key } from "../../model.ts";

export const legacyApiVersion = "flux.kluctl.io/v1alpha1";
export const legacyPath = `/apis/${legacyApiVersion}`;
export const legacyFinalizer = "finalizers.flux.kluctl.io";
/** The field manager of the legacy controller. */
export const legacyFieldManager = "gotk-flux-kluctl-controller";

/** The annotations stay on the resource; the status records which of them have been handled. */
export const legacyAnnotation = {
  reconcile: "reconcile.fluxcd.io/requestedAt",
  deploy: "deploy.flux.kluctl.io/requestedAt",
} as const;

export type Fields = Readonly<Record<string, unknown>>;

const fields = z.record(z.string(), z.unknown()).catch({});
const texts = z.record(z.string(), z.string()).catch({});

const Resource = z.object({
  metadata: z.looseObject({
    name: z.string().min(1),
    namespace: z.string().min(1),
    uid: z.string().min(1),
    resourceVersion: z.string().catch(""),
    annotations: texts,
    labels: texts,
    finalizers: z.array(z.string()).catch([]),
    deletionTimestamp: z.string().optional().catch(undefined),
  }),
  spec: fields,
  status: fields,
});

export type LegacyResource = z.output<typeof Resource>;

/** Returns `undefined` only if the resource has no name or UID. */
export function parseLegacy(resource: unknown): LegacyResource | undefined {
  return Resource.safeParse(resource).data;
}

export function legacyKey({ metadata }: LegacyResource): Key {
  return { namespace: metadata.namespace, name: metadata.name };
}

export function legacyCollection(namespace: string | undefined): string {
  return namespace === undefined
    ? `${legacyPath}/kluctldeployments`
    : `${legacyPath}/namespaces/${encodeURIComponent(namespace)}/kluctldeployments`;
}
