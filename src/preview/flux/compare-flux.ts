/**
 * What merging a pull request would change in what Flux applies. The base and the merge are rendered by Flux's own code; what
 * differs is compared with the cluster. Reads from top to bottom.
 */
import type { Logger } from "../../log.ts";
import { keyText, type Merged } from "../../model.ts";
import type { Ignored } from "../../model/receipt.ts";
import type { Preview } from "../../model/report.ts";
import type { FluxDeployments, FluxRenderer, FluxSources, PreviewClusters } from "../../ports.ts";
import type { CompareDeps } from "../compare.ts";
import { type FluxCandidates, readCandidates, type ReadCandidates } from "./candidates.ts";
import { redactVisibly } from "../visible-text.ts";
import { createClusterPool } from "./clusters.ts";
import {
  compareKustomization,
  type FluxComparing,
  type KustomizationPair,
  toFailedFlux,
  toWorkingFlux,
} from "./compare-kustomization.ts";
import { openOwnersIn } from "./foreign-values.ts";
import type { FluxKustomization } from "./kustomization.ts";
import { pairTrees } from "./pair-trees.ts";
import { createObjectBudget } from "./compare-objects.ts";
import { createPlaceholders } from "./placeholders.ts";
import { ancestors, type RenderedTree, renderTree, type TreeInput } from "./render-tree.ts";
import { readRenderedObjects } from "./rendered-objects.ts";
import { isPruned } from "./manifests.ts";
import { compareRelease, toFailedRelease, toWorkingRelease } from "./releases/compare-release.ts";
import { type RenderedPair, renderReleases, type ReleasesInput } from "./releases/render-releases.ts";

export interface FluxPreviewsDeps {
  readonly sources: Pick<FluxSources, "following" | "find" | "resource">;
  readonly deployments: Pick<FluxDeployments, "all" | "kustomization">;
  /** Whether some of these resources may not be known yet. */
  readonly isLoading: () => boolean;
  readonly renderer: FluxRenderer;
  readonly clusters: PreviewClusters;
}

