/**
 * Renders the charts of the HelmReleases that a pull request changes, before and after: those with another spec or other
 * values, and those whose chart in the repository has changed files. Reads from top to bottom.
 */
import { isDeepStrictEqual } from "node:util";
import { FluxRenderError, isDenied, KilledError, PreviewRefusedError } from "../../../errors.ts";
import { field, type JsonObject } from "../../../kit/json.ts";
import { annotation, type ChangedPaths, isSwitchedOff, keyText } from "../../../model.ts";
import type { Ignored } from "../../../model/receipt.ts";
import type { FailedRelease, FluxRenderer, RenderedRelease, ReleaseToRender } from "../../../ports/flux-renderer.ts";
import type { ClusterCapabilities, PreviewCluster } from "../../../ports/preview-cluster.ts";
import type { IsOpenOwner } from "../foreign-values.ts";
import type { Placeholders } from "../placeholders.ts";
import type { RenderedTree } from "../render-tree.ts";
import { type LiveRelease, readLiveRelease } from "./live-release.ts";
import {
  configMapsIn,
  hasOtherSpec,
  pairReleases,
  type PlacedRelease,
  type RenderedConfigMaps,
  type ReleasePair,
} from "./pair-releases.ts";
import { type ReadValues, readValues } from "./values.ts";

export interface ReleasesInput {
  readonly trees: { readonly base: RenderedTree; readonly merged: RenderedTree };
  /** The checkouts of both commits. */
  readonly roots: { readonly base: string; readonly merged: string };
  readonly changed: ChangedPaths;
  /** The GitRepositories that the pull request concerns, by name: the `spec.ignore` of each. */
  readonly sources: ReadonlyMap<string, { readonly ignore: string | undefined }>;
  readonly renderer: Pick<FluxRenderer, "renderReleases">;
  /** The cluster as the account of previews sees it for a Kustomization of the tree. */
  readonly cluster: (kustomization: string) => Promise<PreviewCluster>;
  readonly isOpenOwner: IsOpenOwner;
  readonly placeholders: Placeholders;
  /** See CompareDeps. */
  readonly limit: <T>(work: () => Promise<T>, options: { signal: AbortSignal }) => Promise<T>;
  readonly signal: AbortSignal;
}

export interface RenderedPair extends ReleasePair {
  readonly before?: RenderedRelease | undefined;
  /** What Flux would release after the merge, once it has built the chart again. */
  readonly after?: RenderedRelease | undefined;
  /** Both once more: what differs from the first time is random. */
  readonly again?: { readonly before: RenderedRelease | undefined; readonly after: RenderedRelease | undefined };
  readonly live: LiveRelease;
  /** Whether values are part of it that are secret and not known here. */
  readonly hasSecrets: boolean;
  /** Files of its chart change, but Flux does not build it again: its version stays the same. */
  readonly isChartKept: boolean;
  /** Whether a ConfigMap with values for it is rendered differently. */
  readonly haveValuesChanged: boolean;
}

export interface RenderedReleases {
  readonly pairs: readonly RenderedPair[];
  /** Why the chart of one that the merge changes is not rendered; `undefined`: it is among the pairs, or failed. */
  readonly whyUnrendered: (name: string) => string | undefined;
  /** Those whose chart or values the merge changes, and nothing else. */
  readonly unshown: readonly Ignored[];
  readonly ignored: readonly Ignored[];
  /** Those that cannot be rendered at all, with the reason. */
  readonly failed: readonly { readonly pair: ReleasePair; readonly failure: string }[];
  /** Whether an operator may change that: the cluster refuses what has to be read. */
  readonly mendable: boolean;
}

/** Of one pull request; the others are failures, so that no change hides behind many others. */
const mostReleases = 100;

