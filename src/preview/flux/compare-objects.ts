/** Compares what the base and the merge render of one Kustomization with the live cluster, in the form of kluctl's diff. */
import { isDeepStrictEqual } from "node:util";
import { createLimit } from "../../kit/limit.ts";
import type { JsonObject } from "../../kit/json.ts";
import { type CommandResult, type ObjectRef, refId, type ResultError, type ResultObject } from "../../model.ts";
import type { PreviewCluster } from "../../ports/preview-cluster.ts";
import { plural } from "../summary.ts";
import { isGenerated } from "./ciphertext.ts";
import { type ComparedObject, compareObject, type ObjectPair, type ObjectSurroundings } from "./compare-object.ts";
import type { InventoryEntry } from "./kustomization.ts";
import { releaseTitle } from "./releases/release.ts";
import { refOf } from "./manifests.ts";

export interface ObjectsInput extends ObjectSurroundings {
  readonly cluster: PreviewCluster;
  /** `undefined`: the base cannot be rendered, and everything in the merge is compared. */
  readonly base: readonly JsonObject[] | undefined;
  readonly merged: readonly JsonObject[];
  /** Whether objects that the base and the merge render alike are compared as well. */
  readonly comparesAll?: boolean | undefined;
  /** What Flux has applied; objects that neither the base nor the merge has are left out, if the base can be rendered. */
  readonly inventory: readonly InventoryEntry[];
  readonly prunes: boolean;
  /** Whether the name of a rendered object is not known. */
  readonly isNameUnknown: (object: JsonObject) => boolean;
  /** Whether another Kustomization of the merge has an object, which then moves there. */
  readonly isElsewhere: (id: string) => boolean;
  readonly budget: ObjectBudget;
  /** Why objects are compared with the base branch instead of the cluster; absent: they may have secret values. */
  readonly whyBaseOnly?: string | undefined;
  /** Why the chart of a HelmRelease is not rendered; `undefined`: it is, and has a preview of its own. */
  readonly whyUnrendered?: ((release: string) => string | undefined) | undefined;
}

export interface ComparedObjects {
  readonly merged: CommandResult;
  /** Of the base, as far as the merge differs from it. */
  readonly base: CommandResult;
}

/** More than a person reads of one Kustomization, and of all of them together; each costs three requests. */
const mostObjects = 1_000;
const mostInAll = 2_000;

/** How many objects of a pull request may be compared. */
export interface ObjectBudget {
  /** Takes some; returns how many of them there were. */
  take(wanted: number): number;
}

export function createObjectBudget(): ObjectBudget {
  let left = mostInAll;
  return {
    take(wanted) {
      const taken = Math.min(wanted, mostObjects, left);
      left -= taken;
      return taken;
    },
  };
}

/** Beside the limit of the cluster's client, so that one Kustomization does not fill its queue. */
const atOnce = 8;

/** Throws ApiError. */
export async function compareObjects(input: ObjectsInput): Promise<ComparedObjects> {
  const { base = [], merged, signal } = input;
  const [before, after] = [byId(base), byId(merged)];
  const pairs = [...after].flatMap(([id, { ref, object }]): ObjectPair[] => {
    const known = before.get(id)?.object;
    return !input.comparesAll && isDeepStrictEqual(known, object) ? [] : [{ ref, base: known, merged: object }];
  });
  const nameless = pairs.filter((pair) => input.isNameUnknown(pair.merged)).length;
  const isOfBase = (id: string) => input.base === undefined || before.has(id);
  const isGone = ({ ref }: InventoryEntry) => isOfBase(refId(ref)) && !after.has(refId(ref));
  const gone = input.inventory.filter(isGone);
  const limit = createLimit(atOnce);
  const most = input.budget.take(pairs.length - nameless + gone.length);
  const shown = pairs.filter((pair) => !input.isNameUnknown(pair.merged)).slice(0, most);
  const goneShown = gone.slice(0, most - shown.length);
  const [compared, removed] = await Promise.all([
    Promise.all(shown.map((pair) => limit.run(() => compareObject(pair, input), { signal }))),
    Promise.all(goneShown.map((entry) => limit.run(() => findRemoved(entry, input), { signal }))),
  ]);
  const leftOut = pairs.length - nameless + gone.length - shown.length - goneShown.length;
  const objects = [...compared.flatMap((one) => one.merged ?? []), ...removed.flatMap((one) => one ?? [])];
  const notes = [
    ...describe(compared, shown, { leftOut, nameless, why: input.whyBaseOnly }),
    ...describeUnrendered(objects, input),
  ];
  return {
    merged: toCommandResult(
      objects,
      compared.flatMap(({ errors }) => errors),
      notes,
      input,
    ),
    base: toCommandResult(
      compared.flatMap((one) => one.base ?? []),
      compared.flatMap((one) => one.baseErrors),
      [],
      input,
    ),
  };
}

