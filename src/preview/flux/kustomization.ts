/** Flux's Kustomization, as far as a preview of it depends on its fields. */
import { z } from "zod";
import type { JsonObject } from "../../kit/json.ts";
import { isNamespaceName, isObjectName } from "../../kit/kubernetes-names.ts";
import { commitOfRevision, type Key, keyText, type ObjectRef } from "../../model.ts";

const optionalText = z.string().nullish().catch(undefined);
/** A branch may write anything into its manifests, while names are part of reports, comments and log lines. */
const objectName = z.string().refine(isObjectName);
const namespaceName = z.string().refine(isNamespaceName);
const flag = z.boolean().nullish().catch(undefined);
const labels = z.record(z.string(), z.string()).nullish().catch(undefined);

const Resource = z.object({
  apiVersion: z.string().regex(/^kustomize\.toolkit\.fluxcd\.io\//),
  kind: z.literal("Kustomization"),
  metadata: z.object({
    name: objectName,
    namespace: namespaceName,
    labels,
    annotations: labels,
    deletionTimestamp: optionalText,
  }),
  spec: z.object({
    sourceRef: z.object({ kind: z.string(), name: objectName, namespace: namespaceName.or(z.literal("")).nullish() }),
    prune: flag,
    force: flag,
    suspend: flag,
    deletionPolicy: optionalText,
    serviceAccountName: optionalText,
    kubeConfig: z.unknown().optional(),
    decryption: z.unknown().optional(),
    postBuild: z
      .object({
        substitute: z.record(z.string(), z.unknown()).nullish(),
        substituteFrom: z.array(z.object({ kind: z.string(), name: z.string(), optional: flag })).nullish(),
      })
      .nullish(),
  }),
  status: z
    .object({
      lastAppliedRevision: optionalText,
      inventory: z
        .object({ entries: z.array(z.object({ id: z.string(), v: z.string() })).nullish() })
        .nullish()
        .catch(undefined),
    })
    .nullish()
    .catch(undefined),
});

/** Where variables come from, in the order in which later ones win. */
export interface VariableSource {
  readonly kind: string;
  readonly name: string;
  readonly optional: boolean;
}

export interface FluxKustomization {
  /** As in messages: `Kustomization shop/prod`. */
  readonly name: string;
  readonly key: Key;
  /** As it was read or rendered. */
  readonly resource: JsonObject;
  /** The GitRepository; absent if its files come from elsewhere. */
  readonly source?: Key | undefined;
  /** The Kustomization that applies it, by its labels. */
  readonly owner?: string | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  readonly isDeleted: boolean;
  readonly prunes: boolean;
  readonly forces: boolean;
  readonly suspended: boolean;
  /** Whether its objects are deleted together with it. */
  readonly takesObjects: boolean;
  readonly serviceAccountName?: string | undefined;
  /** Whether its objects are in a cluster that only a Secret names. */
  readonly isRemote: boolean;
  readonly decrypts: boolean;
  readonly substitute: ReadonlySet<string>;
  readonly substituteFrom: readonly VariableSource[];
  /** The commit that was applied last, with success. */
  readonly applied?: string | undefined;
  /** What Flux has applied of it, by the status in the cluster. */
  readonly inventory: readonly InventoryEntry[];
}

export interface InventoryEntry {
  readonly ref: ObjectRef;
  readonly apiVersion: string;
}

/** The labels by which Flux marks what a Kustomization applies. */
export const ownerLabels = {
  name: "kustomize.toolkit.fluxcd.io/name",
  namespace: "kustomize.toolkit.fluxcd.io/namespace",
} as const;

export function kustomizationName(key: Key): string {
  return `Kustomization ${keyText(key)}`;
}

/** Returns `undefined` if it is not a Kustomization of Flux, or if Kubernetes would accept neither it nor its names. */
export function readKustomization(resource: JsonObject): FluxKustomization | undefined {
  const { data } = Resource.safeParse(resource);
  if (data === undefined) return undefined;
  const { metadata, spec, status } = data;
  const key = { namespace: metadata.namespace, name: metadata.name };
  const { kind, name: sourceName, namespace: sourceNamespace } = spec.sourceRef;
  const suspended = spec.suspend === true;
  const prunes = spec.prune === true;
  return {
    name: kustomizationName(key),
    key,
    resource,
    source: kind === "GitRepository" ? { namespace: sourceNamespace || key.namespace, name: sourceName } : undefined,
    owner: ownerOf(metadata.labels ?? {}),
    annotations: metadata.annotations ?? {},
    isDeleted: metadata.deletionTimestamp !== undefined && metadata.deletionTimestamp !== null,
    prunes,
    forces: spec.force === true,
    suspended,
    takesObjects: !suspended && takesObjects(spec.deletionPolicy ?? "MirrorPrune", prunes),
    serviceAccountName: spec.serviceAccountName || undefined,
    isRemote: spec.kubeConfig !== undefined && spec.kubeConfig !== null,
    decrypts: spec.decryption !== undefined && spec.decryption !== null,
    substitute: new Set(Object.keys(spec.postBuild?.substitute ?? {})),
    substituteFrom: (spec.postBuild?.substituteFrom ?? []).map(({ optional, ...from }) => ({
      ...from,
      optional: optional === true,
    })),
    applied: commitOfRevision(status?.lastAppliedRevision ?? undefined),
    inventory: (status?.inventory?.entries ?? []).flatMap((entry) => parseEntry(entry) ?? []),
  };
}

const Named = Resource.pick({ apiVersion: true, kind: true }).extend({
  metadata: z.object({ name: objectName, namespace: namespaceName }),
});

/** The name of a Kustomization of which nothing else may be readable. */
export function nameIfKustomization(resource: JsonObject): string | undefined {
  const { data } = Named.safeParse(resource);
  return data && kustomizationName(data.metadata);
}

function ownerOf(all: Readonly<Record<string, string>>): string | undefined {
  const [name, namespace] = [all[ownerLabels.name], all[ownerLabels.namespace]];
  return name && namespace ? kustomizationName({ namespace, name }) : undefined;
}

function takesObjects(policy: string, prunes: boolean): boolean {
  return policy === "MirrorPrune" ? prunes : policy === "Delete" || policy === "WaitForTermination";
}

/** `<namespace>_<name>_<group>_<kind>`; in the names of roles, `__` stands for a colon. */
function parseEntry({ id, v: version }: { readonly id: string; readonly v: string }): InventoryEntry | undefined {
  const [, namespace, name, group, kind] = /^([^_]*)_(.+)_([^_]*)_([^_]+)$/.exec(id) ?? [];
  if (name === undefined || kind === undefined) return undefined;
  const ref = {
    ...(group && { group }),
    ...{ version, kind, name: name.replaceAll("__", ":") },
    ...(namespace && { namespace }),
  };
  return { ref, apiVersion: group ? `${group}/${version}` : version };
}