/** Rejects if the cluster does not answer, or the signal aborts. */
export async function renderReleases(input: ReleasesInput): Promise<RenderedReleases> {
  const { base, merged } = input.trees;
  const maps = { base: configMapsIn(base), merged: configMapsIn(merged) };
  const all = pairReleases(base, merged, input.placeholders);
  const { concerned, ...known } = await findConcerned(all, maps, input);
  const unrendered = new Map(known.unrendered);
  const unshown = [...known.unshown];
  let mendable = false;
  const prepared = await Promise.all(
    concerned.slice(0, mostReleases).map(async (one): Promise<Prepared | undefined> => {
      const made = await prepare(one.pair, maps, input);
      if ("obstacle" in made) {
        if (one.isSpecChanged) unrendered.set(one.pair.name, made.obstacle);
        else unshown.push({ deployment: one.pair.name, reason: `its chart is not rendered: ${made.obstacle}` });
        if (made.mendable) mendable = true;
        return undefined;
      }
      return { ...made, isTouched: one.isTouched };
    }),
  );
  const ready = prepared.filter((one) => one !== undefined);
  const shown = new Set(concerned.map(({ pair }) => pair.name).filter((name) => !unrendered.has(name)));
  const whyUnrendered = (name: string) =>
    shown.has(name) ? undefined : (unrendered.get(name) ?? "the HelmRelease cannot be read");
  const found = { whyUnrendered, unshown, ignored: known.ignored, mendable };
  const failed = concerned.slice(mostReleases).map(({ pair }) => ({ pair, failure: tooMany }));
  return { ...found, pairs: await renderAll(ready, input), failed };
}

const tooMany = `Not compared: the pull request changes more than ${mostReleases} HelmReleases.`;

const switchedOff = "previews are disabled by annotation";

interface Concerned {
  readonly pair: ReleasePair;
  readonly isSpecChanged: boolean;
  /** Whether files of its chart change. */
  readonly isTouched: boolean;
}

interface Maps {
  readonly base: RenderedConfigMaps;
  readonly merged: RenderedConfigMaps;
}

async function findConcerned(all: readonly ReleasePair[], maps: Maps, input: ReleasesInput) {
  const unrendered = new Map<string, string>();
  const [unshown, ignored]: [Ignored[], Ignored[]] = [[], []];
  const local: { readonly pair: ReleasePair; readonly isSpecChanged: boolean }[] = [];
  for (const pair of all) {
    const isSpecChanged = hasOtherSpec(pair);
    const obstacle = obstacleOf(pair, input);
    if (obstacle === undefined) local.push({ pair, isSpecChanged });
    else if (isSpecChanged) unrendered.set(pair.name, obstacle);
    // Its own files may change all the same.
    else if (isOfSources(pair, input)) local.push({ pair, isSpecChanged });
    else if (haveValuesChanged(pair, maps))
      unshown.push({ deployment: pair.name, reason: `its values change, and its chart is not rendered: ${obstacle}` });
  }
  const touched = await findTouched(
    local.map(({ pair }) => pair),
    input,
  );
  const concerned = local.flatMap(({ pair, isSpecChanged }): Concerned[] => {
    const isTouched = touched.has(pair.name);
    if (!isSpecChanged && !isTouched && !haveValuesChanged(pair, maps)) return [];
    const obstacle = obstacleOf(pair, input);
    const { annotations } = (pair.merged ?? pair.base)?.release ?? { annotations: {} };
    if (isSwitchedOff({ annotations }, annotation.preview)) {
      unrendered.set(pair.name, switchedOff);
      ignored.push({ deployment: pair.name, reason: switchedOff });
    } else if (obstacle !== undefined)
      unshown.push({ deployment: pair.name, reason: `its chart is not rendered: ${obstacle}` });
    else return [{ pair, isSpecChanged, isTouched }];
    return [];
  });
  return { concerned, unrendered, unshown, ignored };
}

function sidesOf({ base, merged }: ReleasePair): readonly PlacedRelease[] {
  return [merged, base].filter((one) => one !== undefined);
}

function isOfSources(pair: ReleasePair, { sources }: ReleasesInput): boolean {
  return sidesOf(pair).some(({ release: { source } }) => source !== undefined && sources.has(keyText(source)));
}

