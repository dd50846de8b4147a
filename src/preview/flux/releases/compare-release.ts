/** One HelmRelease: what an upgrade by Flux would do to the objects of its chart if the pull request were merged. */
import { isDeepStrictEqual } from "node:util";
import { isDenied } from "../../../errors.ts";
import { field, type JsonObject } from "../../../kit/json.ts";
import { annotation, type CommandResult, type ResultError, type ResultObject } from "../../../model.ts";
import type { Preview } from "../../../model/report.ts";
import type { RenderedRelease } from "../../../ports/flux-renderer.ts";
import type { PreviewCluster } from "../../../ports/preview-cluster.ts";
import { toFailure } from "../../../reconcile/failures.ts";
import type { PreviewResult } from "../../compare.ts";
import { describeSafely } from "../../describe-diff.ts";
import { toReferenceDiff } from "../../reference-diff.ts";
import { changesBetween } from "../../render-diff.ts";
import { redactVisibly, toErrorLine } from "../../visible-text.ts";
import { emptyResult, type FluxComparing, named, noCounts } from "../compare-kustomization.ts";
import type { Applier } from "../compare-object.ts";
import { compareObjects, type ObjectsInput } from "../compare-objects.ts";
import type { FluxKustomization, InventoryEntry } from "../kustomization.ts";
import { definedKinds, idOf, namespacesAmong, refOf } from "../manifests.ts";
import type { ReleasePair } from "./pair-releases.ts";
import { fieldManager, isServerApplied, ownershipOf, toHelmObjects } from "./helm-objects.ts";
import { foldRandom, type Twice } from "./random.ts";
import type { FluxRelease } from "./release.ts";
import { contentOf, isChartReplaced, isUpgrade, objectsOf, type RenderedPair } from "./render-releases.ts";

export interface ReleaseComparing extends Pick<
  FluxComparing,
  "base" | "budget" | "clusterName" | "log" | "objects" | "placeholders" | "serverSecrets" | "signal"
> {
  readonly cluster: (kustomization: string) => Promise<PreviewCluster>;
  /** The Kustomization in the cluster. */
  readonly known: (kustomization: string) => FluxKustomization | undefined;
}

export function toWorkingRelease(pair: ReleasePair, { clusterName }: Pick<ReleaseComparing, "clusterName">): Preview {
  const release = releaseOf(pair);
  return {
    ...{ kind: "HelmRelease", deployment: release?.key ?? { namespace: "", name: "" }, cluster: clusterName },
    ...{ state: "working", suspended: release?.suspended === true, counts: noCounts },
    ...{ drift: 0, objects: [], objectsLeftOut: 0, errors: [], warnings: [] },
  };
}

function releaseOf({ base, merged }: ReleasePair): FluxRelease | undefined {
  return (merged ?? base)?.release;
}

/** Of one that cannot be rendered at all. */
export async function toFailedRelease(
  pair: ReleasePair,
  failure: string,
  comparing: ReleaseComparing,
  how: Preview["failed"] = "run",
): Promise<Preview> {
  const text = await toShown(failure, comparing);
  return { ...toWorkingRelease(pair, comparing), state: "failed", failure: text, failed: how };
}

/** Without secrets, and with the names of the values that are not known. */
async function toShown(text: string, { placeholders, serverSecrets }: ReleaseComparing): Promise<string> {
  return placeholders.namedText(await redactVisibly(text, serverSecrets));
}

