/** The HelmReleases that the base and the merge render. Pure. */
import { isDeepStrictEqual } from "node:util";
import type { JsonObject } from "../../../kit/json.ts";
import { compareText } from "../../../kit/compare-text.ts";
import { isEncrypted } from "../ciphertext.ts";
import { idOf } from "../manifests.ts";
import type { Placeholders } from "../placeholders.ts";
import type { RenderedTree } from "../render-tree.ts";
import { type FluxRelease, readRelease } from "./release.ts";

/** A HelmRelease in one of the two commits. */
export interface PlacedRelease {
  readonly release: FluxRelease;
  /** The name of the Kustomization that contains it. */
  readonly parent: string;
  /** Whether it has values that are secret and not known here. */
  readonly isSecret: boolean;
}

export interface ReleasePair {
  readonly name: string;
  readonly base?: PlacedRelease | undefined;
  readonly merged?: PlacedRelease | undefined;
}

/** Sorted by name. */
export function pairReleases(
  base: RenderedTree,
  merged: RenderedTree,
  placeholders: Pick<Placeholders, "isIn">,
): readonly ReleasePair[] {
  const [before, after] = [releasesIn(base, placeholders), releasesIn(merged, placeholders)];
  const names = [...new Set([...before.keys(), ...after.keys()])].sort(compareText);
  return names.map((name) => ({ name, base: before.get(name), merged: after.get(name) }));
}

function releasesIn(tree: RenderedTree, placeholders: Pick<Placeholders, "isIn">): ReadonlyMap<string, PlacedRelease> {
  const found = new Map<string, PlacedRelease>();
  for (const [parent, { rendered }] of tree.all) {
    if ("error" in rendered) continue;
    for (const object of rendered.objects) {
      if (object["kind"] !== "HelmRelease") continue;
      const release = readRelease(object);
      if (release === undefined || found.has(release.name)) continue;
      const isSecret = placeholders.isIn(object) || tree.withSecrets.has(idOf(object) ?? "");
      found.set(release.name, { release, parent, isSecret });
    }
  }
  return found;
}

export function hasOtherSpec({ base, merged }: ReleasePair): boolean {
  return !isDeepStrictEqual(base?.release.resource["spec"], merged?.release.resource["spec"]);
}

/** A ConfigMap that one of the commits renders. */
export interface RenderedConfigMap {
  readonly object: JsonObject;
  /** Whether it has values that are secret and not known here. */
  readonly isSecret: boolean;
  readonly isEncrypted: boolean;
}

/** By `namespace/name`. */
export type RenderedConfigMaps = ReadonlyMap<string, RenderedConfigMap>;

export function configMapsIn(tree: RenderedTree): RenderedConfigMaps {
  const found = new Map<string, RenderedConfigMap>();
  for (const { rendered } of tree.all.values()) {
    if ("error" in rendered) continue;
    for (const object of rendered.objects) {
      if (object["kind"] !== "ConfigMap" || object["apiVersion"] !== "v1") continue;
      const { namespace = "", name = "" } = object["metadata"] as { namespace?: string; name?: string };
      const isSecret = tree.withSecrets.has(idOf(object) ?? "");
      found.set(`${namespace}/${name}`, { object, isSecret, isEncrypted: isEncrypted(object) });
    }
  }
  return found;
}