/** Why the chart of one of the two commits is not rendered. */
function obstacleOf(pair: ReleasePair, { sources }: ReleasesInput): string | undefined {
  for (const { release } of sidesOf(pair)) {
    const { obstacle, source } = release;
    if (obstacle !== undefined) return obstacle;
    if (source === undefined || !sources.has(keyText(source)))
      return `it comes from the GitRepository ${source ? keyText(source) : ""}, which does not follow the base branch of this repository`;
  }
  return undefined;
}

/** Whether a ConfigMap with values for it is rendered differently. */
function haveValuesChanged({ merged, base }: ReleasePair, maps: Maps): boolean {
  const { key, valuesFrom } = (merged ?? base)?.release ?? { key: undefined, valuesFrom: [] };
  return valuesFrom.some(({ kind, name }) => {
    if (kind !== "ConfigMap" || key === undefined) return false;
    const at = keyText({ namespace: key.namespace, name });
    return !isDeepStrictEqual(field(maps.base.get(at)?.object, "data"), field(maps.merged.get(at)?.object, "data"));
  });
}

/** Those whose charts have files that the merge changes. Charts may have dependencies elsewhere in the repository. */
async function findTouched(pairs: readonly ReleasePair[], input: ReleasesInput): Promise<ReadonlySet<string>> {
  const { trees, roots, changed } = input;
  const manifests = new Set(
    [trees.base, trees.merged].flatMap(({ all }) =>
      [...all.values()].flatMap(({ rendered }) => ("error" in rendered ? [] : rendered.files)),
    ),
  );
  if (pairs.length === 0 || (changed.paths.length === 0 && changed.complete)) return new Set();
  if (!changed.complete) return new Set(pairs.map(({ name }) => name));
  const listed = await Promise.all(
    (["base", "merged"] as const).map(async (side) => {
      const those = pairs.flatMap((pair) => (pair[side] === undefined ? [] : [{ pair, side: pair[side] }]));
      const answers = await renderIn(
        roots[side],
        those.map(({ side: { release } }) => ({ release, item: { resource: release.resource, objects: [], isUpgrade: true, onlyFiles: true } })), // prettier-ignore
        input,
      );
      return those.map(({ pair }, at) => {
        const answer = answers[at];
        return { name: pair.name, files: answer?.files ?? [], isUnknown: answer !== undefined && isEnded(answer) };
      });
    }),
  );
  const files = Map.groupBy(listed.flat(), ({ name }) => name);
  const isTouched = (pair: ReleasePair) => {
    if (files.get(pair.name)?.some(({ isUnknown }) => isUnknown)) return true;
    const own = new Set((files.get(pair.name) ?? []).flatMap((one) => one.files));
    // The guess is for files that the merge removes or cannot read; a chart in "." would have all manifests too.
    const mayBeOwn = (path: string) =>
      !manifests.has(path) && sidesOf(pair).some(({ release }) => isFileOf(release, path));
    return changed.paths.some((path) => own.has(path) || mayBeOwn(path));
  };
  return new Set(pairs.filter(isTouched).map(({ name }) => name));
}

function isFileOf({ chartPath, valuesFiles }: PlacedRelease["release"], path: string): boolean {
  return chartPath === "" || path === chartPath || path.startsWith(`${chartPath}/`) || valuesFiles.includes(path);
}

interface Prepared {
  readonly pair: ReleasePair;
  readonly capabilities: ClusterCapabilities | undefined;
  readonly live: LiveRelease;
  readonly values: { readonly base?: ReadValues | undefined; readonly merged?: ReadValues | undefined };
  readonly isTouched: boolean;
}