/** Never rejects, unless the signal aborts. */
export async function compareRelease(pair: RenderedPair, comparing: ReleaseComparing): Promise<PreviewResult> {
  const { signal, log, serverSecrets } = comparing;
  const working = { ...toWorkingRelease(pair, comparing), suspended: isSuspended(pair) };
  const failed = async (failure: string, how: Preview["failed"], rest: Partial<PreviewResult> = {}) => {
    const preview = { ...(await toFailedRelease(pair, failure, comparing, how)), suspended: working.suspended };
    log.warn({ ...working.deployment, error: preview.failure }, "preview of a HelmRelease failed");
    return { ...rest, preview };
  };
  try {
    const { before, after } = pair;
    if (after === undefined && before !== undefined && "error" in before)
      return await failed(`The chart cannot be rendered without the pull request: ${before.error}`, "run");
    if (after !== undefined && "error" in after) {
      const failure = `The chart cannot be rendered: ${after.error}`;
      if (before === undefined || !("error" in before)) return await failed(failure, after.isUnsupported ? "run" : "render"); // prettier-ignore
      return await failed(`The chart cannot be rendered without the pull request either.\n\n${before.error}`, "run");
    }
    const { result, references, mendable } = await compareResults(pair, comparing);
    const ignoreChanges = findIgnored(pair);
    const hiding = { knownSecrets: serverSecrets, maskedValues: result.maskedValues, prune: false };
    const found = await describeSafely(result, { ...hiding, ignoreChanges, references }, signal);
    const { manifests: _, ...described } = found;
    const unattributed =
      before !== undefined && "error" in before ? toErrorLine(await toShown(before.error, comparing)) : undefined;
    return {
      preview: {
        ...{ ...working, ...described, state: "done" },
        ...(isNotUpgraded(pair) && { noUpgrade: true }),
        ...(unattributed !== undefined && { unattributed }),
      },
      mendable,
    };
  } catch (error) {
    signal.throwIfAborted();
    const { message, retry } = toFailure(error);
    return failed(message, "run", { retry });
  }
}

/** Never the merge's annotation: a pull request would hide its own changes. */
function findIgnored({ live, base }: RenderedPair): string | undefined {
  const text = field(live.resource ?? base?.release.resource, "metadata", "annotations", annotation.ignoreChanges);
  return typeof text === "string" ? text : undefined;
}

/** As a person has suspended it in the cluster, unless the pull request resumes it. */
function isSuspended({ base, merged, live }: RenderedPair): boolean {
  if (merged?.release.suspended) return true;
  const resumes =
    merged !== undefined &&
    (base?.release.suspended === true || field(merged.release.resource, "spec", "suspend") === false);
  return live.suspended && !resumes;
}

interface ComparedRelease {
  readonly result: CommandResult;
  readonly references: Parameters<typeof describeSafely>[1]["references"];
  readonly mendable?: boolean;
}

async function compareResults(pair: RenderedPair, comparing: ReleaseComparing): Promise<ComparedRelease> {
  const { base, merged, before, after } = pair;
  const { placeholders } = comparing;
  const release = releaseOf(pair);
  const parent = (merged ?? base)?.parent ?? "";
  const notes = describeRelease(pair);
  const isSame = before !== undefined && isDeepStrictEqual(contentOf(before), contentOf(after));
  const isReplaced = isChartReplaced(pair);
  // In another namespace, the same content is other objects.
  if (release === undefined || (isSame && !isReplaced && !isReinstalled(pair)))
    return { result: { ...emptyResult, warnings: notes }, references: undefined };
  const cluster = await comparing.cluster(parent);
  const input = await toInput(pair, release, cluster, comparing);
  const compared = await compareObjects(input);
  const [refusal] = input.refused.values();
  const hooks = compareHooks(pair, input);
  const refused =
    refusal === undefined
      ? []
      : [toNote(`what the account of previews may not read is compared with the base branch only: ${refusal}`)];
  const warnings = [...compared.merged.warnings, ...input.randomNotes, ...hooks.notes, ...notes, ...refused];
  const result = {
    ...compared.merged,
    objects: [...compared.merged.objects, ...hooks.objects],
    warnings,
    errors: named(compared.merged.errors, placeholders),
  };
  const mendable = refusal !== undefined;
  // Without the merge, Flux would not release what the base has changed in the chart.
  if (input.base === undefined || isReplaced) return { result, references: undefined, mendable };
  const reference = toReferenceDiff({ ...compared.base, errors: named(compared.base.errors, placeholders) });
  const isDeployed = comparing.known(parent)?.applied === comparing.base && pair.live.isOpen;
  return { result, references: { base: reference, deployed: isDeployed ? reference : undefined }, mendable };
}

/** Whether helm-controller sees nothing that differs from what it has released. */
function isNotUpgraded(pair: RenderedPair): boolean {
  const { base, merged, before, after, haveValuesChanged } = pair;
  if (before === undefined || "error" in before || after === undefined || "error" in after || haveValuesChanged)
    return false;
  if (isReinstalled(pair)) return false;
  const causes = (release: FluxRelease | undefined) =>
    ["values", "valuesFrom", "postRenderers", "commonMetadata"].map((name) => field(release?.resource, "spec", name));
  const isSame = isDeepStrictEqual(contentOf(before), contentOf(after)) && isDeepStrictEqual(before.chart, after.chart);
  return isSame && merged?.release.followsRevision === false && isDeepStrictEqual(causes(base?.release), causes(merged.release)); // prettier-ignore
}