/** Of a Kustomization that the merge removes: what becomes of the objects that Flux has applied of it. Throws ApiError. */
export async function compareRemoved(
  input: Pick<ObjectsInput, "cluster" | "applier" | "inventory" | "prunes" | "isElsewhere" | "budget" | "signal">,
): Promise<CommandResult> {
  const limit = createLimit(atOnce);
  const shown = input.inventory.slice(0, input.budget.take(input.inventory.length));
  const removed = await Promise.all(
    shown.map((entry) => limit.run(() => findRemoved(entry, input), { signal: input.signal })),
  );
  const leftOut = input.inventory.length - shown.length;
  return toCommandResult(
    removed.flatMap((one) => one ?? []),
    [],
    describe([], [], { leftOut, nameless: 0 }),
    input,
  );
}

async function findRemoved(
  { ref, apiVersion }: InventoryEntry,
  { cluster, applier, prunes, isElsewhere, signal }: Omit<Parameters<typeof compareRemoved>[0], "budget">,
): Promise<ResultObject | undefined> {
  if (isElsewhere(refId(ref))) return undefined;
  const { kind, name, namespace } = ref;
  const found = await cluster.find({ apiVersion, kind, metadata: { name, namespace } }, signal);
  if ("problem" in found || found.live === undefined || !applier.deletes(found.live)) return undefined;
  const remote = JSON.stringify(found.live);
  return { ref, changes: [], new: false, deleted: prunes, orphan: !prunes, hook: false, remote };
}

function byId(objects: readonly JsonObject[]): ReadonlyMap<string, { ref: ObjectRef; object: JsonObject }> {
  return new Map(
    objects.flatMap((object) => {
      const ref = refOf(object);
      return ref === undefined ? [] : [[refId(ref), { ref, object }] as const];
    }),
  );
}

const nothing: ObjectRef = { kind: "", name: "" };

function describe(
  compared: readonly ComparedObject[],
  pairs: readonly ObjectPair[],
  {
    leftOut,
    nameless,
    why = "the cluster may have values that are encrypted or come from a Secret",
  }: { readonly leftOut: number; readonly nameless: number; readonly why?: string | undefined },
): readonly ResultError[] {
  const count = (why: ComparedObject["unvalidated"]) => compared.filter((one) => one.unvalidated === why).length;
  const [incomplete, defined] = [count("incomplete"), count("defined by the merge")];
  const baseOnly = Map.groupBy(
    compared.filter(({ isBaseOnly }) => isBaseOnly),
    ({ whyBaseOnly }) => whyBaseOnly ?? why,
  );
  const were = (number: number) => (number === 1 ? "was" : "were");
  const lines = [
    defined > 0 &&
      `${plural(defined, "object")} ${were(defined)} not validated, because the namespace or the definition is new as well`,
    incomplete > 0 &&
      `${plural(incomplete, "object")} ${were(incomplete)} not validated, because values are encrypted or come from a Secret`,
    ...[...baseOnly].map(
      ([reason, { length }]) =>
        `${plural(length, "object")} ${were(length)} compared with the base branch, not with the cluster, because ${reason}`,
    ),
    nameless > 0 &&
      `${plural(nameless, "object")} ${were(nameless)} not compared, because a variable from a Secret is part of the name`,
    pairs.some(({ merged }) => isGenerated(merged)) &&
      "a Secret is generated from an encrypted file: Flux gives it a name that ends differently",
    leftOut > 0 && `${plural(leftOut, "more object")} that the merge changes ${were(leftOut)} not compared`,
  ];
  return [
    ...lines.filter((line) => line !== false).map((message) => ({ ref: nothing, message })),
    ...compared.flatMap(({ isReplaced, merged }) =>
      isReplaced && merged
        ? [{ ref: merged.ref, message: "it cannot be changed, so Flux deletes it and creates it again (force)" }]
        : [],
    ),
  ];
}

/** What comes of a changed HelmRelease has a preview of its own, unless its chart is not rendered. */
function describeUnrendered(
  objects: readonly ResultObject[],
  { whyUnrendered }: Pick<ObjectsInput, "whyUnrendered">,
): readonly ResultError[] {
  const isTouched = ({ changes, new: isNew, deleted }: ResultObject) => changes.length > 0 || isNew || deleted;
  return objects.filter(isTouched).flatMap(({ ref }) => {
    if (ref.group !== "helm.toolkit.fluxcd.io" || ref.kind !== "HelmRelease") return [];
    const reason = whyUnrendered?.(releaseTitle({ namespace: ref.namespace ?? "", name: ref.name }));
    if (reason === undefined) return [];
    const message = `its chart is not rendered: ${reason}; only the HelmRelease itself is compared, not the objects of the release`;
    return [{ ref, message }];
  });
}

function toCommandResult(
  objects: readonly ResultObject[],
  errors: readonly ResultError[],
  warnings: readonly ResultError[],
  { cluster }: { readonly cluster: Pick<PreviewCluster, "maskedValues"> },
): CommandResult {
  return { document: {}, objects, errors, warnings, objectsHash: "", maskedValues: cluster.maskedValues() };
}
