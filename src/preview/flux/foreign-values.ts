/** ConfigMaps in the cluster whose values previews do not show, because their owner may have made them of secrets. Pure. */
import { field, type JsonObject } from "../../kit/json.ts";
import { discriminatorLabel } from "../../model.ts";
import { type FluxKustomization, kustomizationName, ownerLabels } from "./kustomization.ts";
import { originLabels, releaseName } from "./releases/helm-objects.ts";

/** Whether all values that the named Kustomization applies are in the repository, in plain text. */
export type IsOpenOwner = (kustomization: string) => boolean;

/** `known`: those in the cluster that follow the base branch. */
export function openOwnersIn(known: ReadonlyMap<string, FluxKustomization>): IsOpenOwner {
  return (name) => {
    const owner = known.get(name);
    return owner !== undefined && !owner.decrypts && !owner.substituteFrom.some(({ kind }) => kind === "Secret");
  };
}

const releaseMarks = [originLabels.name, originLabels.namespace, discriminatorLabel] as const;

/** A branch can name each ConfigMap of its namespace. One without an owner was made by a person or a controller, to be read. */
export function hasForeignValues(live: JsonObject, isOpenOwner: IsOpenOwner): boolean {
  const labels = field(live, "metadata", "labels");
  if (releaseMarks.some((name) => field(labels, name) !== undefined)) return true;
  if (field(live, "metadata", "annotations", releaseName) !== undefined) return true;
  const [name, namespace] = [field(labels, ownerLabels.name), field(labels, ownerLabels.namespace)];
  if (name === undefined && namespace === undefined) return false;
  return !isOpenOwner(kustomizationName({ namespace: String(namespace), name: String(name) }));
}