/** Whether helm-controller takes it for another release, because of its name, its namespaces or the name of its chart. */
function isReinstalled({ base, merged, before, after }: RenderedPair): boolean {
  if (base === undefined || merged === undefined) return false;
  const charts = [before?.chart?.name, after?.chart?.name];
  if (charts.every((name) => name !== undefined) && charts[0] !== charts[1]) return true;
  const [one, other] = [base, merged].map(({ release }) => [release.releaseName, release.releaseNamespace, release.storageNamespace]); // prettier-ignore
  return !isDeepStrictEqual(one, other);
}

function toNote(message: string): ResultError {
  return { ref: { kind: "", name: "" }, message };
}

function describeRelease(pair: RenderedPair): readonly ResultError[] {
  const { base, isChartKept, hasSecrets } = pair;
  const kept =
    "files of its chart change, and the version in its Chart.yaml does not: Flux keeps the chart that it has built, and does what is shown here not before the version changes or the chart is built again for another reason; change the version, or set reconcileStrategy to Revision";
  const { releaseName, releaseNamespace } = base?.release ?? {};
  const reinstalled = `Flux uninstalls the release ${releaseNamespace}/${releaseName} and installs it again, because its name, a namespace or the name of its chart changes: all of its objects are deleted and created again, also those that are shown as changed or not at all`;
  const unknown =
    "templates that decide by a value from a Secret may render something else: its name stands in for it here";
  return [
    ...(hasSecrets ? [toNote(unknown)] : []),
    ...(isChartKept ? [toNote(kept)] : []),
    ...(isReinstalled(pair) ? [toNote(reinstalled)] : []),
  ];
}

type ReleaseInput = ObjectsInput & {
  readonly randomNotes: readonly ResultError[];
  readonly refused: ReadableCluster["refused"];
  /** A hook of each commit with the namespace that Helm gives it. */
  readonly place: Readonly<Record<"base" | "merged", (hook: JsonObject) => JsonObject>>;
};

async function toInput(
  pair: RenderedPair,
  release: FluxRelease,
  cluster: PreviewCluster,
  comparing: ReleaseComparing,
): Promise<ReleaseInput> {
  const { before, after, again } = pair;
  const { placeholders, objects, budget, signal } = comparing;
  const definitions = [before, after].flatMap((one) => (one === undefined || "error" in one ? [] : one.crds));
  const everything = [...[before, after, again?.before].flatMap(objectsOf), ...[before, after].flatMap(hooksOf)];
  const previous = pair.base?.release ?? release;
  const mark = await toHelmObjects(release, everything, { cluster, signal });
  const markBase = isReinstalled(pair) ? await toHelmObjects(previous, everything, { cluster, signal }) : mark;
  // Helm does not manage what comes from the directories `crds`.
  const markAll = (one: RenderedRelease | undefined, add = mark) =>
    one === undefined || "error" in one ? [] : [...one.crds, ...one.objects.map(add)];
  const baseObjects = before !== undefined && "error" in before ? undefined : markAll(before, markBase);
  const afterAll = markAll(after);
  const folded = fold({
    base: [baseObjects ?? [], markAll(again?.before, markBase)],
    merged: [afterAll, again === undefined ? afterAll : markAll(again.after)],
  });
  const hidden = whyHidden(pair, comparing);
  const readable = createReadable(cluster, baseObjects ?? []);
  const isRefused = (object: JsonObject) => readable.refused.has(idOf(object) ?? "");
  const replaces = release.replacesDefinitions[isUpgrade(pair, pair.live) ? "upgrade" : "install"];
  const createOnly = replaces ? new Set<string>() : new Set(definitions.map((one) => idOf(one)));
  const [owner, previousOwner] = [ownershipOf(release), ownershipOf(previous)];
  const applier: Applier = {
    fieldManager,
    leavesAlone: (desired, live) => live !== undefined && createOnly.has(idOf(desired)),
    replaces: () => false,
    deletes: (live) => previousOwner.isOwn(live) && !previousOwner.isKept(live),
  };
  const isGone = (object: JsonObject) => !definitions.some((one) => idOf(one) === idOf(object));
  const has = (object: JsonObject | undefined) => object !== undefined && placeholders.isIn(object);
  return {
    ...{ cluster: readable.cluster, applier, base: baseObjects, merged: folded.objects, budget, signal },
    // Helm never deletes what comes from the directories `crds`.
    comparesAll: isChartReplaced(pair),
    inventory: (baseObjects ?? []).filter(isGone).flatMap(toEntry),
    prunes: true,
    defined: new Set([...objects.defined, ...definedKinds(definitions)]),
    namespaces: new Set([...objects.namespaces, ...createdNamespaces(release, objectsOf(after))]),
    shown: placeholders.named,
    isIncomplete: has,
    isNameUnknown: ({ metadata }) => {
      const { name, namespace } = (metadata ?? {}) as JsonObject;
      return placeholders.isIn({ name, namespace });
    },
    isElsewhere: () => false,
    isLiveHidden: ({ base, merged: desired }, live) =>
      hidden !== undefined ||
      isRefused(desired) ||
      [base, desired].some(has) ||
      folded.random.has(idOf(desired) ?? "") ||
      (live !== undefined && (!isServerApplied(live) || (owner.isOfAnother(live) && previousOwner.isOfAnother(live)))),
    whyLiveHidden: (object, live) =>
      isRefused(object)
        ? "the account of previews may not read it there"
        : hidden === undefined && live !== undefined && !isServerApplied(live)
          ? "Flux did not use server-side apply there, so it is not known which fields an upgrade removes"
          : undefined,
    whyBaseOnly: hidden ?? "the cluster has values of its own there, or the object belongs to something else",
    randomNotes: folded.notes,
    place: { base: markBase, merged: mark },
    refused: readable.refused,
  };
}

