/** Which Kustomizations a pull request concerns, from what the base and the merge render. Pure. */
import { isDeepStrictEqual } from "node:util";
import type { ChangedPaths } from "../../model.ts";
import { compareText } from "../../kit/compare-text.ts";
import type { Ignored } from "../../model/receipt.ts";
import type { KustomizationPair } from "./compare-kustomization.ts";
import type { FluxKustomization } from "./kustomization.ts";
import { isPruned } from "./manifests.ts";
import { ancestors, deepest, type RenderedKustomization, type RenderedTree } from "./render-tree.ts";

export interface PairedTrees {
  /** Sorted by name. */
  readonly concerned: readonly KustomizationPair[];
  readonly ignored: readonly Ignored[];
}

export function pairTrees(
  base: RenderedTree,
  merged: RenderedTree,
  known: ReadonlyMap<string, FluxKustomization>,
  changed: ChangedPaths,
): PairedTrees {
  const concerned: KustomizationPair[] = [];
  const ignored: Ignored[] = [];
  const names = [...new Set([...base.all.keys(), ...merged.all.keys()])].sort(compareText);
  const unshown = new Set(merged.unshown.map(({ deployment }) => deployment));
  for (const name of names) {
    if (unshown.has(name)) continue;
    const pair = { name, known: known.get(name), base: base.all.get(name), merged: merged.all.get(name) };
    const baseError = errorOf(pair.base) ?? (pair.base ? undefined : errorOfParent(pair.merged, base));
    const reason = reasonToIgnore(pair, { base, merged, known }, changed);
    if (reason !== undefined) ignored.push({ deployment: name, reason });
    else concerned.push({ ...pair, baseError, isRemoved: pair.merged === undefined });
  }
  return { concerned, ignored };
}

interface Trees {
  readonly base: RenderedTree;
  readonly merged: RenderedTree;
  readonly known: ReadonlyMap<string, FluxKustomization>;
}

function reasonToIgnore(
  { known, base, merged }: Pick<KustomizationPair, "known" | "base" | "merged">,
  trees: Trees,
  changed: ChangedPaths,
): string | undefined {
  if (merged === undefined) {
    const obstacle = base && obstacleAbove(base, trees);
    if (obstacle !== undefined) return obstacle;
    if (known === undefined) return "it is not in the cluster, and the merge removes it";
    return isDeleted(base, trees) ? undefined : "the merge removes it, and it stays in the cluster";
  }
  const isSame = base !== undefined && !hasOtherSpec(base, merged) && isSameRender(base, merged);
  return isSame && !isTouched([base, merged], changed) ? "the merge changes nothing that it renders" : undefined;
}

/** The files that were read may differ although the objects do not. */
function isSameRender(
  { rendered: before }: RenderedKustomization,
  { rendered: after }: RenderedKustomization,
): boolean {
  if ("error" in before || "error" in after) return isDeepStrictEqual(before, after);
  return isDeepStrictEqual(before.objects, after.objects);
}

function hasOtherSpec(base: RenderedKustomization, merged: RenderedKustomization): boolean {
  return !isDeepStrictEqual(base.kustomization.resource["spec"], merged.kustomization.resource["spec"]);
}

function isTouched(rendered: readonly (RenderedKustomization | undefined)[], changed: ChangedPaths): boolean {
  const paths = new Set(changed.paths);
  return rendered.some((one) => one && "files" in one.rendered && one.rendered.files.some((file) => paths.has(file)));
}

function errorOf(one: RenderedKustomization | undefined): string | undefined {
  return one !== undefined && "error" in one.rendered ? one.rendered.error : undefined;
}

function errorOfParent(one: RenderedKustomization | undefined, { all }: RenderedTree): string | undefined {
  return one?.parent === undefined ? undefined : errorOf(all.get(one.parent));
}

/** Why the merge may contain it all the same: what contains it, at any depth, is not rendered there. */
function obstacleAbove({ parent }: RenderedKustomization, { base, merged }: Trees): string | undefined {
  const unshown = new Set(merged.unshown.map(({ deployment }) => deployment));
  for (const name of ancestors(parent, base.all)) {
    if (errorOf(merged.all.get(name)) !== undefined) return "what contains it cannot be built";
    if (unshown.has(name)) return "what contains it is not compared";
  }
  return undefined;
}

/** Whether Flux deletes the Kustomization itself: what contains it prunes, or is deleted with its objects. */
function isDeleted(one: RenderedKustomization | undefined, trees: Trees, depth = 0): boolean {
  if (one?.parent === undefined || depth > deepest) return false;
  const { base, merged, known } = trees;
  const parent = base.all.get(one.parent)?.kustomization.key;
  const live = known.get(one.kustomization.name)?.resource;
  if (parent === undefined || live === undefined || !isPruned(live, parent)) return false;
  const now = merged.all.get(one.parent);
  if (now !== undefined) return now.kustomization.prunes;
  return known.get(one.parent)?.takesObjects === true && isDeleted(base.all.get(one.parent), trees, depth + 1);
}