export interface FluxInput {
  readonly candidates: FluxCandidates;
  readonly merge: Merged;
  readonly clusterName: string;
  /** Called as soon as it is known which Kustomizations are compared, and with each result. */
  readonly onPreviews: (previews: readonly Preview[]) => void;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

export interface FluxFindings {
  readonly previews: readonly Preview[];
  readonly ignored: readonly Ignored[];
  readonly unshown: readonly Ignored[];
  /** How many previews failed that a retry may fix. */
  readonly unsure: number;
  readonly mendable: boolean;
}

type Deps = Pick<CompareDeps, "limit" | "party" | "settings"> & { readonly flux: FluxPreviewsDeps };

/** Each has a part of the comment; the others are only named. */
const mostTooMuch = 10;

/** Rejects if nothing can be read or rendered. */
export async function compareFlux(input: FluxInput, deps: Deps): Promise<FluxFindings> {
  const { candidates, merge, log, signal } = input;
  const { flux, settings } = deps;
  const read = await readCandidates(candidates, flux, signal);
  const known = new Map(read.kustomizations.map((one) => [one.name, one]));
  const pool = createClusterPool(flux.clusters, known, { account: settings.serviceAccount, party: deps.party });
  const placeholders = createPlaceholders();
  try {
    const shared = {
      sources: read.sources,
      isSourceKnown: (key: FluxKustomization["key"]) => flux.sources.find(key) !== undefined,
      isOpenOwner: openOwnersIn(known),
      ...{ renderer: flux.renderer, cluster: pool.of, placeholders, limit: deps.limit, signal },
    };
    const [before, after] = await Promise.all([merge.project("", signal, merge.base), merge.project("", signal)]);
    const roots = { base: before.projectDir, merged: after.projectDir };
    const [base, merged] = await renderBoth(read, roots, shared);
    const { concerned, ignored } = pairTrees(base, merged, known, merge.changed);
    const trees = { base, merged };
    const clusterOf = (name: string) => {
      const { all } = merged.all.has(name) ? merged : base;
      return pool.of({ name }, ancestors(all.get(name)?.parent, all));
    };
    const releases = await renderReleases({ ...shared, trees, roots, changed: merge.changed, cluster: clusterOf });
    const comparing: FluxComparing = {
      ...{ trees, objects: readRenderedObjects(base, merged), budget: createObjectBudget() },
      whyUnrendered: releases.whyUnrendered,
      ...{ base: merge.base, clusterName: input.clusterName, placeholders, log, signal },
      cluster: (pair) => pool.of(pair, parentsOf(pair, { base, merged })),
      isSourceSuspended: ({ source }) => source !== undefined && read.sources.get(keyText(source))?.suspended === true,
      // With one that exists already, Flux deals by itself.
      isParentSuspended: (pair) =>
        (pair.known === undefined || pair.merged === undefined) &&
        parentsOf(pair, { base, merged }).some((name) => known.get(name)?.suspended),
      serverSecrets: settings.serverSecrets ?? [],
    };
    const comparingReleases = { ...comparing, cluster: clusterOf, known: (name: string) => known.get(name) };
    const pairs = releases.pairs.filter(
      (pair) => pair.merged !== undefined || isUninstalled(pair, trees, known, concerned),
    );
    const tasks = [
      ...concerned.map((pair) => ({
        preview: toWorkingFlux(pair, comparing),
        compare: () => compareKustomization(pair, comparing),
      })),
      ...pairs.map((pair) => ({
        preview: toWorkingRelease(pair, comparing),
        compare: () => compareRelease(pair, comparingReleases),
      })),
    ];
    const previews = tasks.map(({ preview }) => preview);
    input.onPreviews(previews);
    const results = await Promise.all(
      tasks.map(async ({ compare }, at) => {
        const result = await compare();
        previews[at] = result.preview;
        return result;
      }),
    );
    const failedReleases = await Promise.all(
      releases.failed.map(({ pair, failure }) => toFailedRelease(pair, failure, comparingReleases)),
    );
    const { failed, unshown } = sortUnshown({ base, merged }, input.clusterName);
    return {
      previews: [...previews, ...failed, ...failedReleases],
      ignored: [...read.ignored, ...ignored, ...releases.ignored],
      unshown: [...read.unshown, ...(await redactReasons([...unshown, ...releases.unshown], comparing))],
      unsure: results.filter(({ retry }) => retry === "soon").length,
      mendable: base.mendable || merged.mendable || releases.mendable || results.some(({ mendable }) => mendable),
    };
  } finally {
    await pool.close();
    log.info({ kustomizations: known.size, requests: pool.requests() }, "Kustomizations compared");
  }
}

/** Whether Flux uninstalls a release that the merge does not contain any more: it deletes the HelmRelease, which is not suspended. */
function isUninstalled(
  { base, live }: RenderedPair,
  trees: FluxComparing["trees"],
  known: ReadonlyMap<string, FluxKustomization>,
  concerned: readonly KustomizationPair[],
): boolean {
  const parent = base && trees.base.all.get(base.parent)?.kustomization;
  if (parent === undefined || live.resource === undefined || live.suspended) return false;
  if (!isPruned(live.resource, parent.key)) return false;
  const now = trees.merged.all.get(parent.name);
  if (now !== undefined) return !("error" in now.rendered) && now.kustomization.prunes;
  const isRemoved = concerned.some((pair) => pair.name === parent.name && pair.isRemoved === true);
  return isRemoved && known.get(parent.name)?.takesObjects === true;
}

/**
 * From those that no other one contains. The others are found on the way; what is not, because nothing contains it any more,
 * is taken from the cluster.
 */
async function renderBoth(
  { kustomizations }: Pick<ReadCandidates, "kustomizations">,
  checkouts: ReleasesInput["roots"],
  shared: Omit<TreeInput, "root" | "roots">,
): Promise<readonly [RenderedTree, RenderedTree]> {
  const names = new Set(kustomizations.map(({ name }) => name));
  const isRoot = ({ name, owner }: FluxKustomization) => owner === undefined || owner === name || !names.has(owner);
  const renderFrom = (roots: readonly FluxKustomization[]) =>
    Promise.all([
      renderTree({ ...shared, root: checkouts.base, roots }),
      renderTree({ ...shared, root: checkouts.merged, roots }),
    ]);
  const [base, merged] = await renderFrom(kustomizations.filter(isRoot));
  const isFound = ({ name }: FluxKustomization) => base.all.has(name) || merged.all.has(name);
  const others = kustomizations.filter((one) => !isFound(one));
  if (others.length === 0) return [base, withMoved(base, merged, names)];
  const [moreBase, moreMerged] = await renderFrom(others);
  const whole = join(base, moreBase);
  return [whole, withMoved(whole, join(merged, moreMerged), names)];
}

/** Those that the merge takes away from the repository, but not from the cluster, are not removed. */
function withMoved(base: RenderedTree, merged: RenderedTree, names: ReadonlySet<string>): RenderedTree {
  const isMoved = (name: string) => names.has(name) && !base.elsewhere.has(name) && !merged.all.has(name);
  const moved = [...merged.elsewhere].filter(([name]) => isMoved(name));
  return { ...merged, unshown: [...merged.unshown, ...moved.map(([deployment, reason]) => ({ deployment, reason }))] };
}

function join(one: RenderedTree, other: RenderedTree): RenderedTree {
  return {
    all: new Map([...other.all, ...one.all]),
    withSecrets: new Set([...one.withSecrets, ...other.withSecrets]),
    unshown: [...one.unshown, ...other.unshown],
    tooMuch: [...one.tooMuch, ...other.tooMuch],
    elsewhere: new Map([...other.elsewhere, ...one.elsewhere]),
    mendable: one.mendable || other.mendable,
  };
}

/** What the merge has too much of is a failure: otherwise a pull request could hide a change behind many others. */
function sortUnshown({ base, merged }: FluxComparing["trees"], clusterName: string) {
  const all = distinct([...base.unshown, ...merged.unshown]);
  const reasons = new Map(all.map(({ deployment, reason }) => [deployment, reason]));
  const tooMuch = [...new Map(merged.tooMuch.map((one) => [one.name, one])).values()].slice(0, mostTooMuch);
  const names = new Set(tooMuch.map(({ name }) => name));
  return {
    failed: tooMuch.map((one) => toFailedFlux(one, clusterName, `Not compared: ${reasons.get(one.name) ?? ""}.`)),
    unshown: all.filter(({ deployment }) => !names.has(deployment)),
  };
}

function parentsOf({ name, merged }: KustomizationPair, trees: FluxComparing["trees"]): readonly string[] {
  const { all } = merged === undefined ? trees.base : trees.merged;
  return ancestors(all.get(name)?.parent, all);
}

/** They may quote the API server. */
function redactReasons(
  all: readonly Ignored[],
  { serverSecrets }: Pick<FluxComparing, "serverSecrets">,
): Promise<readonly Ignored[]> {
  return Promise.all(all.map(async (one) => ({ ...one, reason: await redactVisibly(one.reason, serverSecrets) })));
}

function distinct(all: readonly Ignored[]): readonly Ignored[] {
  return [...new Map(all.map((one) => [one.deployment, one])).values()];
}