/** Those that exist before the other objects are applied. */
function createdNamespaces(release: FluxRelease, objects: readonly JsonObject[]): readonly string[] {
  const creates = field(release.resource, "spec", "install", "createNamespace") === true;
  return [...namespacesAmong(objects), ...(creates ? [release.releaseNamespace] : [])];
}

function toEntry(object: JsonObject): InventoryEntry[] {
  const ref = refOf(object);
  return ref === undefined ? [] : [{ ref, apiVersion: String(object["apiVersion"]) }];
}

/** Why nothing live of it is shown. */
function whyHidden({ base, merged, hasSecrets, live }: RenderedPair, comparing: ReleaseComparing): string | undefined {
  if (hasSecrets) return "some of its values come from a Secret";
  if (live.exists && !live.isOpen)
    return "what is in the cluster may have been released with values from a Secret, or with an earlier spec";
  if (field(merged?.release.resource, "spec", "upgrade", "serverSideApply") === "disabled")
    return "the HelmRelease disables server-side apply, and it is not known which fields an upgrade then removes";
  const parent = comparing.known((merged ?? base)?.parent ?? "");
  const hasUnknown = parent?.decrypts === true || parent?.substituteFrom.some(({ kind }) => kind === "Secret") === true;
  return hasUnknown && parent.applied !== comparing.base
    ? "Flux has not applied the base branch, and values of an earlier commit may come from a Secret"
    : undefined;
}

interface FoldedObjects {
  readonly objects: readonly JsonObject[];
  /** Ids of those with values that are different each time. */
  readonly random: ReadonlySet<string>;
  readonly notes: readonly ResultError[];
}

const mostPaths = 5;

function fold({ base, merged }: Twice<readonly JsonObject[]>): FoldedObjects {
  const [first, second, again] = [base[0], base[1], merged[1]].map(byId) as [ById, ById, ById];
  const random = new Set<string>();
  const notes: ResultError[] = [];
  const objects = merged[0].map((object) => {
    const id = idOf(object) ?? "";
    const [one, other, repeated] = [first.get(id), second.get(id), again.get(id)];
    if (one === undefined || other === undefined || isDeepStrictEqual(one, other)) return object;
    random.add(id);
    if (repeated === undefined) return object;
    const folded = foldRandom({ base: [one, other], merged: [object, repeated] });
    const ref = refOf(object);
    if (ref !== undefined && folded.paths.length > 0) notes.push({ ref, message: describeRandom(folded.paths) });
    return folded.object;
  });
  const isOther = (one: ById, other: ById) => other.size > 0 && [...one.keys()].some((id) => !other.has(id));
  if (isOther(first, second) || isOther(byId(merged[0]), again))
    notes.push(toNote("objects have other names each time that the chart is rendered, so some are shown as new and as deleted")); // prettier-ignore
  return { objects, random, notes };
}

