/** One Kustomization: what Flux would do to its objects if the pull request were merged. */
import { isDeepStrictEqual } from "node:util";
import { isDenied, PreviewRefusedError, UnreadableResultError } from "../../errors.ts";
import { field, type JsonObject } from "../../kit/json.ts";
import type { Logger } from "../../log.ts";
import { annotation, type CommandResult, type Key, keyText } from "../../model.ts";
import { countUncounted, type Preview } from "../../model/report.ts";
import type { PreviewCluster } from "../../ports.ts";
import { toFailure } from "../../reconcile/failures.ts";
import type { DiffReferences } from "../attribute.ts";
import type { PreviewResult } from "../compare.ts";
import { describeSafely } from "../describe-diff.ts";
import { toReferenceDiff } from "../reference-diff.ts";
import { redactVisibly, toErrorLine } from "../visible-text.ts";
import { isEncrypted, withPlaceholders } from "./ciphertext.ts";
import type { Applier } from "./compare-object.ts";
import { compareObjects, compareRemoved, type ObjectBudget, type ObjectsInput } from "./compare-objects.ts";
import type { FluxKustomization } from "./kustomization.ts";
import { idOf, isLeftAlone, isOfAnother, isPruned, isReplaced } from "./manifests.ts";
import type { Placeholders } from "./placeholders.ts";
import type { RenderedKustomization, RenderedTree } from "./render-tree.ts";
import type { RenderedObjects } from "./rendered-objects.ts";

export interface KustomizationPair {
  readonly name: string;
  /** In the cluster. */
  readonly known?: FluxKustomization | undefined;
  readonly base?: RenderedKustomization | undefined;
  readonly merged?: RenderedKustomization | undefined;
  /** The merge removes it, and Flux then deletes it: its objects go, or stay. */
  readonly isRemoved?: boolean | undefined;
  /** The base cannot be rendered. */
  readonly baseError?: string | undefined;
}

