/** Rendered objects as Helm applies them, and live ones as it recognizes them. */
import { isDenied } from "../../../errors.ts";
import { field, fieldsOf, type JsonObject, listOf } from "../../../kit/json.ts";
import type { PreviewCluster } from "../../../ports/preview-cluster.ts";
import { ownerLabels } from "../kustomization.ts";
import type { FluxRelease } from "./release.ts";

const managedBy = "app.kubernetes.io/managed-by";
/** The annotation with the name of the release that an object belongs to. */
export const releaseName = "meta.helm.sh/release-name";
const releaseNamespace = "meta.helm.sh/release-namespace";
/** The labels that Flux gives to the objects of a HelmRelease. */
export const originLabels = {
  name: "helm.toolkit.fluxcd.io/name",
  namespace: "helm.toolkit.fluxcd.io/namespace",
} as const;

/**
 * Returns what adds to an object the namespace and the marks that Helm gives it. Whether a kind has namespaces is asked of the
 * cluster; of a kind that it does not know, the definitions among the objects say it. Throws ApiError.
 */
export async function toHelmObjects(
  release: Pick<FluxRelease, "releaseName" | "releaseNamespace">,
  objects: readonly JsonObject[],
  { cluster, signal }: { readonly cluster: Pick<PreviewCluster, "find">; readonly signal: AbortSignal },
): Promise<(object: JsonObject) => JsonObject> {
  const namespaced = new Map<string, boolean>();
  const definitions = objects.filter(({ kind }) => kind === "CustomResourceDefinition");
  const scopes = new Map(
    definitions.map((one) => [
      `${String(field(one, "spec", "group"))}/${String(field(one, "spec", "names", "kind"))}`,
      field(one, "spec", "scope"),
    ]),
  );
  for (const object of objects) {
    if (field(object, "metadata", "namespace") || namespaced.has(kindOf(object))) continue;
    const problem = await findProblem(object, cluster, signal);
    const isUnknown = problem === "unserved";
    const group = String(object["apiVersion"]).split("/").slice(0, -1).join("/");
    const scope = scopes.get(`${group}/${String(object["kind"])}`);
    const isNamespaced = isUnknown ? scope !== "Cluster" : problem === "unplaced";
    namespaced.set(kindOf(object), isNamespaced);
  }
  return (object) => {
    const metadata = fieldsOf(object["metadata"]);
    const place = !metadata["namespace"] && namespaced.get(kindOf(object)) === true;
    return {
      ...object,
      metadata: {
        ...metadata,
        ...(place && { namespace: release.releaseNamespace }),
        labels: { ...fieldsOf(metadata["labels"]), [managedBy]: "Helm" },
        annotations: {
          ...fieldsOf(metadata["annotations"]),
          [releaseName]: release.releaseName,
          [releaseNamespace]: release.releaseNamespace,
        },
      },
    };
  };
}

/** Whether the cluster knows where an object of this kind is. It does if it refuses to show it. */
async function findProblem(
  object: JsonObject,
  cluster: Pick<PreviewCluster, "find">,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const found = await cluster.find(object, signal);
    return "problem" in found ? found.problem : undefined;
  } catch (error) {
    if (isDenied(error)) return undefined;
    throw error;
  }
}

const kindOf = ({ apiVersion, kind }: JsonObject) => `${String(apiVersion)}/${String(kind)}`;

export const fieldManager = "helm-controller";

/** Whether Flux applied it on the server; an apply by the client owns no fields, and removes others. */
export function isServerApplied(live: JsonObject): boolean {
  return listOf(field(live, "metadata", "managedFields")).some(
    (one) => field(one, "manager") === fieldManager && field(one, "operation") === "Apply",
  );
}

/** Whose a live object is. */
export function ownershipOf({
  key,
  releaseName: name,
  releaseNamespace: namespace,
}: Pick<FluxRelease, "key" | "releaseName" | "releaseNamespace">) {
  const annotationsOf = (live: JsonObject) => field(live, "metadata", "annotations");
  const labelsOf = (live: JsonObject) => field(live, "metadata", "labels");
  const isOwn = (live: JsonObject) =>
    field(annotationsOf(live), releaseName) === name && field(annotationsOf(live), releaseNamespace) === namespace;
  return {
    isOwn,
    isKept: (live: JsonObject) => field(annotationsOf(live), "helm.sh/resource-policy") === "keep",
    /** Something else may have made it of secrets that are not known here. */
    isOfAnother(live: JsonObject): boolean {
      const all = labelsOf(live);
      const origin = [field(all, originLabels.name), field(all, originLabels.namespace)];
      const hasOrigin = origin.some((one) => one !== undefined);
      if (hasOrigin && (origin[0] !== key.name || origin[1] !== key.namespace)) return true;
      if (field(annotationsOf(live), releaseName) !== undefined && !isOwn(live)) return true;
      return field(all, ownerLabels.name) !== undefined || field(all, ownerLabels.namespace) !== undefined;
    },
  };
}