/** Reads what its values come from, and what is known of it in the cluster. */
async function prepare(
  pair: ReleasePair,
  maps: Maps,
  { cluster, isOpenOwner, placeholders, signal }: ReleasesInput,
): Promise<Omit<Prepared, "isTouched"> | { readonly obstacle: string; readonly mendable?: boolean }> {
  const open = () => cluster((pair.merged ?? pair.base)?.parent ?? "");
  const read = (side: "base" | "merged") => {
    const release = pair[side]?.release;
    return release && readValues(release, maps[side], open, { isOpenOwner, placeholders, signal });
  };
  try {
    const [base, merged] = [await read("base"), await read("merged")];
    const obstacle = merged?.obstacle ?? base?.obstacle;
    if (obstacle !== undefined) return { obstacle };
    const live = await readLiveRelease((pair.merged ?? pair.base)?.release, open, signal);
    const capabilities = await readCapabilities(open, signal);
    return { pair, live, capabilities, values: { base, merged } };
  } catch (error) {
    signal.throwIfAborted();
    if (!isDenied(error) && !(error instanceof PreviewRefusedError)) throw error;
    return { obstacle: `its values cannot be read: ${error.message}`, mendable: true };
  }
}

/** `undefined` if the cluster refuses it. */
async function readCapabilities(
  cluster: () => Promise<Pick<PreviewCluster, "capabilities">>,
  signal: AbortSignal,
): Promise<ClusterCapabilities | undefined> {
  try {
    return await (await cluster()).capabilities(signal);
  } catch (error) {
    if (isDenied(error)) return undefined;
    throw error;
  }
}

interface Item {
  readonly release: PlacedRelease["release"];
  readonly item: ReleaseToRender;
}

/** In turns: if values of the time are the same in both renders of the merge, so are those of the base's second one. */
async function renderAll(prepared: readonly Prepared[], input: ReleasesInput): Promise<readonly RenderedPair[]> {
  const { roots } = input;
  const before = await renderSide(prepared, "base", input);
  // What ended the program would most likely end it again, and take as long.
  const ended = [...before].filter(([{ pair }, one]) => isEnded(one) && pair.merged !== undefined);
  const others = prepared.filter((one) => !isEnded(before.get(one)));
  const first = new Map([...ended, ...(await renderSide(others, "merged", input))]);
  const repeated = prepared.filter((one) => {
    const [old, now] = [before.get(one), first.get(one)];
    if (old === undefined || "error" in old || now === undefined || "error" in now) return false;
    return !isDeepStrictEqual(contentOf(old), contentOf(now));
  });
  const items = repeated.flatMap((one) => itemOf(one, "base") ?? []);
  const more = await renderIn(roots.base, items, input);
  const again = new Map(repeated.map((one, at) => [one, more[at]]));
  const afterAgain = await renderSide(repeated, "merged", input);
  return prepared.map((one) => ({
    ...one.pair,
    ...{ before: before.get(one), after: first.get(one), live: one.live },
    ...(again.has(one) && { again: { before: again.get(one), after: afterAgain.get(one) } }),
    hasSecrets:
      sidesOf(one.pair).some(({ isSecret }) => isSecret) ||
      [one.values.base, one.values.merged].some((values) => values?.hasSecrets),
    isChartKept: one.isTouched && isChartKept(one.pair, before.get(one), first.get(one)),
    haveValuesChanged: !isDeepStrictEqual(one.values.base?.objects, one.values.merged?.objects),
  }));
}

/**
 * Whether Flux keeps the chart that it has: it builds one again if the version that Chart.yaml names changes, or what the
 * HelmRelease says of the chart, or for each commit if it is told so.
 */
function isChartKept(
  { base, merged }: ReleasePair,
  before: RenderedRelease | undefined,
  after: RenderedRelease | undefined,
): boolean {
  if (base === undefined || merged === undefined || merged.release.followsRevision) return false;
  const chartOf = ({ release }: PlacedRelease): unknown => field(release.resource, "spec", "chart", "spec");
  if (before?.chart === undefined || !isDeepStrictEqual(chartOf(base), chartOf(merged))) return false;
  return isDeepStrictEqual(before.chart, after?.chart);
}

/**
 * Whether the merge makes Flux build the chart again, which it may not have done for earlier commits: what these have
 * changed in the chart is then released as well, and nothing but the cluster shows what that is.
 */
export function isChartReplaced({ base, merged, before, after }: RenderedPair): boolean {
  if (base === undefined || merged === undefined || merged.release.followsRevision) return false;
  if (before?.chart === undefined || after?.chart === undefined) return false;
  return !isDeepStrictEqual(before.chart, after.chart);
}