export interface FluxComparing {
  readonly trees: { readonly base: RenderedTree; readonly merged: RenderedTree };
  readonly objects: RenderedObjects;
  readonly budget: ObjectBudget;
  readonly whyUnrendered: ObjectsInput["whyUnrendered"];
  /** The commit of the base. */
  readonly base: string;
  readonly cluster: (pair: KustomizationPair) => Promise<PreviewCluster>;
  readonly clusterName: string;
  /** Whether its GitRepository is suspended. */
  readonly isSourceSuspended: (kustomization: FluxKustomization) => boolean;
  /** Whether a suspended one would have to create or delete it. */
  readonly isParentSuspended: (pair: KustomizationPair) => boolean;
  readonly placeholders: Placeholders;
  readonly serverSecrets: readonly string[];
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const words =
  "Its objects are in a cluster that only a Secret names. No Secret of Flux is read, so they cannot be compared.";

/** Never rejects, unless the signal aborts. */
export async function compareKustomization(pair: KustomizationPair, comparing: FluxComparing): Promise<PreviewResult> {
  const { signal, log, serverSecrets, placeholders } = comparing;
  const working = toWorkingFlux(pair, comparing);
  const failed = async (failure: string, how: Preview["failed"], rest: Partial<PreviewResult> = {}) => {
    const text = placeholders.namedText(await redactVisibly(failure, serverSecrets));
    log.warn({ ...working.deployment, error: text }, "preview of a Kustomization failed");
    return { ...rest, preview: { ...working, state: "failed" as const, failure: text, failed: how } };
  };
  try {
    const { merged, baseError } = pair;
    if (merged !== undefined && "error" in merged.rendered) {
      if (baseError === undefined) return await failed(merged.rendered.error, "render");
      const also = "The Kustomization cannot be built without the pull request either.";
      return await failed(`${also}\n\n${baseError}`, "run");
    }
    if ([pair.known, pair.base?.kustomization, merged?.kustomization].some((one) => one?.isRemote))
      return await failed(words, "run");
    const { result, references } = await compareResults(pair, comparing);
    const { ignoreChanges, unattributed } = await describePair(pair, comparing);
    const hiding = { knownSecrets: serverSecrets, maskedValues: result.maskedValues, prune: false };
    const found = await describeSafely(result, { ...hiding, ignoreChanges, references }, signal);
    const { manifests: _, ...described } = found;
    const drift = countUncounted(found.drifted);
    return {
      preview: { ...working, ...described, state: "done", drift, ...(unattributed !== undefined && { unattributed }) },
    };
  } catch (error) {
    signal.throwIfAborted();
    const { message, retry } = toFailure(error);
    const isOperators =
      error instanceof PreviewRefusedError || error instanceof UnreadableResultError || isDenied(error);
    return failed(message, "run", { retry: isOperators ? "person" : retry, mendable: isOperators });
  }
}

async function describePair({ merged, known, baseError }: KustomizationPair, { serverSecrets }: FluxComparing) {
  const ignoreChanges = (known ?? merged?.kustomization)?.annotations[annotation.ignoreChanges];
  const text = baseError && (await redactVisibly(baseError, serverSecrets));
  const unattributed = text && toErrorLine(text);
  return { ignoreChanges, unattributed };
}

interface ComparedResults {
  readonly result: CommandResult;
  readonly references: DiffReferences | undefined;
}

async function compareResults(pair: KustomizationPair, comparing: FluxComparing): Promise<ComparedResults> {
  const { known, base, merged } = pair;
  const { signal, objects, budget, placeholders } = comparing;
  const inventory = known?.inventory ?? [];
  const owner = (known ?? merged?.kustomization ?? base?.kustomization)?.key ?? { namespace: "", name: "" };
  const isElsewhere = (id: string) => objects.isElsewhere(id, pair.name);
  if (merged === undefined) {
    const prunes = pair.isRemoved === true && known?.takesObjects === true;
    const cluster = await comparing.cluster(pair);
    const result = await compareRemoved({
      cluster,
      applier: applierOf(owner, false),
      inventory,
      prunes,
      isElsewhere,
      budget,
      signal,
    });
    return { result, references: undefined };
  }
  const before = pair.baseError === undefined ? objectsOf(base) : undefined;
  const after = objectsOf(merged) ?? [];
  if (isDeepStrictEqual(before, after)) return { result: emptyResult, references: undefined };
  const cluster = await comparing.cluster(pair);
  const { isLiveHidden, shown, isIncomplete, isNameUnknown } = hidingIn(pair, comparing);
  const compared = await compareObjects({
    ...{ cluster, base: before, merged: after, inventory, isElsewhere, budget, signal },
    ...{ isLiveHidden, shown, isIncomplete, isNameUnknown },
    prunes: merged.kustomization.prunes,
    applier: applierOf(owner, merged.kustomization.forces),
    whyUnrendered: comparing.whyUnrendered,
    defined: objects.defined,
    namespaces: objects.namespaces,
  });
  const warnings = [...compared.merged.warnings, ...describeVariables(merged.kustomization, comparing)];
  const result = { ...compared.merged, warnings, errors: named(compared.merged.errors, placeholders) };
  if (before === undefined) return { result, references: undefined };
  const reference = toReferenceDiff({ ...compared.base, errors: named(compared.base.errors, placeholders) });
  return {
    result,
    references: { base: reference, deployed: known?.applied === comparing.base ? reference : undefined },
  };
}

function applierOf(owner: Key, forces: boolean): Applier {
  return {
    fieldManager: "kustomize-controller",
    leavesAlone: isLeftAlone,
    replaces: (desired, live) => isReplaced(forces, desired, live),
    deletes: (live) => isPruned(live, owner),
  };
}

export const emptyResult: CommandResult = { document: {}, objects: [], errors: [], warnings: [], objectsHash: "" };

export function named(errors: CommandResult["errors"], { namedText }: Placeholders): CommandResult["errors"] {
  return errors.map(({ ref, message }) => ({ ref, message: namedText(message) }));
}

function objectsOf(one: RenderedKustomization | undefined): readonly JsonObject[] | undefined {
  if (one === undefined) return [];
  return "error" in one.rendered ? undefined : one.rendered.objects;
}

/**
 * What may be shown of objects with values that are secret and not known here. In the cluster are those of the last applied
 * commit, which another commit may have in other places. Another Kustomization than this one may have applied the live
 * object, with secrets of its own: a branch can name each object of the cluster in each Kustomization.
 */
function hidingIn(
  { known, base, merged, baseError }: KustomizationPair,
  { placeholders, base: commit, trees }: FluxComparing,
) {
  const all = [known, base?.kustomization, merged?.kustomization];
  const hasUnknown = all.some((one) => one?.decrypts || one?.substituteFrom.some(({ kind }) => kind === "Secret"));
  const isOlder = hasUnknown && (known?.applied !== commit || baseError !== undefined);
  const isSecret = (id = "") => trees.base.withSecrets.has(id) || trees.merged.withSecrets.has(id);
  const isHidden = (object: JsonObject | undefined) =>
    object !== undefined && (isEncrypted(object) || placeholders.isIn(object));
  const shown = (object: JsonObject) => placeholders.named(isEncrypted(object) ? withPlaceholders(object) : object);
  return {
    shown,
    isIncomplete: isHidden,
    isNameUnknown: ({ metadata }: JsonObject) => {
      const { name, namespace } = (metadata ?? {}) as JsonObject;
      return placeholders.isIn({ name, namespace });
    },
    isLiveHidden: (pair: { base?: JsonObject | undefined; merged: JsonObject }, live: JsonObject | undefined) =>
      isOlder ||
      [pair.base, pair.merged].some(isHidden) ||
      isOfAnother(live, known?.key) ||
      isSecret(idOf(pair.merged)),
  };
}

/** Variables that the pull request changes have their present values. */
function describeVariables(
  { key, substituteFrom }: FluxKustomization,
  { objects: { changedConfigMaps } }: FluxComparing,
): CommandResult["warnings"] {
  const maps = substituteFrom.filter(({ kind }) => kind === "ConfigMap").map(({ name }) => name);
  return maps
    .filter((name) => changedConfigMaps.has(keyText({ namespace: key.namespace, name })))
    .map((name) => ({
      ref: { version: "v1", kind: "ConfigMap", name, namespace: key.namespace },
      message: "its variables are substituted with their present values, although the pull request changes it",
    }));
}

type Surroundings = Pick<FluxComparing, "clusterName" | "isSourceSuspended" | "isParentSuspended">;

/** After the merge: what a person has suspended in the cluster stays so, unless the pull request resumes it. */
function isSuspended({ known, base, merged }: KustomizationPair): boolean {
  if (merged?.kustomization.suspended) return true;
  const resumes =
    merged !== undefined &&
    (base?.kustomization.suspended === true || field(merged.kustomization.resource, "spec", "suspend") === false);
  return known?.suspended === true && !resumes;
}

export function toWorkingFlux(
  pair: KustomizationPair,
  { clusterName, isSourceSuspended, isParentSuspended }: Surroundings,
): Preview {
  const { known, base, merged } = pair;
  const kustomization = merged?.kustomization ?? known ?? base?.kustomization;
  return {
    kind: "Kustomization",
    deployment: kustomization?.key ?? { namespace: "", name: "" },
    cluster: clusterName,
    state: "working",
    suspended:
      isSuspended(pair) || isParentSuspended(pair) || (kustomization !== undefined && isSourceSuspended(kustomization)),
    counts: noCounts,
    ...{ drift: 0, objects: [], objectsLeftOut: 0, errors: [], warnings: [] },
  };
}

/** One of which nothing is known. */
export function toFailedFlux(
  { key, suspended }: Pick<FluxKustomization, "key" | "suspended">,
  clusterName: string,
  failure: string,
): Preview {
  return {
    ...{ kind: "Kustomization", deployment: key, cluster: clusterName, state: "failed", suspended },
    ...{ failure, failed: "run", counts: noCounts, drift: 0, objects: [], objectsLeftOut: 0, errors: [], warnings: [] },
  };
}

export const noCounts: Preview["counts"] = { new: 0, changed: 0, deleted: 0, orphan: 0, errors: 0, warnings: 0 };
