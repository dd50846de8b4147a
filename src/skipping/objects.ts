/** The versions of a deployment's objects in kluctl's result, and whether they have changed since. Pure. */
import { groupOfVersion } from "../model/object-kind.ts";
import {
  type AppliedKind,
  compareVersions,
  discriminatorLabel,
  isOlder,
  objectId,
  type ObjectMetadata,
  type ObjectVersion,
  type ResultObject,
  versionOf,
} from "../model.ts";

export interface SeenObjects {
  readonly versions: ReadonlyMap<string, ObjectVersion>;
  readonly kinds: readonly AppliedKind[];
  /** Why they may not be all of the deployment's objects in the cluster, if so. */
  readonly reason?: string | undefined;
  /** Hooks come and go: an unknown object with the deployment's discriminator is then not treated as a change. */
  readonly hooks: boolean;
  /** One of the objects makes a deploy wait until it is ready. */
  readonly waits: boolean;
}

interface Kept {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata?: ObjectMetadata;
}

const hookAnnotations = ["kluctl.io/hook", "helm.sh/hook"];
const waitAnnotation = "kluctl.io/wait-readiness";

/** The versions at kluctl's comparison or, if `applied`, after its deploy. */
export function seenObjects(
  objects: readonly ResultObject[],
  discriminator: string,
  { applied }: { applied: boolean },
): SeenObjects {
  const versions = new Map<string, ObjectVersion>();
  const kinds = new Map<string, AppliedKind & { namespaces: string[] }>();
  let reason: string | undefined;
  let hooks = false;
  let waits = false;
  for (const object of objects) {
    if (object.deleted) continue;
    // The result of a dry run for a differing object does not exist in the cluster.
    const json = applied ? (object.applied ?? object.remote) : object.remote;
    const { apiVersion = "", kind = "", metadata = {} } = json === undefined ? {} : (JSON.parse(json) as Kept);
    const group = groupOfVersion(apiVersion);
    const version = versionOf(group, kind, metadata);
    const name = `${object.ref.kind} ${object.ref.name}`;
    const { annotations } = metadataOf(object.rendered);
    const isHook = object.hook || hookAnnotations.some((name) => annotations?.[name]);
    hooks ||= isHook;
    waits ||= annotations?.[waitAnnotation] !== undefined;
    if (version === undefined) reason ??= `${name} is not in the cluster`;
    else if (metadata.labels?.[discriminatorLabel] !== discriminator)
      reason ??= `${name} lacks the label of its deployment`;
    else if (isHook) reason ??= `${name} is a hook`;
    if (version === undefined || metadata.labels?.[discriminatorLabel] !== discriminator) continue;
    versions.set(objectId(group, kind, metadata), version);
    const known = kinds.get(`${apiVersion} ${kind}`) ?? { group, apiVersion, kind, namespaces: [] };
    const namespace = metadata.namespace ?? "";
    if (!known.namespaces.includes(namespace)) known.namespaces.push(namespace);
    kinds.set(`${apiVersion} ${kind}`, known);
  }
  return { versions, kinds: [...kinds.values()], reason, hooks, waits };
}

function metadataOf(json: string | undefined): ObjectMetadata {
  return json === undefined ? {} : ((JSON.parse(json) as Kept).metadata ?? {});
}

export type Difference =
  | { readonly kind: "same" }
  /** Nothing but what controllers write to a status. */
  | { readonly kind: "status"; readonly id: string }
  | { readonly kind: "changed" | "missing" | "new"; readonly id: string };

/** The most significant difference between the recorded and the current objects. */
export function compareObjects(
  seen: ReadonlyMap<string, ObjectVersion>,
  now: ReadonlyMap<string, ObjectVersion>,
): Difference {
  let found: Difference = { kind: "same" };
  for (const [id, version] of seen) {
    const current = now.get(id);
    if (current === undefined) return { kind: "missing", id };
    const difference = compareVersions(version, current);
    if (difference === "changed") return { kind: "changed", id };
    if (difference === "status") found = { kind: "status", id };
  }
  for (const id of now.keys()) if (!seen.has(id)) return { kind: "new", id };
  return found;
}

/**
 * The objects changed by others, by id. The watches' state (`now`) may not include the last deploy yet. `deleted`: the
 * objects that the watches saw being deleted.
 */
export function findDrifted(
  seen: ReadonlyMap<string, ObjectVersion>,
  now: ReadonlyMap<string, ObjectVersion>,
  deleted: ReadonlySet<string>,
): Map<string, string> {
  const drifted = new Map<string, string>();
  for (const [id, version] of seen) {
    const current = now.get(id);
    if (current === undefined) {
      if (deleted.has(id)) drifted.set(id, "gone");
    } else if (compareVersions(version, current) === "changed" && !isOlder(current, version)) {
      drifted.set(id, current.resourceVersion);
    }
  }
  for (const [id, { resourceVersion }] of now) if (!seen.has(id)) drifted.set(id, resourceVersion);
  return drifted;
}
