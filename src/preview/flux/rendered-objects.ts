/** What the whole tree of Kustomizations renders, looked up for each of them: read once, because it may be large. Pure. */
import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "../../kit/json.ts";
import { keyText, type ObjectRef } from "../../model.ts";
import type { FluxRendered } from "../../ports/flux-renderer.ts";
import { definedKinds, idOf, namespacesAmong, refOf } from "./manifests.ts";
import type { RenderedTree } from "./render-tree.ts";

export interface RenderedObjects {
  /** Whether another Kustomization of the merge than the named one has an object. */
  isElsewhere(id: string, name: string): boolean;
  /** `group/kind` of the definitions that the merge renders. */
  readonly defined: ReadonlySet<string>;
  /** The namespaces that the merge renders. */
  readonly namespaces: ReadonlySet<string>;
  /** The ConfigMaps that differ, as `namespace/name`. */
  readonly changedConfigMaps: ReadonlySet<string>;
}

export function readRenderedObjects(base: RenderedTree, merged: RenderedTree): RenderedObjects {
  const owners = new Map<string, string[]>();
  for (const [name, one] of merged.all) {
    for (const object of objectsIn(one.rendered)) {
      const id = idOf(object);
      if (id === undefined) continue;
      const known = owners.get(id);
      if (known === undefined) owners.set(id, [name]);
      else known.push(name);
    }
  }
  const rendered = allObjects(merged);
  return {
    isElsewhere: (id, name) => owners.get(id)?.some((owner) => owner !== name) === true,
    defined: definedKinds(rendered),
    namespaces: namespacesAmong(rendered),
    changedConfigMaps: changedConfigMaps(allObjects(base), rendered),
  };
}

function allObjects({ all }: RenderedTree): readonly JsonObject[] {
  return [...all.values()].flatMap(({ rendered }) => objectsIn(rendered));
}

function objectsIn(rendered: FluxRendered): readonly JsonObject[] {
  return "error" in rendered ? [] : rendered.objects;
}

function changedConfigMaps(base: readonly JsonObject[], merged: readonly JsonObject[]): ReadonlySet<string> {
  const [before, after] = [configMapsAmong(base), configMapsAmong(merged)];
  const names = new Set([...before.keys(), ...after.keys()]);
  return new Set([...names].filter((name) => !isDeepStrictEqual(before.get(name), after.get(name))));
}

function configMapsAmong(objects: readonly JsonObject[]): ReadonlyMap<string, JsonObject> {
  const isConfigMap = ({ kind, group }: ObjectRef) => kind === "ConfigMap" && group === undefined;
  return new Map(
    objects.flatMap((object) => {
      const ref = refOf(object);
      if (ref === undefined || !isConfigMap(ref)) return [];
      return [[keyText({ namespace: ref.namespace ?? "", name: ref.name }), object] as const];
    }),
  );
}