function describeRandom(paths: readonly string[]): string {
  const more = paths.length > mostPaths ? ` and ${paths.length - mostPaths} more` : "";
  return `changes of ${paths.slice(0, mostPaths).join(", ")}${more} are not shown: the chart makes other values there each time that it is rendered`;
}

type ById = ReadonlyMap<string, JsonObject>;

function byId(objects: readonly JsonObject[]): ById {
  return new Map(objects.map((object) => [idOf(object) ?? "", object]));
}

interface ReadableCluster {
  readonly cluster: PreviewCluster;
  /** By id, why the cluster does not show an object. */
  readonly refused: ReadonlyMap<string, string>;
}

/** Of what the account may not read, as if the cluster had the objects of the base, about which nothing else is known. */
function createReadable(cluster: PreviewCluster, base: readonly JsonObject[]): ReadableCluster {
  const known = byId(base);
  const refused = new Map<string, string>();
  const isRefused = (object: JsonObject) => refused.has(idOf(object) ?? "");
  const readable: PreviewCluster = {
    ...cluster,
    async find(object, signal) {
      try {
        return await cluster.find(object, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!isDenied(error)) throw error;
        refused.set(idOf(object) ?? "", error.message);
        return { live: known.get(idOf(object) ?? "") };
      }
    },
    dryRun: (object, manager, signal) =>
      isRefused(object) ? Promise.resolve({ applied: object }) : cluster.dryRun(object, manager, signal),
  };
  return { cluster: readable, refused };
}

function hooksOf(rendered: RenderedRelease | undefined): readonly JsonObject[] {
  return rendered === undefined || "error" in rendered ? [] : rendered.hooks.map(({ object }) => object);
}

interface ComparedHooks {
  readonly objects: readonly ResultObject[];
  readonly notes: readonly ResultError[];
}

/** Not marked as a hook: of those that kluctl runs, only changes count. */
const nothingDone = { changes: [], new: false, orphan: false, deleted: false, hook: false };

/** Hooks may be gone after each upgrade: the renders are compared with each other. */
function compareHooks(pair: RenderedPair, { shown, place, base = [], merged }: ReleaseInput): ComparedHooks {
  const { again } = pair;
  const folded = fold({
    base: [hooksOf(pair.before), hooksOf(again?.before)],
    merged: [hooksOf(pair.after), hooksOf(again === undefined ? pair.after : again.after)],
  });
  const placed = (hooks: readonly JsonObject[], side: "base" | "merged") =>
    hooks.flatMap((object) => {
      const [id, ref] = [idOf(place[side](object)), refOf(place[side](shown(object)))];
      return id === undefined || ref === undefined ? [] : [{ ref, id, object }];
    });
  const [before, after] = [placed(hooksOf(pair.before), "base"), placed(folded.objects, "merged")];
  const old = new Map(before.map(({ id, object }) => [id, object]));
  const ids = new Set(after.map(({ id }) => id));
  const [wasObject, isObject] = [new Set(base.map(idOf)), new Set(merged.map(idOf))];
  const current = after.flatMap(({ ref, id, object }): ResultObject[] => {
    const was = old.get(id);
    if (isDeepStrictEqual(was, object)) return [];
    const text = JSON.stringify(shown(object));
    const now = { ...nothingDone, ref, rendered: text, applied: text };
    if (was === undefined) return [{ ...now, new: true }];
    const changes = changesBetween(shown(was), shown(object));
    return [{ ...now, changes, hook: true, remote: JSON.stringify(shown(was)) }];
  });
  // Helm deletes no hook because it has left the chart.
  const gone = before
    .filter(({ id }) => !ids.has(id) && !isObject.has(id))
    .map(({ ref, object }) => ({ ...nothingDone, ref, orphan: true, remote: JSON.stringify(shown(object)) }));
  const becoming = after.filter(({ id }) => !old.has(id) && wasObject.has(id) && !isObject.has(id));
  const notes = [
    ...folded.notes,
    ...becoming.map(({ ref }) => ({ ref, message: "it becomes a hook: it is deleted from the release, and created when the hook runs" })), // prettier-ignore
    ...before
      .filter(({ id }) => !ids.has(id) && isObject.has(id) && !wasObject.has(id))
      .map(({ ref }) => ({ ref, message: "it is a hook until now, and becomes an object of the release" })),
  ];
  return { objects: [...current, ...gone], notes };
}
