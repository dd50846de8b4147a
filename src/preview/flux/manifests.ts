/** Rendered and live objects, as Flux treats them. Pure. */
import { field, fieldsOf, isRecord, type JsonObject } from "../../kit/json.ts";
import { type Key, type ObjectRef, refId } from "../../model.ts";
import { ownerLabels } from "./kustomization.ts";

/** Returns `undefined` if it is not a Kubernetes object with a name. */
export function refOf(object: JsonObject): ObjectRef | undefined {
  const { apiVersion, kind } = object;
  const [name, namespace] = ["name", "namespace"].map((part) => field(object, "metadata", part));
  if (typeof apiVersion !== "string" || typeof kind !== "string" || typeof name !== "string") return undefined;
  const [version, group] = apiVersion.split("/").toReversed();
  return {
    ...(group && { group }),
    ...{ version, kind, name },
    ...(typeof namespace === "string" && namespace !== "" && { namespace }),
  };
}

/** Identifies the object in any version of its API; `undefined` if it is none with a name. */
export function idOf(object: JsonObject): string | undefined {
  const ref = refOf(object);
  return ref && refId(ref);
}

const prefix = "kustomize.toolkit.fluxcd.io/";

/** Whether Flux has this setting on one of the objects, as a label or an annotation. Case does not matter. */
function isSet(name: string, value: string, ...objects: readonly (JsonObject | undefined)[]): boolean {
  return objects.some((object) =>
    ["labels", "annotations"].some((kind) => {
      const found = field(object, "metadata", kind, `${prefix}${name}`);
      return typeof found === "string" && found.toLowerCase() === value;
    }),
  );
}

/** Whether Flux does not apply the object, so that it stays as it is. */
export function isLeftAlone(desired: JsonObject, live: JsonObject | undefined): boolean {
  const skips = isSet("reconcile", "disabled", desired, live) || isSet("ssa", "ignore", desired, live);
  return skips || (live !== undefined && isSet("ssa", "ifnotpresent", desired, live));
}

export function isReplaced(forces: boolean, desired: JsonObject, live: JsonObject | undefined): boolean {
  return live !== undefined && (forces || isSet("force", "enabled", desired, live));
}

/** Whether Flux deletes the live object when the Kustomization does not have it any more and prunes. */
export function isPruned(live: JsonObject, owner: { readonly name: string; readonly namespace: string }): boolean {
  const keeps =
    isSet("prune", "disabled", live) || isSet("reconcile", "disabled", live) || isSet("ssa", "ignore", live);
  const all = field(live, "metadata", "labels");
  return !keeps && field(all, ownerLabels.name) === owner.name && field(all, ownerLabels.namespace) === owner.namespace;
}

/** Whether the live object is what a Kustomization other than this one applied. */
export function isOfAnother(live: JsonObject | undefined, key: Key | undefined): boolean {
  const all = field(live, "metadata", "labels");
  const [name, namespace] = [field(all, ownerLabels.name), field(all, ownerLabels.namespace)];
  if (name === undefined && namespace === undefined) return false;
  return name !== key?.name || namespace !== key?.namespace;
}

/** Whether substitution does not change the object. */
export function isNotSubstituted(object: JsonObject): boolean {
  return isSet("substitute", "disabled", object);
}

/** Without what the API server alone writes, so that only what an apply changes is left. */
export function withoutServerFields(object: JsonObject): JsonObject {
  const { status: _, ...rest } = object;
  const metadata = Object.entries(fieldsOf(rest["metadata"])).filter(([name]) => !ofServer.has(name));
  return { ...rest, metadata: Object.fromEntries(metadata) };
}

const ofServer = new Set(["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"]);

/** As it is sent to be applied: the status belongs to others. */
export function toApply(object: JsonObject): JsonObject {
  const { status: _, ...rest } = object;
  return rest;
}

/** The kinds that the definitions among the objects add to a cluster: `group/kind`. */
export function definedKinds(objects: readonly JsonObject[]): ReadonlySet<string> {
  const definitions = objects.filter(({ kind }) => kind === "CustomResourceDefinition");
  return new Set(
    definitions.map((one) => `${String(field(one, "spec", "group"))}/${String(field(one, "spec", "names", "kind"))}`),
  );
}

export function namespacesAmong(objects: readonly JsonObject[]): ReadonlySet<string> {
  const namespaces = objects.filter(({ apiVersion, kind }) => apiVersion === "v1" && kind === "Namespace");
  return new Set(namespaces.map((one) => String(field(one, "metadata", "name"))));
}

export function isSecretObject({ apiVersion, kind }: JsonObject): boolean {
  return apiVersion === "v1" && kind === "Secret";
}

/** The values of a Secret in plain text: as it is rendered, also those of its `stringData` are encoded. None of other objects. */
export function decodedData(object: JsonObject): readonly string[] {
  if (!isSecretObject(object)) return [];
  const values = Object.values(fieldsOf(object["data"])).filter((value) => typeof value === "string");
  return values.map((value) => Buffer.from(value, "base64").toString("utf8"));
}

/** The value with each text in it replaced, keys too. */
export function mapTexts(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === "string") return map(value);
  if (Array.isArray(value)) return value.map((one) => mapTexts(one, map));
  if (!isRecord(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [map(key), mapTexts(one, map)]));
}

/** Whether one of the texts in the value, or of the keys, has the property. */
export function someText(value: unknown, has: (text: string) => boolean): boolean {
  if (typeof value === "string") return has(value);
  if (Array.isArray(value)) return value.some((one) => someText(one, has));
  return isRecord(value) && Object.entries(value).some(([key, one]) => has(key) || someText(one, has));
}