async function renderSide(
  prepared: readonly Prepared[],
  side: "base" | "merged",
  input: ReleasesInput,
): Promise<ReadonlyMap<Prepared, RenderedRelease | undefined>> {
  const those = prepared.flatMap((one) => {
    const item = itemOf(one, side);
    return item === undefined ? [] : [{ one, item }];
  });
  const answers = await renderIn(
    input.roots[side],
    those.map(({ item }) => item),
    input,
  );
  return new Map(those.map(({ one }, at) => [one, answers[at]]));
}

function itemOf({ pair, live, values, capabilities }: Prepared, side: "base" | "merged"): Item | undefined {
  const release = pair[side]?.release;
  if (release === undefined) return undefined;
  const hasMetadata = release.followsRevision || release.valuesFiles.length > 0;
  return {
    release,
    item: {
      ...{ resource: release.resource, objects: values[side]?.objects ?? [] },
      ...{ isUpgrade: isUpgrade(pair, live), capabilities },
      ...(hasMetadata && { versionMetadata: live.versionMetadata }),
    },
  };
}

/** Of a chart with which the program of the renderer exceeded its limits. */
interface EndedRelease extends FailedRelease {
  readonly isEnded: true;
}

function isEnded(rendered: RenderedRelease | undefined): boolean {
  return rendered !== undefined && "isEnded" in rendered;
}

/** Whether helm-controller upgrades a release, and does not install it. */
export function isUpgrade({ base }: ReleasePair, { isInstalled }: LiveRelease): boolean {
  return isInstalled ?? base !== undefined;
}

/** In the order of the items; one process for each set of ignored files. A chart that ends it does not take the others with it. */
async function renderIn(
  root: string,
  items: readonly Item[],
  { sources, renderer, limit, signal }: ReleasesInput,
): Promise<readonly (RenderedRelease | undefined)[]> {
  const groups = Map.groupBy(items, ({ release: { source } }) => source && sources.get(keyText(source))?.ignore);
  const answers = new Map<Item, RenderedRelease | undefined>();
  await Promise.all(
    [...groups].map(async ([ignore, members]) => {
      const render = async (some: readonly Item[]) => {
        const releases = some.map(({ item }) => item);
        const made = await limit(() => renderer.renderReleases({ root, ignore, releases }, signal), { signal });
        for (const [at, member] of some.entries()) answers.set(member, made[at]);
      };
      const give = (some: readonly Item[], error: string) => {
        const failure: EndedRelease = { error, isUnsupported: true, files: [], isEnded: true };
        for (const member of some) answers.set(member, failure);
      };
      const first = await findFailure(() => render(members), signal);
      if (first === undefined) return;
      give(members, first.message);
      const others = members.filter(({ release }) => keyText(release.key) !== first.rendering);
      if (others.length === 0 || others.length === members.length) return;
      // Once: each time may take as long as a renderer is given.
      const second = await findFailure(() => render(others), signal);
      if (second !== undefined) give(others, second.message);
    }),
  );
  return items.map((item) => answers.get(item));
}

/** What can be compared of a rendered release. */
export function contentOf(rendered: RenderedRelease | undefined): unknown {
  return rendered === undefined || "error" in rendered
    ? []
    : [rendered.objects, rendered.crds, rendered.hooks.map(({ object }) => object)];
}

/** Returns what the program of the renderer failed with; rejects with everything else. */
async function findFailure(
  work: () => Promise<void>,
  signal: AbortSignal,
): Promise<FluxRenderError | KilledError | undefined> {
  try {
    await work();
    return undefined;
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof FluxRenderError || error instanceof KilledError) return error;
    throw error;
  }
}

/** What a rendered release consists of, in one list. */
export function objectsOf(rendered: RenderedRelease | undefined): readonly JsonObject[] {
  return rendered === undefined || "error" in rendered ? [] : [...rendered.crds, ...rendered.objects];
}
