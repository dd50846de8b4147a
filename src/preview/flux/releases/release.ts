/** Flux's HelmRelease, as far as a preview of its chart depends on its fields. Pure. */
import { hash } from "node:crypto";
import { posix } from "node:path";
import { z } from "zod";
import { field, type JsonObject, listOf } from "../../../kit/json.ts";
import { isNamespaceName, isObjectName } from "../../../kit/kubernetes-names.ts";
import { type Key, keyText } from "../../../model.ts";
import { isEncrypted } from "../ciphertext.ts";

/** A branch may write anything into its manifests, while names and kinds are part of reports, comments and log lines. */
const objectName = z.string().refine(isObjectName);
const namespaceName = z.string().refine(isNamespaceName);
const text = z.string().nullish().catch(undefined);
const flag = z.boolean().nullish().catch(undefined);
const kind = z.string().regex(/^[A-Za-z]{1,63}$/);
const dataKey = z.string().regex(/^[-._A-Za-z0-9]{1,253}$/);
const Reference = z.object({ kind, name: objectName, namespace: namespaceName.or(z.literal("")).nullish() });

const Resource = z.object({
  apiVersion: z.string().regex(/^helm\.toolkit\.fluxcd\.io\/v[a-z0-9]{1,20}$/),
  kind: z.literal("HelmRelease"),
  metadata: z.object({
    name: objectName,
    namespace: namespaceName,
    annotations: z.record(z.string(), z.string()).nullish().catch(undefined),
  }),
  spec: z.object({
    chart: z
      .object({
        spec: z.object({
          chart: z.string(),
          sourceRef: Reference,
          reconcileStrategy: text,
          valuesFiles: z.array(z.string()).nullish(),
        }),
      })
      .nullish(),
    chartRef: Reference.nullish(),
    suspend: flag,
    releaseName: text,
    targetNamespace: namespaceName.or(z.literal("")).nullish(),
    storageNamespace: namespaceName.or(z.literal("")).nullish(),
    kubeConfig: z.unknown().optional(),
    install: z.object({ crds: text }).nullish().catch(undefined),
    upgrade: z.object({ crds: text, preserveValues: flag }).nullish().catch(undefined),
    valuesFrom: z
      .array(
        z.object({
          kind,
          name: objectName,
          valuesKey: dataKey.or(z.literal("")).nullish(),
          targetPath: text,
          optional: flag,
        }),
      )
      .nullish(),
  }),
});

/** A ConfigMap or Secret with values. */
export interface ValuesReference {
  readonly kind: string;
  readonly name: string;
  readonly key: string;
  readonly optional: boolean;
}

export interface FluxRelease {
  /** As in messages: `HelmRelease shop/web`. */
  readonly name: string;
  readonly key: Key;
  readonly resource: JsonObject;
  readonly annotations: Readonly<Record<string, string>>;
  readonly suspended: boolean;
  /** The GitRepository with its chart. */
  readonly source?: Key | undefined;
  /** Where the chart is in it, from its root. */
  readonly chartPath: string;
  readonly valuesFiles: readonly string[];
  /** Whether Flux builds the chart for each commit, or only for each version that it names itself. */
  readonly followsRevision: boolean;
  readonly valuesFrom: readonly ValuesReference[];
  /** What Helm calls the release, and where its objects are. */
  readonly releaseName: string;
  readonly releaseNamespace: string;
  /** Where Helm stores what it released. */
  readonly storageNamespace: string;
  /** Whether definitions in the directory `crds` of its chart replace existing ones, in an install and in an upgrade. */
  readonly replacesDefinitions: { readonly install: boolean; readonly upgrade: boolean };
  /** Why previews do not render its chart. */
  readonly obstacle?: string | undefined;
}

export function releaseTitle(key: Key): string {
  return `HelmRelease ${keyText(key)}`;
}

/** Returns `undefined` if it is not a HelmRelease of Flux, or if Kubernetes would accept neither it nor its names. */
export function readRelease(resource: JsonObject): FluxRelease | undefined {
  const { data } = Resource.safeParse(resource);
  if (data === undefined) return undefined;
  const { metadata, spec } = data;
  const key = { namespace: metadata.namespace, name: metadata.name };
  const template = spec.chart?.spec;
  const reference = template?.sourceRef;
  const fromGit = reference?.kind === "GitRepository" && !spec.chartRef;
  return {
    ...{ name: releaseTitle(key), key, resource, annotations: metadata.annotations ?? {} },
    suspended: spec.suspend === true,
    source: fromGit ? { namespace: reference.namespace || key.namespace, name: reference.name } : undefined,
    chartPath: toPath(template?.chart ?? ""),
    valuesFiles: (template?.valuesFiles ?? []).map(toPath),
    followsRevision: template?.reconcileStrategy === "Revision",
    valuesFrom: (spec.valuesFrom ?? []).map(({ kind, name, valuesKey, optional }) => ({
      ...{ kind, name, key: valuesKey || "values.yaml", optional: optional === true },
    })),
    releaseName: shorten(spec.releaseName || [spec.targetNamespace, key.name].filter(Boolean).join("-")),
    releaseNamespace: spec.targetNamespace || key.namespace,
    storageNamespace: spec.storageNamespace || key.namespace,
    replacesDefinitions: {
      install: spec.install?.crds === "CreateReplace",
      upgrade: spec.upgrade?.crds === "CreateReplace",
    },
    obstacle: obstacleOf(data, resource, fromGit),
  };
}

/** As Flux joins it: never above the root. */
function toPath(path: string): string {
  return posix.normalize(`/${path}`).slice(1).replace(/\/$/, "");
}

const longestName = 53;

/** As helm-controller does with names that are too long for Helm. */
function shorten(name: string): string {
  return name.length <= longestName ? name : `${name.slice(0, 40)}-${hash("sha256", name).slice(0, 12)}`;
}

function obstacleOf(
  { apiVersion, spec }: z.infer<typeof Resource>,
  resource: JsonObject,
  fromGit: boolean,
): string | undefined {
  const reference = spec.chartRef ?? spec.chart?.spec.sourceRef;
  if (reference === undefined) return "it names none";
  if (!fromGit)
    return `it comes from the ${reference.kind} ${reference.name}, and previews only read charts that are files of the repository`;
  if (!apiVersion.endsWith("/v2"))
    return `previews read helm.toolkit.fluxcd.io/v2, and the HelmRelease is ${apiVersion}`;
  if (spec.kubeConfig !== undefined && spec.kubeConfig !== null)
    return "its objects are in a cluster that only a Secret names, and no Secret of Flux is read";
  if (spec.upgrade?.preserveValues === true)
    return "with preserveValues, it gets values of the previous release, which previews do not read";
  if (isEncrypted(resource)) return "its values are encrypted, and previews do not decrypt them";
  const whole = listOf(field(resource, "spec", "valuesFrom")).find(
    (one) => field(one, "kind") === "Secret" && !field(one, "targetPath"),
  );
  if (whole !== undefined)
    return `the Secret ${String(field(whole, "name"))} has values for it, no Secret of Flux is read, and without a targetPath it is not known which values these are`;
  return undefined;
}
